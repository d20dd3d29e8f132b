"""Convolution of maps, in the memory format in which a processor computes each direction fastest.

oneDNN, which computes torch's convolutions on CPUs, is at its best where the channels of a pixel lie together, but for
the gradient of wide kernels, which takes two to four times as long then as where each channel lies by itself. And a 1x1
convolution of a few maps in one thread torch gives to a matrix multiplication that is half as fast on some processors.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

WIDE = 128
"""Kernels between at least so many channels on both sides are wide; transposed ones of 16 already."""


class Way(NamedTuple):
    """How a kernel moves over a map.

    ``west`` and ``east`` are columns to continue longitude by, across its seam; of rows and columns only those at
    multiples of ``every`` are looked at.
    """

    stride: tuple[int, ...]
    padding: str | tuple[int, ...]
    dilation: tuple[int, ...] = (1, 1)
    transposed: bool = False
    output_padding: tuple[int, ...] = (0, 0)
    groups: int = 1
    west: int = 0
    east: int = 0
    every: tuple[int, ...] = (1, 1)


def as_read(fields: Tensor) -> Tensor:
    """Lay fields or volumes out as convolutions read them fastest: on a CPU the channels of a pixel together."""
    if fields.device.type != "cpu":
        return fields
    layout = torch.channels_last if fields.ndim == 4 else torch.channels_last_3d
    return fields.contiguous(memory_format=layout)


def convolve(features: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None, way: Way) -> Tensor:
    """Convolve maps of ``(batch, channels_i, lat, lon)``, joined along the channels, whose sum is the kernel's.

    For the gradient the maps themselves are kept, not their join.
    """
    device = features[0].device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        features = tuple(feature.to(dtype) for feature in features)
        weight, bias = weight.to(dtype), None if bias is None else bias.to(dtype)
    if weight.shape[2:] == (1, 1) and device == "cpu":
        # Dilation changes nothing about a single pixel, but takes the convolution to oneDNN; which (3.12) writes beyond
        # the gradient of a strided 1x1 kernel of, say, 12 x 36 channels.
        way = way._replace(dilation=(2, 2), stride=(1, 1), every=way.stride)
    first, *others = features
    if others or way.west or way.east or way.every != (1, 1) or _taken_apart(weight, way):
        return _Convolve.apply(weight, bias, way, *features)
    return torch.ops.aten.convolution(first, weight, bias, *way[:6])


class _Convolve(torch.autograd.Function):
    """Convolution that keeps its maps for the gradient, not their join, and takes each gradient its fastest way."""

    @staticmethod
    def forward(weight: Tensor, bias: Tensor | None, way: Way, *features: Tensor) -> Tensor:
        return torch.ops.aten.convolution(_join(features, way), weight, bias, *way[:6])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        weight, bias, ctx.way, *features = inputs
        ctx.has_bias = bias is not None
        ctx.save_for_backward(weight, *features)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (gradient,) = gradients
        weight, *features = ctx.saved_tensors
        way, parts = ctx.way, [None] * len(features)
        joined = _join(features, way)
        bias_too = ctx.has_bias and ctx.needs_input_grad[1]
        both = [any(ctx.needs_input_grad[3:]), ctx.needs_input_grad[0], bias_too]
        apart = both[1] and joined.device.type == "cpu" and not joined.is_contiguous() and _taken_apart(weight, way)
        of_map, of_kernel, of_bias = _gradients(
            gradient, joined, weight, way, [both[0], both[1] and not apart, bias_too and not apart]
        )
        if of_map is not None:
            of_map = _unwrap(of_map, way, features[0].shape[2:])
            parts = of_map.split([feature.shape[1] for feature in features], 1)
        if apart:
            _, of_kernel, of_bias = _gradients(_apart(gradient), _apart(joined), weight, way, [False, True, bias_too])
        return (of_kernel, of_bias, None, *parts)


def _taken_apart(weight: Tensor, way: Way) -> bool:
    """Whether a kernel's gradient is taken where each channel lies by itself.

    Because it is faster, the cost of getting there included; or because the channels do not fill oneDNN's blocks of 16:
    in bfloat16 it (3.12) reads beyond the map then where a kernel is dilated, and gives NaN, or crashes.
    """
    channels = weight.shape[0] if way.transposed else weight.shape[1] * way.groups
    unsafe = weight.dtype == torch.bfloat16 and way.dilation != (1, 1) and channels % 16 != 0
    return weight.shape[-1] > 1 and (unsafe or min(weight.shape[:2]) >= (16 if way.transposed else WIDE))


def _apart(maps: Tensor) -> Tensor:
    """Lay each channel by itself: as transposed matrices, which torch copies four times as fast as maps."""
    result = torch.empty_like(maps, memory_format=torch.contiguous_format)
    for by_channel, by_pixel in zip(result.flatten(2), maps.permute(0, 2, 3, 1).flatten(1, 2), strict=True):
        by_channel.copy_(by_pixel.t())
    return result


def _gradients(gradient: Tensor, fields: Tensor, weight: Tensor, way: Way, wanted: list[bool]) -> list[Tensor | None]:
    """Gradients of map, kernel and bias."""
    if not any(wanted):
        return [None, None, None]
    features = weight.shape[1] * way.groups if way.transposed else weight.shape[0]
    return torch.ops.aten.convolution_backward(gradient, fields, weight, [features], *way[:6], wanted)


def _join(features: tuple[Tensor, ...] | list[Tensor], way: Way) -> Tensor:
    """Write maps side by side into one that also wraps round: one copy where joining and padding would be two."""
    if len(features) == 1 and not (way.west or way.east) and way.every == (1, 1):
        return features[0]
    last = features[0].is_contiguous(memory_format=torch.channels_last) and not features[0].is_contiguous()
    features = [feature[:, :, :: way.every[0], :: way.every[1]] for feature in features]
    channels = [feature.shape[1] for feature in features]
    batch, _, lat, lon = features[0].shape
    joined = torch.empty(
        (batch, sum(channels), lat, way.west + lon + way.east),
        dtype=features[0].dtype,
        device=features[0].device,
        memory_format=torch.channels_last if last else torch.contiguous_format,
    )
    inside, west, east = _sides(joined, way)
    for part, feature in zip(inside.split(channels, 1), features, strict=True):
        part.copy_(feature)
    west.copy_(inside[..., _beyond(west, -way.west, lon)])
    east.copy_(inside[..., _beyond(east, 0, lon)])
    return joined


def _unwrap(gradient: Tensor, way: Way, size: torch.Size) -> Tensor:
    """Give the wrapped columns' gradient to the columns that they repeat, and none to pixels that were left out."""
    inside, west, east = _sides(gradient, way)
    lon = inside.shape[-1]
    if way.west or way.east:
        inside.index_add_(-1, _beyond(west, -way.west, lon), west).index_add_(-1, _beyond(east, 0, lon), east)
    if way.every == (1, 1):
        return inside
    layout = torch.contiguous_format if gradient.is_contiguous() else torch.channels_last
    whole = torch.empty(
        (*gradient.shape[:2], *size), dtype=gradient.dtype, device=gradient.device, memory_format=layout
    )
    whole.zero_()[:, :, :: way.every[0], :: way.every[1]] = inside
    return whole


def _sides(wrapped: Tensor, way: Way) -> tuple[Tensor, Tensor, Tensor]:
    """Map, and what lies west and east of it."""
    lon = wrapped.shape[-1] - way.west - way.east
    west, inside, east = wrapped.split([way.west, lon, way.east], -1)
    return inside, west, east


def _beyond(side: Tensor, start: int, lon: int) -> Tensor:
    """Columns of a map of ``lon`` columns that its side, which starts at column ``start``, repeats."""
    return torch.arange(start, start + side.shape[-1], device=side.device) % lon
