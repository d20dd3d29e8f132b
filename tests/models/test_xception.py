"""Separable convolutions: what they keep for the gradient, and what they make again."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from climlab_dl.models.xception import Block


class Convolutions(TorchDispatchMode):
    """Groups of every convolution that runs, forward."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.convolution.default:
            self.groups.append(args[8])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("padding", ["periodic", "zeros"])
def test_for_the_gradient_only_depthwise_convolutions_run_again_and_batches_count_once(padding):
    torch.manual_seed(0)
    block = Block(8, (8, 8, 8), norm="batch", padding=padding)
    with Convolutions() as forward:
        result = block(torch.randn(2, 8, 6, 12, requires_grad=True))
    with Convolutions() as again:
        result.square().sum().backward()
    assert forward.groups == [8, 1] * 3
    assert sorted(again.groups) == [8] * 3
    counted = [int(value) for name, value in block.state_dict().items() if name.endswith("num_batches_tracked")]
    assert counted == [1, 1, 1]
