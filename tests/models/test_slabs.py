"""A stage of convolution, activation and pooling, whole or a few planes at a time: the same numbers."""

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.slabs import in_slabs


def stage(padding: str, pooling: str, *, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    torch.manual_seed(0)
    mode: Any = "circular" if padding == "periodic" else "zeros"
    reach = 0 if padding == "valid" else kernel // 2
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv3d(2, 5, kernel, stride=stride, padding=reach, padding_mode=mode),
            relu=nn.LeakyReLU(0.3, inplace=True),
            pool=nn.MaxPool3d(2) if pooling == "max" else nn.AvgPool3d(2),
        )
    )


def gradients(result: Tensor, *of: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad((result * torch.arange(result.numel()).view_as(result)).sum(), of)


@pytest.mark.parametrize("padding", ["valid", "zeros", "periodic"])
@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (5, 1), (3, 2)])
@pytest.mark.parametrize("size", [11, 14])
def test_slabs_give_what_the_whole_stage_gives_and_its_gradients(padding, pooling, kernel, stride, size):
    # Sides of 11 and 14 leave odd planes that no pooling takes, and a last slab that is thinner than the others.
    layers = stage(padding, pooling, kernel=kernel, stride=stride).double()
    x = torch.randn(2, 2, size, size + 1, size + 2, dtype=torch.float64, requires_grad=True)
    whole, slabs = layers(x), in_slabs(layers, x)
    torch.testing.assert_close(slabs, whole)
    values = (x, *layers.parameters())
    for found, expected in zip(gradients(slabs, *values), gradients(whole, *values), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("description", [CosmoFlow.paper(), CosmoFlow.mlperf()])
def test_of_the_published_first_convolutions_only_what_is_pooled_is_kept(description):
    # On 32^3 the first convolution makes 16 features of 30^3 cells, or 32 of 32^3; pooled they are an eighth.
    layers = description.build(1, 3).convolutions[0]
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        features = in_slabs(layers, torch.randn(1, 1, 32, 32, 32))
    assert all(t.untyped_storage().nbytes() < 8 * features.nbytes / 4 for t in kept)


def test_evaluation_and_half_precision_give_the_same_pooled_features():
    layers, x = stage("zeros", "max"), torch.randn(1, 2, 16, 16, 16)
    expected = layers(x)
    torch.testing.assert_close(in_slabs(layers.eval(), x), expected)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert torch.equal(in_slabs(layers, x), layers(x))
