"""Convolutions on the sphere: the seam is no edge, the poles are."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from climlab_dl.models.layers import Conv2d, MaxPool2d, Upsample2d, convolution, initialise, wrap


def fields(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(kind: str, padding) -> torch.nn.Module:
    torch.manual_seed(0)
    built = {
        "conv": lambda: Conv2d(2, 3, 3, padding=padding),
        "wide": lambda: Conv2d(2, 3, 7, padding=padding, stride=2),
        "atrous": lambda: Conv2d(2, 3, 3, padding=padding, dilation=6),
        "depthwise": lambda: Conv2d(2, 2, 5, padding=padding, groups=2),
        "pool": lambda: MaxPool2d(padding=padding),
        "up": lambda: Upsample2d(2, 3, padding=padding),
    }
    return built[kind]().double()


KINDS = ("conv", "wide", "atrous", "depthwise", "pool", "up")
# Output pixels for each input pixel.
SCALE = {"conv": 1, "wide": 0.5, "atrous": 1, "depthwise": 1, "pool": 0.5, "up": 2}


@given(west=st.integers(0, 40), east=st.integers(0, 40))
def test_wrapping_continues_longitude_as_often_as_it_takes(west, east):
    # On a map whose value is the column's number, column j of the wrapped map is (j - west) modulo 12.
    columns = torch.arange(12.0).expand(1, 1, 2, 12)
    expected = (torch.arange(12 + west + east) - west) % 12
    assert torch.equal(wrap(columns, west, east)[0, 0, 1], expected.to(torch.float32))


def test_a_wrapped_map_keeps_its_channels_together_or_apart():
    fields = torch.randn(2, 3, 4, 5)
    together = fields.contiguous(memory_format=torch.channels_last)
    assert wrap(fields, 2, 1).is_contiguous()
    assert wrap(together, 2, 1).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(wrap(together, 2, 1), wrap(fields, 2, 1))


@pytest.mark.parametrize("kind", KINDS)
@given(roll=st.integers(-6, 6))
def test_rolling_the_input_in_longitude_rolls_the_result(kind, roll):
    network, x = layer(kind, "periodic"), fields(2, 2, 8, 12)
    rolled = network(x.roll(2 * roll, -1))
    torch.testing.assert_close(rolled, network(x).roll(int(2 * roll * SCALE[kind]), -1))


@pytest.mark.parametrize("kind", KINDS)
def test_periodic_and_zero_padding_agree_away_from_the_seam(kind):
    # The widest kernel reaches 6 columns; an edge may touch 6 columns of the input, 12 of the doubled map.
    x, margin = fields(1, 2, 16, 48), 12
    inside = (..., slice(margin, -margin)) if SCALE[kind] >= 1 else (..., slice(margin // 2, -margin // 2))
    torch.testing.assert_close(layer(kind, "periodic")(x)[inside], layer(kind, "zeros")(x)[inside])


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_at_one_pole_does_not_reach_the_other(kind):
    x = fields(1, 2, 16, 12)
    changed = x.clone()
    changed[:, :, 0] += 1
    network = layer(kind, "periodic")
    half = slice(int(8 * SCALE[kind]), None)
    assert torch.equal(network(changed)[:, :, half], network(x)[:, :, half])
    assert not torch.equal(network(changed)[:, :, :1], network(x)[:, :, :1])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("padding", ["periodic", "zeros"])
def test_maps_keep_their_size_up_to_the_stride(kind, padding):
    shape = layer(kind, padding)(fields(1, 2, 8, 12)).shape[2:]
    assert tuple(shape) == (8 * SCALE[kind], 12 * SCALE[kind])


def test_upsampling_is_the_transpose_of_a_strided_convolution():
    # <up(x), y> = <x, down(y)> for down the convolution of stride 2 with the same kernel, on the same periodic map.
    torch.manual_seed(0)
    up = Upsample2d(2, 3, padding="periodic", bias=False).double()
    x, y = fields(1, 2, 4, 6), fields(1, 3, 8, 12, seed=1)
    down = F.conv2d(wrap(y, 1, 1), up.weight, stride=2, padding=(1, 0))
    torch.testing.assert_close((up(x) * y).sum(), (x * down).sum())


@pytest.mark.parametrize("norm", ["none", "half", "batch", "group"])
def test_a_convolution_has_a_bias_only_where_no_normalisation_follows(norm):
    built = convolution(4, 8, 3, norm=norm, padding="zeros")
    assert ("conv.bias" in built.state_dict()) == (norm == "none")
    assert built(torch.randn(2, 4, 8, 8)).min() >= 0


def test_initial_kernels_keep_the_size_of_activations():
    # A sum of n inputs with kernel values of variance 2 / n has E[y^2] = 2 E[x^2]; the ReLU halves it again.
    torch.manual_seed(0)
    x = torch.randn(4, 64, 32, 32).relu()
    for built in (Conv2d(64, 64, 3, padding="periodic"), Upsample2d(64, 64, padding="periodic")):
        initialise(built)
        y = built(x)[:, :, 2:-2]
        torch.testing.assert_close(y.square().mean(), 2 * x.square().mean(), rtol=0.1, atol=0)
