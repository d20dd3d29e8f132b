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


@pytest.mark.parametrize("description", [CosmoFlow.small(), CosmoFlow.statistics()])
def test_moving_a_periodic_universe_changes_nothing(description):
    # Whole simulations have no edge, and the mean over cells no place; 16 is a multiple of the pooling's total stride.
    torch.manual_seed(0)
    network, x = description.build(1, 3).double().eval(), torch.randn(1, 1, 32, 32, 32, dtype=torch.float64)
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


def test_every_convolutions_average_reaches_the_dense_part():
    # The first convolution sees blocks of 2^3: the average of its features is that of their leaky values.
    torch.manual_seed(0)
    network, x = CosmoFlow.statistics().build(2, 3), torch.randn(3, 2, 16, 16, 16)
    found = network.averages(x)
    assert found.shape == (3, sum(CosmoFlow.statistics().features))
    first = network.convolutions[0].conv(x)  # type: ignore[union-attr]
    expected = torch.where(first > 0, first, 0.01 * first).mean((2, 3, 4))
    torch.testing.assert_close(found[:, :16], expected, atol=1e-6, rtol=1e-5)


def test_averages_keep_their_digits_in_half_precision():
    # Universes differ in the third digit of a mean, which bfloat16 (three digits at best) would round away.
    torch.manual_seed(0)
    network, x = CosmoFlow.statistics().build(1, 3), torch.randn(1, 1, 32, 32, 32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = network.averages(x)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, network.averages(x), atol=2e-3, rtol=2e-3)


def test_averages_of_every_convolution_are_for_volumes_of_any_size():
    with pytest.raises(ValueError, match="size=None"):
        CosmoFlow(averaged="every")
