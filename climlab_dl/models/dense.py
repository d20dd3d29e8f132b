"""Convolutions over features that are never joined: each feature is kept once, however many layers read it.

A dense layer reads everything before it. Joining that anew for every layer and keeping it for the gradient costs memory
that grows with the square of the layers. Here the joined map, with its wrapped longitudes, is written into one buffer
just before the convolution, let go after it, and written again when the gradient asks.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from climlab_dl.models.layers import Conv2d


class DroppedRelu(nn.Module):
    """ReLU, then dropout while training: one map in place of the three that two layers would keep."""

    def __init__(self, dropout: float):
        super().__init__()
        self.dropout = dropout

    def forward(self, fields: Tensor) -> Tensor:
        """Activate in place."""
        if self.training and self.dropout > 0:
            return _DroppedRelu.apply(fields, self.dropout)
        return fields.relu_()


class _DroppedRelu(torch.autograd.Function):
    """What is zero in the result passes no gradient, whether it was negative or dropped: no mask to keep."""

    @staticmethod
    def forward(fields: Tensor, dropout: float) -> Tensor:
        kept = torch.empty_like(fields).bernoulli_(1 - dropout)
        return fields.relu_().mul_(kept).mul_(1 / (1 - dropout))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        fields, ctx.dropout = inputs
        ctx.mark_dirty(fields)
        ctx.save_for_backward(output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (gradient,), (result,) = gradients, ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, result, 0).mul_(1 / (1 - ctx.dropout)), None


class JoinedConv2d(Conv2d):
    """Convolution over several maps as if they were joined along the channels."""

    def forward(self, *features: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Convolve maps of ``(batch, channels_i, lat, lon)``, whose channels add up to the kernel's."""
        if torch.compiler.is_compiling():  # a compiler decides for itself what to keep
            return super().forward(torch.cat(features, 1))
        weight, bias = self.weight, self.bias
        device = features[0].device.type
        if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
            features = tuple(feature.to(dtype) for feature in features)
            weight, bias = weight.to(dtype), None if bias is None else bias.to(dtype)
        if self.kernel_size == (1, 1):
            return _pointwise(features, weight, bias, self.stride)
        return _Joined.apply(weight, bias, self.padding, self.seam, *features)


def _pointwise(features: tuple[Tensor, ...], weight: Tensor, bias: Tensor | None, stride: tuple[int, ...]) -> Tensor:
    """Sum of each map's own 1x1 convolution; a stride only leaves pixels out."""
    total = None
    for feature, kernel in zip(features, weight.split([f.shape[1] for f in features], 1), strict=True):
        part = F.conv2d(feature[:, :, :: stride[0], :: stride[1]], kernel, bias if total is None else None)
        total = part if total is None else total.add_(part)
    assert total is not None
    return total


class _Joined(torch.autograd.Function):
    """Convolution of stride 1 that keeps its maps for the gradient, not their join."""

    @staticmethod
    def forward(weight: Tensor, bias: Tensor | None, padding: tuple[int, int], seam: int, *features: Tensor) -> Tensor:
        return F.conv2d(_join(features, seam), weight, bias, padding=padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        weight, bias, ctx.padding, ctx.seam, *features = inputs
        ctx.has_bias = bias is not None
        ctx.save_for_backward(weight, *features)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (gradient,) = gradients
        weight, *features = ctx.saved_tensors
        channels = [feature.shape[1] for feature in features]
        wanted = [any(ctx.needs_input_grad[4:]), ctx.needs_input_grad[0], ctx.has_bias and ctx.needs_input_grad[1]]
        joined, kernel, bias = torch.ops.aten.convolution_backward(
            gradient, _join(features, ctx.seam), weight, [weight.shape[0]] if ctx.has_bias else None,
            [1, 1], list(ctx.padding), [1, 1], False, [0, 0], 1, wanted,
        )  # fmt: skip
        parts = [None] * len(features) if joined is None else _unwrap(joined, ctx.seam).split(channels, 1)
        return (kernel, bias, None, None, *parts)


def _join(features: tuple[Tensor, ...] | list[Tensor], seam: int) -> Tensor:
    """Write maps side by side into one that also wraps round: one copy where joining and padding would be two."""
    first = features[0]
    if len(features) == 1 and seam == 0:
        return first
    batch, _, lat, lon = first.shape
    channels = sum(feature.shape[1] for feature in features)
    last = first.is_contiguous(memory_format=torch.channels_last) and not first.is_contiguous()
    joined = torch.empty(
        (batch, channels, lat, lon + 2 * seam),
        dtype=first.dtype,
        device=first.device,
        memory_format=torch.channels_last if last else torch.contiguous_format,
    )
    inside = joined[..., seam : seam + lon]
    for part, feature in zip(inside.split([f.shape[1] for f in features], 1), features, strict=True):
        part.copy_(feature)
    if seam:
        west, east = _beyond(lon, seam, first.device)
        joined[..., :seam] = inside[..., west]
        joined[..., seam + lon :] = inside[..., east]
    return joined


def _unwrap(gradient: Tensor, seam: int) -> Tensor:
    """Give the wrapped columns' gradient to the columns that they repeat."""
    if seam == 0:
        return gradient
    inside = gradient[..., seam:-seam]
    west, east = _beyond(inside.shape[-1], seam, gradient.device)
    inside.index_add_(-1, west, gradient[..., :seam])
    return inside.index_add_(-1, east, gradient[..., -seam:])


def _beyond(lon: int, seam: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Columns that continue the map before its first and after its last."""
    columns = torch.arange(seam, device=device)
    return (columns - seam) % lon, columns % lon
