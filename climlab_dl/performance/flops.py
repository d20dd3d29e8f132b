"""Floating-point operations, counted as the papers count them, without doing any.

Kurth et al. 2018 (sec. VI) and Mathuriya et al. 2018 count multiplications and additions of convolutions and dense
layers, and take a training step as three times the forward pass. The network is run on torch's meta device, where
tensors have shapes and no values, so counting a petaflop takes milliseconds and no memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, prod
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

Convention = Literal["plain", "space_to_batch"]
"""How atrous and explicitly padded convolutions count: by their output, or by what TensorFlow 1 really multiplied."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer's share: its name in the network, its kind, and the operations of one forward pass."""

    name: str
    kind: str
    flops: float


@dataclass(frozen=True, kw_only=True)
class Flops:
    """Operations of one pass over a batch, by layer in the order of execution.

    Examples
    --------
    >>> network = DeepLab.kurth().build(16, 3)  # doctest: +SKIP
    >>> count(network, (1, 16, 768, 1152)).training / 1e12  # doctest: +SKIP
    13.02...
    """

    layers: tuple[Layer, ...]

    @property
    def forward(self) -> float:
        """Operations of a forward pass."""
        return sum(layer.flops for layer in self.layers)

    @property
    def training(self) -> float:
        """Operations of forward and backward pass: the gradients by input and by kernel cost a forward pass each."""
        return 3 * self.forward


def count(network: nn.Module, shape: tuple[int, ...], *, convention: Convention = "plain") -> Flops:
    """Count a network's operations for an input of a given shape.

    Parameters
    ----------
    network : nn.Module
        Any network of one input; neither its values nor its mode change. It may itself be on the meta device.
    shape : tuple of int
        The input's, with the batch: ``(batch, channels, lat, lon)`` or ``(batch, channels, x, y, z)``.
    convention : {"plain", "space_to_batch"}
        "plain" counts ``2 k^2 C_in C_out`` for each pixel of a convolution's output (of a transposed one's input).
        "space_to_batch" counts dilated convolutions on the padded map that TensorFlow 1 computed; the 14.41 TFLOP
        that Kurth et al. give for DeepLabv3+ include it.

    Returns
    -------
    Flops
    """
    layers: list[Layer] = []
    state = {
        name: torch.empty_like(tensor, device="meta")
        for name, tensor in (*network.named_parameters(), *network.named_buffers())
    }
    with _counting(network, convention, layers), torch.no_grad():
        torch.func.functional_call(network, state, (torch.empty(shape, device="meta"),))
    return Flops(layers=tuple(layers))


@contextmanager
def _counting(network: nn.Module, convention: Convention, layers: list[Layer]) -> Iterator[None]:
    """Note every convolution and dense layer that is executed."""

    def note(name: str):
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            flops = _operations(module, inputs[0], output, convention)
            layers.append(Layer(name=name, kind=type(module).__name__, flops=flops))

        return hook

    counted = [(name, m) for name, m in network.named_modules() if isinstance(m, _ConvNd | nn.Linear)]
    hooks = [module.register_forward_hook(note(name)) for name, module in counted]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _operations(module: nn.Module, given: Tensor, output: Tensor, convention: Convention) -> float:
    """Multiplications and additions of one layer."""
    if isinstance(module, nn.Linear):
        return 2.0 * given.numel() * module.out_features
    assert isinstance(module, _ConvNd)
    # Each value on the smaller map meets every kernel value that leads to it.
    channels = module.in_channels * module.out_channels / module.groups
    cells = prod((given if module.transposed else output).shape[2:])
    if convention == "space_to_batch" and not module.transposed:
        cells = _tensorflow_cells(module, tuple(given.shape[2:]))
    return 2.0 * given.shape[0] * channels * prod(module.kernel_size) * cells


def _tensorflow_cells(module: _ConvNd, sides: tuple[int, ...]) -> float:
    """Positions that the authors' counter saw: the padded input's cells divided by the strides."""
    cells = 1.0
    for side, kernel, stride, dilation in zip(sides, module.kernel_size, module.stride, module.dilation, strict=True):
        if dilation > 1:  # padded to whole blocks of the dilation, then cut into a batch of smaller maps
            side = ceil((side + dilation * (kernel - 1)) / dilation) * dilation
        elif stride > 1 and kernel > 1:  # slim pads strided convolutions before it hands them on
            side += kernel - 1
        cells *= side / stride
    return cells
