"""FLOPs as the papers count them, beside an independent count."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.performance import published
from climlab_dl.performance.flops import count


def on_meta(description, channels: int, outputs: int) -> nn.Module:
    with torch.device("meta"):
        return description.build(channels, outputs)


@pytest.mark.parametrize(
    ("description", "channels", "convention", "published"),
    [
        (Tiramisu.kurth(), 16, "plain", "4.188"),
        (Tiramisu.daint(), 4, "plain", "3.703"),
        (DeepLab.kurth(), 16, "plain", "13.02"),
        (DeepLab.kurth(), 16, "space_to_batch", "14.41"),
        (DeepLab.mlperf(), 16, "plain", "1.966"),
    ],
)
def test_training_a_snapshot_costs_the_published_teraflops(description, channels, convention, published):
    flops = count(on_meta(description, channels, 3), (1, channels, 768, 1152), convention=convention)
    assert f"{flops.training / 1e12:.{len(published.split('.')[1])}f}" == published


@pytest.mark.parametrize(
    ("description", "channels", "targets", "gigaflops"),
    [(CosmoFlow.paper(), 1, 3, "21.3"), (CosmoFlow.mlperf(), 4, 4, "68.9")],
)
def test_a_volume_costs_the_published_gigaflops(description, channels, targets, gigaflops):
    flops = count(on_meta(description, channels, targets), (1, channels, 128, 128, 128))
    assert f"{flops.forward / 1e9:.1f}" == gigaflops


@pytest.mark.parametrize(
    ("description", "shape"),
    [
        (Tiramisu.small(padding="zeros"), (2, 4, 32, 48)),
        (DeepLab.small(padding="zeros"), (2, 4, 32, 48)),
        (DeepLab.mlperf(padding="zeros"), (1, 4, 32, 48)),
        (CosmoFlow.small(padding="zeros"), (2, 4, 16, 16, 16)),
    ],
)
def test_torchs_own_counter_agrees(description, shape):
    network = on_meta(description, 4, 3)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.empty(shape, device="meta"))
    assert count(network, shape).forward == counter.get_total_flops()


def test_wrapping_longitude_costs_no_arithmetic():
    shape = (1, 16, 96, 192)
    periodic, zeros = (count(on_meta(DeepLab.small(padding=p), 16, 3), shape) for p in ("periodic", "zeros"))
    assert periodic.forward == zeros.forward


def test_counting_leaves_the_network_as_it_was():
    torch.manual_seed(0)
    network = Tiramisu.small().build(4, 3)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    flops = count(network, (1, 4, 16, 16))
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    # The stem comes first: 2 x 3^2 x 4 x 24 operations on each of 16 x 16 pixels.
    assert flops.layers[0].flops == 2 * 9 * 4 * 24 * 256
    assert sum(layer.flops for layer in flops.layers) == flops.forward == flops.training / 3


def test_the_table_has_the_published_parameter_counts():
    counted = [tuple(row) for row in published.table().reset_index()[["network", "parameters"]].to_numpy()]
    assert ("DeepLabv3+", 43_669_251) in counted
    assert ("MLPerf DeepCAM", 56_454_720) in counted
    assert ("CosmoFlow", 7_041_443) in counted
    assert ("MLPerf CosmoFlow", 8_907_556) in counted
