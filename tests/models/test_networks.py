"""What holds for every network: it learns, its gradients are right, it wraps, it refuses what it cannot take."""

from dataclasses import replace
from hashlib import sha256

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.tiramisu import Tiramisu

TINY = {
    "tiramisu": Tiramisu(blocks=(1, 2, 2), growth=4, kernel=3, stem=6, dropout=0.0),
    "tiramisu normalised": Tiramisu(blocks=(1, 2, 2), growth=4, kernel=3, stem=6, dropout=0.0, norm="batch"),
    "deeplab": replace(DeepLab.small(), width=8, depth=8, low_level=4, norm="group"),
    "deeplab published": DeepLab(backbone="resnet14", width=8, depth=8, low_level=4, rates=(2, 4)),
    "deeplab mlperf": replace(DeepLab.mlperf(), width=8, depth=32, low_level=16, middle=1, rates=(1, 2)),
}
VOLUMES = {
    "cosmoflow": CosmoFlow.small(),
    "cosmoflow published": CosmoFlow(
        size=16, features=(4, 8), kernels=(3, 4), strides=(1, 1), pooled=(True, True), hidden=(16, 8), dropout=0.0
    ),
    "cosmoflow mlperf": replace(
        CosmoFlow.mlperf(),
        size=16,
        features=(2, 4, 8),
        kernels=(3,) * 3,
        strides=(1,) * 3,
        pooled=(True,) * 3,
        dropout=0.0,
    ),
}


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    return TINY[name].build(4, 3) if name in TINY else VOLUMES[name].build(2, 3)


def example(name: str, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if name in TINY:
        return torch.randn(2, 4, 32, 64, generator=generator)
    size = VOLUMES[name].size or 16
    # Two volumes of unlike contrast, as two universes have.
    return torch.randn(2, 2, size, size, size, generator=generator) * torch.tensor([0.5, 2.0]).view(2, 1, 1, 1, 1)


maps = pytest.mark.parametrize("name", TINY)
every = pytest.mark.parametrize("name", [*TINY, *VOLUMES])


@maps
def test_logits_have_the_size_of_the_fields(name):
    assert build(name)(example(name)).shape == (2, 3, 32, 64)


@maps
@pytest.mark.parametrize("channels", [1, 7])
@pytest.mark.parametrize("classes", [2, 5])
def test_any_number_of_channels_and_classes_will_do(name, channels, classes):
    network = TINY[name].build(channels, classes)
    assert network(torch.randn(2, channels, 32, 48)).shape == (2, classes, 32, 48)


@maps
def test_rolling_the_fields_by_a_stride_rolls_the_logits(name):
    network, x = build(name).double().eval(), example(name).double()
    stride = TINY[name].stride
    torch.testing.assert_close(network(x.roll(stride, -1)), network(x).roll(stride, -1))


@maps
def test_zero_padding_breaks_that_symmetry(name):
    torch.manual_seed(0)
    network = replace(TINY[name], padding="zeros").build(4, 3).double().eval()
    x, stride = example(name).double(), TINY[name].stride
    assert (network(x.roll(stride, -1)) - network(x).roll(stride, -1)).abs().max() > 1e-6


def test_nothing_leaks_from_pole_to_pole():
    # Rows above the middle cannot see the lowest row: the network's reach is 3 convolutions of 1 row at 1/1, 2 + 2 of 2
    # rows at 1/2, 2 of 4 rows at 1/4 and the transitions', together under 32.
    network = build("tiramisu").double().eval()
    x = torch.randn(1, 4, 96, 32, dtype=torch.float64)
    changed = x.clone()
    changed[:, :, 0] += 1
    assert torch.equal(network(x)[:, :, 48:], network(changed)[:, :, 48:])
    assert not torch.equal(network(x)[:, :, :1], network(changed)[:, :, :1])


@maps
@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((1, 5, 16, 32), "built for 4 channels, found 5"),
        ((1, 4, 19, 32), "lat has to be a multiple of .*found 19; crop to 16, by .*isel.lat=slice.0, 16"),
        ((1, 4, 16, 35), "lon has to be a multiple of .*found 35; crop to 32, by .*isel.lon=slice.0, 32"),
        ((4, 16, 32), "add the batch"),
    ],
)
def test_fields_that_do_not_fit_are_refused_with_advice(name, shape, words):
    with pytest.raises(ValueError, match=words):
        build(name)(torch.zeros(shape))


@every
def test_one_batch_can_be_learnt_by_heart(name):
    network, x = build(name), example(name)
    if name in TINY:
        truth, measure = (x[:, 0] > 0).long() + (x[:, 1] > 1).long(), F.cross_entropy
    else:
        truth, measure = torch.tensor([[-0.4, 0.1, 0.3], [0.2, -0.3, 0.4]]), F.l1_loss
    optimizer = torch.optim.Adam(network.parameters(), 1e-2 if name in TINY else 3e-3)
    losses = []
    for _ in range(80):
        optimizer.zero_grad()
        loss = measure(network(x), truth)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses[-10:]) < 0.25 * losses[0], losses


@every
def test_gradients_agree_with_finite_differences(name):
    network, x = build(name).double(), example(name).double().requires_grad_()
    values = [x, *network.parameters()]

    def loss(*values):
        parameters = dict(zip(dict(network.named_parameters()), values[1:], strict=True))
        return torch.func.functional_call(network, parameters, (values[0],)).square().mean()

    gradients = torch.autograd.grad(loss(*values), values)
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        along = [torch.randn(v.shape, generator=generator, dtype=v.dtype) for v in values]
        with torch.no_grad():  # so short a step that no ReLU changes its mind on the way
            ahead = loss(*(v + 1e-8 * d for v, d in zip(values, along, strict=True)))
            behind = loss(*(v - 1e-8 * d for v, d in zip(values, along, strict=True)))
        expected = sum(torch.sum(g * d) for g, d in zip(gradients, along, strict=True))
        torch.testing.assert_close((ahead - behind) / 2e-8, expected, rtol=1e-5, atol=1e-6)


@every
def test_float32_gradients_agree_with_float64(name):
    gradients = {}
    for dtype in (torch.float32, torch.float64):
        network = build(name).to(dtype)
        network(example(name).to(dtype)).square().mean().backward()
        gradients[dtype] = torch.cat([p.grad.double().flatten() for p in network.parameters() if p.grad is not None])
    difference = gradients[torch.float32] - gradients[torch.float64]
    # Rounding is 1e-6 of it; a value so near zero that rounding takes it through a ReLU makes up to 6e-3.
    assert difference.norm() < 0.01 * gradients[torch.float64].norm()


@every
def test_every_parameter_takes_part(name):
    network = build(name)
    network(example(name)).square().mean().backward()
    assert [n for n, p in network.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("name", [name for name in TINY if "deeplab" in name])
def test_computing_again_for_the_gradient_changes_nothing(name):
    gradients, states = [], []
    for again in (False, True):
        torch.manual_seed(0)
        network = replace(TINY[name], recompute=again).build(4, 3)
        network(example(name)).square().mean().backward()
        gradients.append([p.grad for p in network.parameters()])
        states.append(network.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    # Running statistics have seen the batch once, not twice.
    assert all(torch.equal(a, b) for a, b in zip(states[0].values(), states[1].values(), strict=True))


@pytest.mark.parametrize("name", VOLUMES)
def test_volumes_in_slabs_give_the_same_gradients(name):
    found = []
    for again in (False, True):
        torch.manual_seed(0)
        network = replace(VOLUMES[name], recompute=again).build(2, 3).double()
        network(example(name).double()).square().mean().backward()
        found.append([p.grad for p in network.parameters()])
    for kept, recomputed in zip(*found, strict=True):
        torch.testing.assert_close(recomputed, kept)


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gives_nearly_the_same(name, dtype):
    # The last 3-D map is 4^3: torch 2.13's bfloat16 kernel gradient reads unset memory on maps of 2^3 (CPU).
    network, x = build(name), example(name)
    layout = torch.channels_last if x.ndim == 4 else torch.channels_last_3d
    expected = network(x).detach()
    for parameter in network.parameters():
        if parameter.ndim == x.ndim:
            parameter.data = parameter.data.contiguous(memory_format=layout)
    with torch.autocast("cpu", dtype):
        found = network(x.contiguous(memory_format=layout))
    found.float().square().mean().backward()
    assert all(bool(p.grad.isfinite().all()) for p in network.parameters() if p.grad is not None)
    # Roundings of 2^-9 (bfloat16) and 2^-12 (float16) grow over dozens of layers, most where few pixels are normalised.
    assert (found - expected).norm() < 50 * torch.finfo(dtype).eps / 2 * expected.norm()


@every
def test_the_exported_program_computes_the_same(name):
    # In float64: what computes a convolution in float32 may differ, and with it the order of sums.
    network, x = build(name).double().eval(), example(name).double()
    program = torch.export.export(network, (x,))
    torch.testing.assert_close(program.module()(x), network(x))


@every
def test_a_network_of_the_same_description_takes_its_state(name):
    network, other = build(name).eval(), (TINY | VOLUMES)[name]
    other = (other.build(4, 3) if name in TINY else other.build(2, 3)).eval()
    other.load_state_dict(network.state_dict())
    assert torch.equal(other(example(name)), network(example(name)))


@pytest.mark.parametrize(
    ("description", "channels", "digest"),
    [
        (Tiramisu.kurth(), 16, "91451b6c9337a603"),
        (Tiramisu.small(), 16, "eb945a626681be63"),
        (DeepLab.kurth(), 16, "2ff0d690f953cc42"),
        (DeepLab.mlperf(), 16, "f958cc01382b3cb8"),
        (DeepLab.small(), 16, "a2704409eb2aee9e"),
        (CosmoFlow.paper(), 1, "60ed4b3e0d087316"),
        (CosmoFlow.mlperf(), 4, "61b45b799d99b8a5"),
        (CosmoFlow.small(), 1, "01ff4d55b50b13c8"),
    ],
)
def test_names_and_shapes_in_checkpoints_are_those_of_older_checkpoints(description, channels, digest):
    # A change here leaves every checkpoint that users have unreadable: rename on loading before changing a digest.
    with torch.device("meta"):
        state = description.build(channels, 3).state_dict()
    text = "\n".join(f"{name} {tuple(value.shape)}" for name, value in state.items())
    assert sha256(text.encode()).hexdigest()[:16] == digest
