"""Checkpoints of the MLPerf references find their place."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.keymaps import from_mlperf_cosmoflow, from_mlperf_deepcam


def reference() -> dict[str, torch.Tensor]:
    """State of the DeepCAM reference without values, as its published code makes it."""
    lines = Path(__file__).with_name("mlperf_deepcam_keys.txt").read_text().splitlines()[1:]
    state = {}
    for name, _, shape in (line.partition(" ") for line in lines):
        state[name] = torch.empty([int(n) for n in shape.split("x")] if shape else [], device="meta")
    return state


def test_every_name_of_the_deepcam_reference_maps_to_one_of_ours_with_its_shape():
    with torch.device("meta"):
        ours = DeepLab.mlperf().build(16, 3).state_dict()
    renamed = from_mlperf_deepcam(reference())
    assert len(renamed) == len(reference()) == len(ours)
    assert {name: value.shape for name, value in renamed.items()} == {n: v.shape for n, v in ours.items()}


def test_the_order_of_the_reference_is_kept_along_the_encoder():
    # Optimisers number parameters in the network's order; the encoder's numbers are the same in both.
    with torch.device("meta"):
        ours = [name for name in DeepLab.mlperf().build(16, 3).state_dict() if "encoder.middle" in name]
    renamed = [name for name in from_mlperf_deepcam(reference()) if "encoder.middle" in name]
    assert renamed == ours


def test_names_saved_on_several_ranks_are_understood():
    saved = {f"module.{name}": value for name, value in reference().items()}
    assert from_mlperf_deepcam(saved).keys() == from_mlperf_deepcam(reference()).keys()


def test_a_name_that_is_not_the_references_is_refused():
    with pytest.raises(ValueError, match=r"'optimizer.state' is not a name.*'model' entry"):
        from_mlperf_deepcam({"optimizer.state": torch.zeros(1)})


def keras_weights(description: CosmoFlow, seed: int = 0) -> list[np.ndarray]:
    """Random weights in Keras' shapes: (x, y, z, inputs, outputs) and (inputs, outputs)."""
    random, shapes = np.random.default_rng(seed), []
    for before, after in zip((4, *description.features[:-1]), description.features, strict=True):
        shapes += [(3, 3, 3, before, after), (after,)]
    widths = (description.features[-1], *description.hidden, 4)
    for before, after in pairwise(widths):
        shapes += [(before, after), (after,)]
    return [random.normal(size=shape, scale=0.3).astype(np.float32) for shape in shapes]


def keras_forward(x: np.ndarray, weights: list[np.ndarray]) -> np.ndarray:
    """The reference network written out with channels last: sums over 27 shifts, pooling by reshaping."""
    for kernel, bias in zip(weights[:10:2], weights[1:10:2], strict=True):
        padded, n = np.pad(x, [(0, 0), (1, 1), (1, 1), (1, 1), (0, 0)]), x.shape[1]
        x = bias + sum(padded[:, i : i + n, j : j + n, k : k + n] @ kernel[i, j, k] for i, j, k in np.ndindex(3, 3, 3))
        x = np.where(x > 0, x, 0.3 * x)
        x = x.reshape(len(x), n // 2, 2, n // 2, 2, n // 2, 2, -1).max((2, 4, 6))
    x = x.reshape(len(x), -1)
    for i, (kernel, bias) in enumerate(zip(weights[10::2], weights[11::2], strict=True)):
        x = x @ kernel + bias
        x = np.where(x > 0, x, 0.3 * x) if i < 2 else 1.2 * np.tanh(x)
    return x


@pytest.mark.parametrize("size", [32, 64])
def test_cosmoflow_computes_what_the_keras_network_does(size):
    description = replace(CosmoFlow.mlperf(), size=size, features=(2, 3, 4, 5, 6), hidden=(8, 7))
    weights = keras_weights(description)
    cells = (size // 32) ** 3
    weights[10] = np.random.default_rng(1).normal(size=(cells * 6, 8), scale=0.3).astype(np.float32)
    network = description.build(4, 4).eval()
    network.load_state_dict(from_mlperf_cosmoflow(weights))
    x = np.random.default_rng(2).normal(size=(2, size, size, size, 4)).astype(np.float32)
    with torch.no_grad():
        found = network(torch.from_numpy(x.transpose(0, 4, 1, 2, 3).copy()))
    np.testing.assert_allclose(found.numpy(), keras_forward(x, weights), rtol=1e-4, atol=1e-4)


def test_the_published_shapes_fit_the_published_network():
    description = CosmoFlow.mlperf()
    weights = keras_weights(description)
    weights[10] = np.zeros((64 * 512, 128), np.float32)
    with torch.device("meta"):
        ours = description.build(4, 4).state_dict()
    renamed = from_mlperf_cosmoflow(weights)
    assert {name: value.shape for name, value in renamed.items()} == {n: v.shape for n, v in ours.items()}


def test_weights_of_another_model_are_refused():
    with pytest.raises(ValueError, match=r"16 arrays.*found 15"):
        from_mlperf_cosmoflow(keras_weights(CosmoFlow.mlperf())[:-1])
