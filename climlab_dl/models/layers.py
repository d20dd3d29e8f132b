"""What the networks are made of: convolutions that know the sphere, norms, and checks that come before the work."""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, TypedDict, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from climlab_dl.models.convolve import Way, convolve

Padding = Literal["periodic", "zeros"]
"""What lies beyond the map's edge: longitude wraps ("periodic") or not ("zeros"); beyond the poles there is nothing."""

Norm = Literal["batch", "group", "half", "none"]
"""What follows a convolution: batch or group normalisation, a constant factor of one half, or its own bias."""


class Style(TypedDict):
    """What the layers of a part of a network have in common."""

    norm: Norm
    padding: Padding
    relu: bool


class Recomputable(nn.Module):
    """Part of a network that can forget its insides and compute them again for the gradient."""

    recompute = False

    def __call__(self, *inputs: Tensor) -> Any:
        """Run the module; while recording gradients keep its inputs only, if asked to."""
        return forgetful(super().__call__, self, *inputs) if self.recompute else super().__call__(*inputs)


def forgetful(function: Callable[..., Any], part: nn.Module, *inputs: Tensor) -> Any:
    """Call a function that uses part of a network, keeping its inputs only, and again for the gradient.

    What it ends with is not computed again, unless that is one of our own autograd functions.
    """
    if not (part.training and torch.is_grad_enabled()) or torch.compiler.is_compiling():
        return function(*inputs)
    again = _statistics_untouched(part)
    return checkpoint(function, *inputs, use_reentrant=False, context_fn=lambda: (nullcontext(), again))


@contextmanager
def _statistics_untouched(module: nn.Module) -> Iterator[None]:
    """Keep batch normalisation from counting the same batch twice."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    before = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm, (_, batches) in zip(norms, before, strict=True):
        norm.momentum = 0.0
        norm.num_batches_tracked = None if batches is None else batches.clone()
    try:
        yield
    finally:
        for norm, (momentum, batches) in zip(norms, before, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, batches


def recompute(network: nn.Module, wanted: bool) -> None:
    """Choose for every part of a network that can whether it forgets and recomputes."""
    for module in network.modules():
        if isinstance(module, Recomputable):
            module.recompute = wanted


def wrap(fields: Tensor, west: int, east: int) -> Tensor:
    """Continue the last dimension across its seam.

    Parameters
    ----------
    fields : Tensor
        Shape ``(batch, channels, lat, lon)``.
    west, east : int
        Columns to add before the first and after the last longitude.

    Returns
    -------
    Tensor
        Shape ``(batch, channels, lat, west + lon + east)``, in the memory format of the fields.
    """
    longitudes = fields.shape[-1]
    if max(west, east) <= longitudes:
        # Circular padding would give a map whose channels lie together back with them apart.
        return torch.cat((fields[..., longitudes - west :], fields, fields[..., :east]), -1)
    # A dilated kernel may reach further than once round a small globe.
    around = torch.arange(-west, longitudes + east, device=fields.device) % longitudes
    return fields.index_select(-1, around)


class Conv2d(nn.Conv2d):
    """Convolution that keeps the map's size (divided by the stride).

    Latitude is padded with zeros inside the convolution, at no cost; longitude is wrapped when ``padding`` is periodic.
    """

    def __init__(
        self,
        channels: int,
        features: int,
        kernel: int,
        *,
        padding: Padding,
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
    ):
        reach = dilation * (kernel - 1) // 2
        self.seam = reach if padding == "periodic" else 0
        around = (reach, reach - self.seam)
        super().__init__(channels, features, kernel, stride, around, dilation, groups, bias)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name is torch's
        """Convolve ``(batch, channels, lat, lon)``."""
        if torch.compiler.is_compiling():  # a compiler decides for itself what to keep, and how
            return super().forward(wrap(input, self.seam, self.seam) if self.seam else input)
        return convolve((input,), self.weight, self.bias, self.way)

    @property
    def way(self) -> Way:
        """How the kernel moves over the map."""
        return Way(self.stride, self.padding, self.dilation, groups=self.groups, west=self.seam, east=self.seam)


class Upsample2d(nn.ConvTranspose2d):
    """Transposed 3x3 convolution of stride 2 that doubles the map exactly.

    Output row ``2 i + k - 1`` receives input row ``i`` through kernel row ``k``, so that only the last, odd row looks
    beyond the map; periodic longitude finds the first column there.
    """

    def __init__(self, channels: int, features: int, *, padding: Padding, bias: bool = True):
        self.periodic = padding == "periodic"
        beyond = (1, 0 if self.periodic else 1)
        super().__init__(channels, features, 3, stride=2, padding=1, output_padding=beyond, bias=bias)

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:  # noqa: A002  the name is torch's
        """Double ``(batch, channels, lat, lon)`` in both directions."""
        seam = int(self.periodic)
        if torch.compiler.is_compiling():
            doubled = super().forward(wrap(input, 0, seam))
        else:
            way = Way(self.stride, self.padding, (1, 1), True, self.output_padding, east=seam)
            doubled = convolve((input,), self.weight, self.bias, way)
        return doubled[..., :-1] if seam else doubled


class MaxPool2d(nn.Module):
    """Maximum over 3x3, stride 2: halves the map."""

    def __init__(self, *, padding: Padding):
        super().__init__()
        self.seam = 1 if padding == "periodic" else 0

    def forward(self, fields: Tensor) -> Tensor:
        """Halve ``(batch, channels, lat, lon)`` in both directions."""
        return F.max_pool2d(wrap(fields, self.seam, self.seam) if self.seam else fields, 3, 2, (1, 1 - self.seam))


class Half(nn.Module):
    """Multiply by one half: what Kurth et al. put in place of batch normalisation lest float16 overflow."""

    def forward(self, fields: Tensor) -> Tensor:
        """Halve the values."""
        return fields * 0.5


class Affine(nn.Module):
    """Scale and shift each channel by what is learnt: all that normalising a single pixel leaves."""

    def __init__(self, channels: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, fields: Tensor) -> Tensor:
        """Scale and shift ``(batch, channels, lat, lon)``."""
        return torch.addcmul(self.bias, self.weight, fields)


def normalisation(norm: Norm, channels: int) -> nn.Module:
    """Layer that follows a convolution of ``channels`` features; "none" is not a layer, ask before."""
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    if norm == "group":
        return nn.GroupNorm(math.gcd(8, channels), channels)
    return Half()


class Convolution(nn.Sequential):
    """Convolution, normalisation and ReLU, in that order, named ``conv``, ``norm`` and ``relu``.

    Without normalisation the convolution has a bias. The ReLU works in place: neither a convolution nor a normalisation
    needs its own output for the gradient.
    """

    def __init__(self, conv: nn.Module, features: int, *, norm: Norm, relu: bool = True):
        layers = OrderedDict(conv=conv)
        if norm != "none":
            layers["norm"] = normalisation(norm, features)
        if relu:
            layers["relu"] = nn.ReLU(inplace=True)
        super().__init__(layers)


def convolution(
    channels: int,
    features: int,
    kernel: int,
    *,
    norm: Norm,
    padding: Padding,
    stride: int = 1,
    dilation: int = 1,
    relu: bool = True,
) -> Convolution:
    """Convolution, normalisation and ReLU."""
    conv = Conv2d(channels, features, kernel, padding=padding, stride=stride, dilation=dilation, bias=norm == "none")
    return Convolution(conv, features, norm=norm, relu=relu)


def upsampling(channels: int, features: int, *, norm: Norm, padding: Padding, relu: bool = True) -> Convolution:
    """Transposed convolution that doubles the map, normalisation and ReLU."""
    conv = Upsample2d(channels, features, padding=padding, bias=norm == "none")
    return Convolution(conv, features, norm=norm, relu=relu)


def initialise(network: nn.Module) -> None:
    """Draw all kernels as He et al. 2015 (variance 2 / fan-in) and set biases to zero."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_uniform_(module.weight, nonlinearity="relu")
        elif isinstance(module, nn.ConvTranspose2d):
            # torch takes a transposed kernel's inputs for outputs; with stride 2 a pixel meets a quarter of the kernel.
            nn.init.kaiming_uniform_(module.weight, mode="fan_out", nonlinearity="relu")
            with torch.no_grad():
                module.weight.mul_(2)
        else:
            continue
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def check_fields(fields: Tensor, *, network: str, channels: int, stride: int) -> None:
    """Refuse what the network cannot take, before any arithmetic.

    Raises
    ------
    ValueError
        If the dimensions are not ``(batch, channels, lat, lon)``, the channels are not those that the network was built
        for, or a side is not a multiple of the network's stride.
    """
    if fields.ndim != 4:
        raise ValueError(
            f"{network} takes (batch, channels, lat, lon), found {fields.ndim} dimensions {tuple(fields.shape)}; "
            "add the batch with fields[None] if there is one snapshot."
        )
    if fields.shape[1] != channels:
        raise ValueError(
            f"{network} was built for {channels} channels, found {fields.shape[1]} in {tuple(fields.shape)}; "
            "select the channels it was built for, or build another with build(channels=...)."
        )
    for name, size in (("lat", fields.shape[2]), ("lon", fields.shape[3])):
        if size % stride or size == 0:
            below = size - size % stride
            cut = f"archive.save(archive.open(source).isel({name}=slice(0, {below})), 'crop.nc')"
            raise ValueError(
                f"{network} halves the map down to 1/{stride}: {name} has to be a multiple of {stride}, found {size}; "
                f"{f'crop to {below}, by {cut}, or ' if below else ''}pad or regrid to {below + stride}."
            )


def check_choice(owner: str, field: str, value: object, choices: object) -> None:
    """Refuse a word that is not among a Literal's."""
    allowed = get_args(choices)
    if value not in allowed:
        raise ValueError(f"{owner}.{field} is {value!r}; it has to be one of {', '.join(map(repr, allowed))}.")


def check_positive(owner: str, **values: int | Sequence[int]) -> None:
    """Refuse sizes that are not positive whole numbers, and empty lists of them."""
    for field, value in values.items():
        numbers = [value] if isinstance(value, int) else list(value)
        if not numbers or any(not isinstance(number, int) or number < 1 for number in numbers):
            raise ValueError(f"{owner}.{field} is {value!r}; give positive whole numbers.")


def check_dropout(owner: str, value: float) -> None:
    """Refuse a share of dropped values outside 0 <= share < 1."""
    if not 0 <= value < 1:
        raise ValueError(f"{owner}.dropout is {value!r}; give the share of values to drop, 0 <= dropout < 1.")
