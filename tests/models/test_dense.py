"""Convolutions over features that stay apart."""

import pytest
import torch

from climlab_dl.models.dense import DroppedRelu, JoinedConv2d, kept_share
from climlab_dl.models.layers import Conv2d


@pytest.mark.parametrize("padding", ["periodic", "zeros"])
@pytest.mark.parametrize(("kernel", "stride"), [(5, 1), (3, 1), (1, 1), (1, 2)])
@pytest.mark.parametrize("lon", [12, 1])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_maps_kept_apart_give_what_joined_maps_give(padding, kernel, stride, lon, layout):
    # A map of one column wraps round its 5x5 kernel twice on either side.
    torch.manual_seed(0)
    apart = JoinedConv2d(9, 4, kernel, stride=stride, padding=padding).double()
    joined = Conv2d(9, 4, kernel, stride=stride, padding=padding).double()
    joined.load_state_dict(apart.state_dict())
    features = [torch.randn(2, c, 6, lon).double().contiguous(memory_format=layout) for c in (3, 2, 4)]
    results = []
    for network, join in ((apart, lambda f: f), (joined, lambda f: [torch.cat(f, 1)])):
        given = [feature.clone().requires_grad_() for feature in features]
        result = network(*join(given))
        values = [*given, *network.parameters()]
        results.append([result, *torch.autograd.grad(result.square().sum(), values)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_gradients_of_kernel_and_maps_agree_with_finite_differences():
    torch.manual_seed(0)
    network = JoinedConv2d(3, 2, 3, padding="periodic").double()
    features = [torch.randn(1, c, 4, 5).double().requires_grad_() for c in (1, 2)]
    assert torch.autograd.gradcheck(network, features)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_reaches_kernel_and_maps(dtype):
    network = JoinedConv2d(3, 2, 3, padding="periodic")
    with torch.autocast("cpu", dtype):
        result = network(torch.randn(1, 1, 4, 6, dtype=dtype), torch.randn(1, 2, 4, 6))
    result.float().sum().backward()
    assert result.dtype == dtype
    assert network.weight.grad is not None
    assert network.weight.grad.dtype == torch.float32


def test_joined_maps_are_not_kept_for_the_gradient():
    # Of three maps and a kernel, what is kept is they themselves: no copy of their join, wrapped or not.
    kept = []
    network = JoinedConv2d(9, 4, 5, padding="periodic")
    features = [torch.randn(2, c, 8, 12, requires_grad=True) for c in (3, 2, 4)]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()) or t, lambda t: t):
        network(*features)
    assert sorted(kept) == sorted(t.data_ptr() for t in (network.weight, *features))


def test_dropout_keeps_the_mean_and_stops_the_gradient_where_it_dropped():
    torch.manual_seed(0)
    layer, x = DroppedRelu(0.25), torch.rand(1000, 100) + 0.1
    leaf = x.clone().requires_grad_()
    result = layer(leaf * 1)
    result.sum().backward()
    # 100,000 values kept with probability 3/4: standard error of the share 0.0014.
    assert abs(float((result > 0).float().mean()) - 0.75) < 0.006
    torch.testing.assert_close(result.detach(), torch.where(result > 0, x / 0.75, 0.0))
    torch.testing.assert_close(leaf.grad, torch.where(result > 0, 1 / 0.75, 0.0))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dropout_keeps_the_share_that_it_says_at_every_pixel_and_channel(layout, dtype):
    # 0.3 is no multiple of 2^-16: 0.7 x 65536 = 45875.2, so 45875 of 65536 numbers keep a value.
    assert kept_share(0.3) == 45875 / 65536
    torch.manual_seed(0)
    x = torch.ones(5, 6, 150, 151, dtype=dtype).contiguous(memory_format=layout)
    kept = (DroppedRelu(0.3)(x) > 0).double()
    # 679,500 draws: standard error of the share 0.00056; of one of the 30 maps of 22,650 0.0030.
    assert abs(float(kept.mean()) - 0.7) < 4 * 0.00056
    assert float((kept.mean((2, 3)) - 0.7).abs().max()) < 4.5 * 0.0030
    # Neighbours are drawn from the same number of 64 bits, but do not know of each other: 0.7 x 0.7 keep both.
    for axis in range(4):
        both = (kept * kept.roll(1, axis)).mean()
        assert abs(float(both) - 0.49) < 4 * (0.49 * 0.51 * 3 / kept.numel()) ** 0.5


@pytest.mark.parametrize("dropout", [1e-9, 0.2, 0.5, 1 - 1e-9])
def test_the_mean_is_kept_whatever_the_share(dropout):
    # Kept values are divided by the probability with which they are really kept, the nearest multiple of 2^-16 above 0.
    assert kept_share(dropout) * 2**16 == max(1, round((1 - dropout) * 2**16))
    torch.manual_seed(0)
    result = DroppedRelu(dropout)(torch.ones(1, 4, 16, 16))
    assert torch.all((result == 0) | ((result - 1 / kept_share(dropout)).abs() < 1e-6 / kept_share(dropout)))
    assert dropout > 1e-6 or torch.equal(result, torch.ones(1, 4, 16, 16))


def test_a_seed_drops_the_same_values_again_and_the_next_draw_others():
    torch.manual_seed(3)
    first, second = (DroppedRelu(0.5)(torch.ones(2, 3, 5, 7)) for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(DroppedRelu(0.5)(torch.ones(2, 3, 5, 7)), first)
    assert not torch.equal(first, second)


def test_without_training_nothing_is_dropped():
    x = torch.linspace(-1, 1, 11)
    assert torch.equal(DroppedRelu(0.5).eval()(x.clone()), x.relu())
