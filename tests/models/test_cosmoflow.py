"""CosmoFlow as published in 2018 and as MLPerf's reference."""

import pytest
import torch

from climlab_dl.models.cosmoflow import CosmoFlow


def build(description: CosmoFlow, channels: int, targets: int):
    with torch.device("meta"):
        return description.build(channels, targets)


@pytest.mark.parametrize(
    ("description", "channels", "targets", "expected"),
    [
        (CosmoFlow.paper(), 1, 3, 7_041_443),
        (CosmoFlow.paper(), 1, 2, 7_041_186),
        (CosmoFlow.mlperf(), 4, 4, 8_907_556),
    ],
)
def test_published_networks_have_the_published_parameters(description, channels, targets, expected):
    assert sum(p.numel() for p in build(description, channels, targets).parameters()) == expected


def test_the_published_volume_shrinks_as_the_authors_wired_it():
    # 128 -> 126 -> 63 -> 60 -> 30 -> 27 -> 13 -> (stride 2) 6 -> 4 -> 3 -> 2.
    network, x = build(CosmoFlow.paper(), 1, 3), torch.empty(1, 1, 128, 128, 128, device="meta")
    sides = []
    for layer in network.convolutions:
        x = layer(x)
        sides.append(x.shape[-1])
    assert sides == [63, 30, 13, 6, 4, 3, 2]


def test_mlperfs_targets_stay_within_their_bound():
    torch.manual_seed(0)
    description = CosmoFlow(
        size=8, features=(4,), kernels=(3,), strides=(1,), pooled=(True,), hidden=(8,), padding="zeros", bound=1.2
    )
    found = description.build(1, 4)(1e4 * torch.randn(3, 1, 8, 8, 8))
    assert 1.1 < found.abs().max() <= 1.2


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("size", [32, 48, 64])
def test_the_small_network_takes_volumes_of_any_size(size, channels):
    network = build(CosmoFlow.small(), channels, 2)
    assert network(torch.empty(2, channels, size, size, size, device="meta")).shape == (2, 2)


def test_moving_a_periodic_universe_changes_nothing():
    # Whole simulations have no edge, and the mean over cells no place; 16 is the pooling's total stride.
    torch.manual_seed(0)
    network, x = CosmoFlow.small().build(1, 3).double().eval(), torch.randn(1, 1, 32, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(network(x.roll((16, -16, 16), (2, 3, 4))), network(x))


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((1, 3, 16, 16, 16), "built for 1 channels, found 3"),
        ((1, 1, 16, 16, 12), r"volumes of 16\^3, found \(16, 16, 12\)"),
        ((1, 16, 16, 16), "add the batch"),
    ],
)
def test_volumes_that_do_not_fit_are_refused_with_advice(shape, words):
    description = CosmoFlow(size=16, features=(4,), kernels=(3,), strides=(1,), pooled=(True,), hidden=(8,))
    with pytest.raises(ValueError, match=words):
        description.build(1, 2)(torch.zeros(shape))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"size": 64}, "used up by convolution 5"),
        ({"kernels": (3,)}, "kernels has 1 entries for 7 convolutions"),
        ({"padding": "zeros"}, "only odd kernels"),
        ({"dropout": -0.1}, "dropout is -0.1"),
        ({"bound": 0.0}, "bound is 0.0"),
        ({"pooling": "median"}, "pooling is 'median'"),
        ({"hidden": (0,)}, "hidden is"),
    ],
)
def test_descriptions_that_make_no_network_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        CosmoFlow(**arguments)
