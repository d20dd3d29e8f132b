"""Convolutions over features that are never joined: each feature is kept once, however many layers read it.

A dense layer reads everything before it. Joining that anew for every layer and keeping it for the gradient costs memory
that grows with the square of the layers. Here the joined map, with its wrapped longitudes, is written into one buffer
just before the convolution, let go after it, and written again when the gradient asks.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from climlab_dl.models.convolve import convolve
from climlab_dl.models.layers import Conv2d


class DroppedRelu(nn.Module):
    """ReLU, then dropout while training: one map in place of the three that two layers would keep.

    Values are kept with the probability `kept_share`, ``1 - dropout`` to within 2^-17, and divided by just that.
    """

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
        return fields.relu_().mul_(_draw(fields, dropout)).mul_(1 / kept_share(dropout))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        fields, ctx.dropout = inputs
        ctx.mark_dirty(fields)
        ctx.save_for_backward(output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (gradient,), (result,) = gradients, ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, result, 0).mul_(1 / kept_share(ctx.dropout)), None


def kept_share(dropout: float) -> float:
    """Probability with which `DroppedRelu` keeps a value: the multiple of 2^-16 next to ``1 - dropout``, not zero."""
    return max(round((1 - dropout) * 2**16), 1) / 2**16


def _draw(fields: Tensor, dropout: float) -> Tensor:
    """Ones where values are kept and zeros where not, laid out as the fields are.

    Four from each random number of 64 bits: one by one they would take a tenth of a training step on CPUs.
    """
    numbers = torch.empty(-(-fields.numel() // 4), dtype=torch.int64, device=fields.device).random_(-(2**63), None)
    bits = numbers.view(torch.int16)
    torch.ge(bits, 2**15 - round(kept_share(dropout) * 2**16), out=bits)
    return bits.as_strided(fields.shape, torch.empty_like(fields, device="meta").stride())


class JoinedConv2d(Conv2d):
    """Convolution over several maps as if they were joined along the channels."""

    def forward(self, *features: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Convolve maps of ``(batch, channels_i, lat, lon)``, whose channels add up to the kernel's."""
        if torch.compiler.is_compiling():
            return super().forward(torch.cat(features, 1))
        if self.kernel_size == (1, 1):
            return self._pointwise(features)
        return convolve(features, self.weight, self.bias, self.way)

    def _pointwise(self, features: tuple[Tensor, ...]) -> Tensor:
        """Sum of each map's own 1x1 convolution."""
        kernels = self.weight.split([f.shape[1] for f in features], 1)
        total = convolve(features[:1], kernels[0], self.bias, self.way)
        for feature, kernel in zip(features[1:], kernels[1:], strict=True):
            total = total.add_(convolve((feature,), kernel, None, self.way))
        return total
