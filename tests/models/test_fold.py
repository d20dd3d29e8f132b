"""Folded networks compute the same with fewer layers."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.fold import fold
from climlab_dl.models.tiramisu import Tiramisu

NORMS = (nn.BatchNorm2d, nn.BatchNorm3d)
MAP, VOLUME = (2, 4, 32, 32), (2, 4, 16, 16, 16)


def trained(description, shape) -> nn.Module:
    """Network whose normalisations have statistics, scales and shifts of their own."""
    torch.manual_seed(0)
    network = description.build(4, 3)
    for module in network.modules():
        if isinstance(module, NORMS):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
    for _ in range(3):
        network(torch.randn(shape))
    return network.eval()


@pytest.mark.parametrize(
    ("description", "shape", "left"),
    [
        (Tiramisu.small(), MAP, 0),
        # Each of ResNet-14's four units normalises before its convolutions; that has nothing to fold into.
        (DeepLab.small(), MAP, 4),
        (replace(DeepLab.mlperf(), width=8, depth=8, low_level=4, middle=1), MAP, 0),
        (CosmoFlow.small(), VOLUME, 0),
    ],
)
def test_a_folded_network_gives_the_same_results(description, shape, left):
    network = trained(description, shape)
    folded, x = fold(network), torch.randn(shape)
    assert sum(isinstance(module, NORMS) for module in folded.modules()) == left
    torch.testing.assert_close(folded(x), network(x), rtol=1e-4, atol=1e-4)


def test_folding_leaves_the_network_as_it_was():
    network = trained(DeepLab.small(), MAP).train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    folded = fold(network)
    assert network.training
    assert not folded.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert len(network.state_dict()) == len(before)
