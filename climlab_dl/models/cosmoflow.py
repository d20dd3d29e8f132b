"""CosmoFlow: cosmological parameters from the matter distribution in a volume.

Two published networks come from one description: Mathuriya et al. 2018 ("CosmoFlow: Using Deep Learning to Learn the
Universe at Scale", sec. III) with the wiring of the authors' 128^3 code, and the MLPerf HPC reference.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from climlab_dl.models.convolve import as_read
from climlab_dl.models.layers import check_choice, check_dropout, check_positive
from climlab_dl.models.regression import Bound, Standardise
from climlab_dl.models.slabs import in_slabs

Boundary = Literal["valid", "zeros", "periodic"]
"""At a volume's faces: no padding, zeros, or the opposite face, for a volume that is a whole periodic simulation."""


@dataclass(frozen=True, kw_only=True)
class CosmoFlow:
    """Description of a CosmoFlow; the defaults are the network of Mathuriya et al. 2018.

    Parameters
    ----------
    size : int, optional
        Cells along each side of the volumes (128 as published). With None features are averaged over the volume
        instead of joined, and any size that survives the convolutions fits.
    averaged : {"last", "every"}
        With ``size=None``: average the last convolution's features, or those of every one, which are statistics of
        the universe at every scale; they are then standardised by what they are like in the training so far.
    features, kernels, strides : tuple of int
        Of each convolution.
    pooled : tuple of bool
        Whether each convolution is followed by pooling over 2x2x2.
    pooling : {"mean", "max"}
        How to pool.
    hidden : tuple of int
        Widths of the dense layers before the last.
    leak : float
        Slope of the leaky ReLU below zero.
    dropout : float
        Share of values dropped in the dense part while training.
    dropout_first : bool
        Drop before every dense layer (2018), not after each hidden one (MLPerf).
    bound : float, optional
        Targets are kept within plus or minus this by a scaled tanh; None leaves them free.
    initial_bias : float, optional
        Where the biases start; with None at random, so that features differ in the density at which they begin.
    norm : {"none", "batch"}
        Whether batch normalisation follows each convolution; published without. It subtracts the mean of a few
        universes, and with it much of what tells them apart: for the last percent, leave it out.
    padding : {"valid", "zeros", "periodic"}
        What a convolution sees beyond the volume; nothing where its kernel is as wide as its stride.
    recompute : bool
        On CPUs make the first convolution's features a few planes at a time, never as a whole, and again for the
        gradient: 0.6 of the memory or less, a quarter more time. Without effect where the first convolution is
        normalised or not pooled, and with ``averaged="every"``.

    Notes
    -----
    With one channel and three targets the published network has 7,041,443 parameters, with two targets 7,041,186.
    The wiring is the one whose last map, 2^3 x 256, makes the 2,048 inputs of the dense part; a later version of the
    authors' code skipped a pooling and so predicted 64 times from each volume.
    """

    size: int | None = 128
    averaged: Literal["last", "every"] = "last"
    features: tuple[int, ...] = (16, 32, 64, 128, 256, 256, 256)
    kernels: tuple[int, ...] = (3, 4, 4, 3, 3, 2, 2)
    strides: tuple[int, ...] = (1, 1, 1, 2, 1, 1, 1)
    pooled: tuple[bool, ...] = (True, True, True, False, False, False, False)
    pooling: Literal["mean", "max"] = "mean"
    hidden: tuple[int, ...] = (2048, 256)
    leak: float = 0.01
    dropout: float = 0.5
    dropout_first: bool = True
    bound: float | None = None
    initial_bias: float | None = 0.1
    norm: Literal["none", "batch"] = "none"
    padding: Boundary = "valid"
    recompute: bool = False

    def __post_init__(self) -> None:
        check_positive(
            "CosmoFlow", features=self.features, kernels=self.kernels, strides=self.strides, hidden=self.hidden
        )
        for field in ("kernels", "strides", "pooled"):
            if len(getattr(self, field)) != len(self.features):
                raise ValueError(
                    f"CosmoFlow.{field} has {len(getattr(self, field))} entries for {len(self.features)} convolutions "
                    f"(features={self.features}); give one for each."
                )
        if any(self.reach(i) % 2 for i in range(len(self.kernels))):
            raise ValueError(
                f"CosmoFlow.kernels is {self.kernels}; only odd kernels can be padded evenly, "
                "give odd ones, a stride as wide as the kernel, or padding='valid'."
            )
        check_choice("CosmoFlow", "averaged", self.averaged, Literal["last", "every"])
        if self.averaged == "every" and self.size is not None:
            raise ValueError(
                f"CosmoFlow.averaged is 'every' for volumes of {self.size}^3 cells; give size=None with it."
            )
        check_choice("CosmoFlow", "pooling", self.pooling, Literal["mean", "max"])
        check_choice("CosmoFlow", "norm", self.norm, Literal["none", "batch"])
        check_choice("CosmoFlow", "padding", self.padding, Boundary)
        check_dropout("CosmoFlow", self.dropout)
        if self.bound is not None and self.bound <= 0:
            raise ValueError(f"CosmoFlow.bound is {self.bound}; give a positive limit, or None for free targets.")
        if self.size is not None:
            self.remaining(self.size)

    @classmethod
    def paper(cls) -> Self:
        """As published in 2018: one channel of 128^3."""
        return cls()

    @classmethod
    def mlperf(cls, *, padding: Boundary = "zeros") -> Self:
        """As the MLPerf HPC reference: 8,907,556 parameters with 4 channels and 4 targets."""
        return cls(
            features=(32, 64, 128, 256, 512),
            kernels=(3,) * 5,
            strides=(1,) * 5,
            pooled=(True,) * 5,
            pooling="max",
            hidden=(128, 64),
            leak=0.3,
            dropout_first=False,
            bound=1.2,
            initial_bias=0.0,
            padding=padding,
        )

    @classmethod
    def small(cls, *, padding: Boundary = "periodic") -> Self:
        """For a laptop and whole simulations of 32^3 or 64^3: thin, normalised, blind to where in the box it looks."""
        return cls(
            size=None, features=(8, 16, 32, 64), kernels=(3,) * 4, strides=(1,) * 4, pooled=(True,) * 4, hidden=(64,),
            dropout=0.0, initial_bias=0.0, norm="batch", padding=padding,
        )  # fmt: skip

    @classmethod
    def statistics(cls, *, padding: Boundary = "periodic") -> Self:
        """For hundreds of universes on a few cores: blocks of 2^3 cells, then three scales, all of them averaged.

        The averages of learnt functions of small neighbourhoods are what one-point distributions and power spectra are
        of chosen ones, so that the network starts from where those end.
        """
        return cls(
            size=None, averaged="every", features=(16, 16, 32, 32), kernels=(2, 3, 3, 3), strides=(2, 1, 1, 1),
            pooled=(False, True, True, False), hidden=(64,), dropout=0.0, initial_bias=None, padding=padding,
        )  # fmt: skip

    def reach(self, i: int) -> int:
        """Cells beyond a side of the volume, both sides together, that convolution ``i`` sees."""
        if self.padding == "valid" or self.kernels[i] == self.strides[i]:
            return 0
        return self.kernels[i] - 1

    def remaining(self, size: int) -> int:
        """Cells along a side of the last map of a volume of ``size`` cells a side.

        Raises
        ------
        ValueError
            If nothing remains on the way.
        """
        left = size
        for i, (kernel, stride, pooled) in enumerate(zip(self.kernels, self.strides, self.pooled, strict=True)):
            left = ((left + self.reach(i) - kernel) // stride + 1) // (2 if pooled else 1)
            if left < 1:
                raise ValueError(
                    f"A volume of {size} cells a side is used up by convolution {i + 1} of CosmoFlow's "
                    f"{len(self.features)}; give larger volumes, fewer convolutions or less pooling."
                )
        return left

    def build(self, channels: int, targets: int) -> "CosmoFlowNetwork":
        """Network from volumes of ``channels`` to ``targets`` parameters."""
        check_positive("CosmoFlow.build", channels=channels, targets=targets)
        return CosmoFlowNetwork(self, channels, targets)


class CosmoFlowNetwork(nn.Module):
    """The network that `CosmoFlow` describes."""

    def __init__(self, description: CosmoFlow, channels: int, targets: int):
        super().__init__()
        self.description, self.channels = description, channels
        self.convolutions = nn.Sequential()
        for i, features in enumerate(description.features):
            before = description.features[i - 1] if i else channels
            self.convolutions.append(_convolution(description, i, before, features))
        if description.averaged == "every":
            inputs = sum(description.features)
            self.standardise = Standardise(inputs)
        else:
            cells = 1 if description.size is None else description.remaining(description.size) ** 3
            inputs = cells * description.features[-1]
        self.dense = _dense(description, inputs, targets)
        for module in self.modules():
            if isinstance(module, nn.Conv3d | nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None and description.initial_bias is not None:
                    nn.init.constant_(module.bias, description.initial_bias)

    def forward(self, volumes: Float[Tensor, "batch channels x y z"]) -> Float[Tensor, "batch targets"]:
        """Targets of each volume."""
        features = self.features(volumes)
        return self.dense(self.standardise(features) if self.description.averaged == "every" else features)

    def features(self, volumes: Float[Tensor, "batch channels x y z"]) -> Float[Tensor, "batch features"]:
        """Say what the convolutions find in each volume: what is standardised and goes into the dense part."""
        self.check(volumes)
        volumes = as_read(volumes)
        if self.description.averaged == "every":
            return self.averages(volumes)
        first, others = self.convolutions[0], self.convolutions[1:]
        features = others(in_slabs(first, volumes) if self.description.recompute else first(volumes))
        if self.description.size is None:
            return features.mean((2, 3, 4))
        # Cells first, features last: the order in the published networks' dense kernels.
        return features.permute(0, 2, 3, 4, 1).flatten(1)

    def averages(self, volumes: Float[Tensor, "batch channels x y z"]) -> Float[Tensor, "batch features"]:
        """Mean over the volume of every convolution's features, before they are pooled."""
        found, features = [], volumes
        for convolution in self.convolutions:
            for name, layer in convolution.named_children():
                features = layer(features)
                if name == "relu":
                    # In float32: universes differ in the third digit of a mean, where half precision ends.
                    found.append(features.float().mean((2, 3, 4)))
        return torch.cat(found, dim=1)

    def check(self, volumes: Tensor) -> None:
        """Refuse what the network cannot take, before any arithmetic.

        Raises
        ------
        ValueError
            If the dimensions are not ``(batch, channels, x, y, z)``, or channels or sizes are not the network's.
        """
        found = tuple(volumes.shape)
        if len(found) != 5:
            raise ValueError(
                f"CosmoFlow takes (batch, channels, x, y, z), found {len(found)} dimensions {found}; "
                "add the batch with volumes[None] if there is one volume."
            )
        if found[1] != self.channels:
            raise ValueError(
                f"CosmoFlow was built for {self.channels} channels, found {found[1]} in {found}; "
                "channels come second, and build(channels=...) makes another network."
            )
        size = self.description.size
        if size is None:
            for side in found[2:]:
                self.description.remaining(side)
        elif found[2:] != (size,) * 3:
            raise ValueError(
                f"CosmoFlow was described for volumes of {size}^3, found {found[2:]}; cut the volumes, or describe "
                "another with size=..., or with size=None, which takes any."
            )


def _convolution(description: CosmoFlow, i: int, channels: int, features: int) -> nn.Sequential:
    """Convolution, normalisation, leaky ReLU and pooling."""
    layers = OrderedDict[str, nn.Module]()
    layers["conv"] = nn.Conv3d(
        channels,
        features,
        description.kernels[i],
        stride=description.strides[i],
        padding=description.reach(i) // 2,
        padding_mode="circular" if description.padding == "periodic" else "zeros",
    )
    if description.norm == "batch":
        layers["norm"] = nn.BatchNorm3d(features)
    layers["relu"] = nn.LeakyReLU(description.leak, inplace=True)
    if description.pooled[i]:
        layers["pool"] = nn.MaxPool3d(2) if description.pooling == "max" else nn.AvgPool3d(2)
    return nn.Sequential(layers)


def _dense(description: CosmoFlow, inputs: int, targets: int) -> nn.Sequential:
    """Dense layers, dropout before or after each, and the targets' bound."""
    layers = OrderedDict[str, nn.Module]()
    for i, width in enumerate(description.hidden):
        if description.dropout_first:
            layers[f"drop{i}"] = nn.Dropout(description.dropout)
        layers[f"hidden{i}"] = nn.Linear(inputs, width)
        layers[f"relu{i}"] = nn.LeakyReLU(description.leak, inplace=True)
        if not description.dropout_first:
            layers[f"drop{i}"] = nn.Dropout(description.dropout)
        inputs = width
    if description.dropout_first:
        layers["drop"] = nn.Dropout(description.dropout)
    layers["targets"] = nn.Linear(inputs, targets)
    if description.bound is not None:
        layers["bound"] = Bound(description.bound)
    return nn.Sequential(layers)
