"""Networks for other programs: what ONNX Runtime and torch.export say is what the detector says."""

import json

import numpy as np
import onnxruntime
import pytest
import torch

from climlab_dl import synthetic
from climlab_dl.climate.fields import CLASSES
from climlab_dl.cosmology.volumes import Volume
from climlab_dl.inference import export
from climlab_dl.inference.detect import Detector
from climlab_dl.inference.summaries import Summaries
from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.training import checkpoint, portable
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.losses import MSE, WeightedCrossEntropy
from climlab_dl.training.run import Run
from climlab_dl.training.universes import Universes

CHANNELS = ("TMQ", "PSL")
SMALL = {
    "deeplab": DeepLab.small(),
    "tiramisu": Tiramisu(blocks=(1, 1), growth=4, kernel=3, stem=4, dropout=0.5, norm="batch"),
}
# Not a multiple of the networks' strides, so that the edges are part of what is compared.
GRID = (21, 46)


@pytest.fixture(scope="module")
def fields():
    atmosphere = synthetic.atmosphere(times=3, shape=GRID, seed=0)[list(CHANNELS)]
    return atmosphere.to_dataarray("channel").transpose("time", "channel", "lat", "lon").values.astype(np.float32)


@pytest.fixture(scope="module", params=SMALL)
def masks(request, tmp_path_factory):
    """A checkpoint of a network for masks, with running averages that batch normalisation has made."""
    torch.manual_seed(0)
    model = SMALL[request.param]
    built = model.build(2, 3)
    built(torch.randn(2, 2, 32, 64))
    run = Run(data=ClimateArchive(source="x", channels=CHANNELS), model=model, loss=WeightedCrossEntropy(), steps=1)
    facts = {"channels": list(CHANNELS), "classes": list(CLASSES)}
    facts |= {"mean": torch.tensor([20.0, 101000.0]), "std": torch.tensor([10.0, 1000.0])}
    facts |= {"lat": torch.linspace(-85, 85, GRID[0]), "lon": torch.arange(GRID[1]) * 360.0 / GRID[1]}
    state = {"run": run.to_json(), "model": built.state_dict(), "statistics": facts, "step": 7, "optimizer": {"a": 1}}
    path = tmp_path_factory.mktemp(request.param) / "best.pt"
    checkpoint.save(path, state)
    return path


@pytest.fixture(scope="module")
def parameters(tmp_path_factory):
    """A checkpoint of a network for two parameters of volumes at two redshifts."""
    torch.manual_seed(0)
    model = CosmoFlow.small()
    names = ("Omega_m", "sigma_8")
    run = Run(data=Universes(source="x", parameters=names), model=model, loss=MSE(), steps=1)
    facts = {"channels": ["a", "b"], "targets": list(names), "log1p": True}
    facts |= {"mean": torch.tensor([0.5, 0.4]), "std": torch.tensor([0.7, 0.6])}
    facts |= {"target_mean": torch.tensor([0.3, 0.85]).double(), "target_std": torch.tensor([0.03, 0.05]).double()}
    path = tmp_path_factory.mktemp("cosmoflow") / "best.pt"
    checkpoint.save(path, {"run": run.to_json(), "model": model.build(2, 2).state_dict(), "statistics": facts})
    return path


def onnx_session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it tells of casts that it does not fold
    return onnxruntime.InferenceSession(path, options)


def test_onnx_runtime_says_what_the_detector_says(masks, fields, tmp_path):
    session = onnx_session(export.write(masks, tmp_path / "network.onnx"))
    (found,) = session.run(["probabilities"], {"fields": fields})
    detector = Detector.load(masks)
    np.testing.assert_allclose(np.asarray(found), [detector.look(one) for one in fields], atol=1e-4)
    facts = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
    assert facts["channels"] == list(CHANNELS)
    assert facts["units"] == ["kg m-2", "Pa"]
    assert facts["classes"] == list(CLASSES)
    assert (facts["shape"], facts["step"]) == ([2, *GRID], 7)


def test_what_torch_exports_says_the_same_without_this_package(parameters, tmp_path):
    counts = np.random.default_rng(0).poisson(1.0, (3, 2, 32, 32, 32)).astype(np.float32)
    facts = {"facts.json": ""}
    made = export.write(parameters, tmp_path / "network.pt2", size=(32, 32, 32))
    program = torch.export.load(made, extra_files=facts)
    found = program.module()(torch.from_numpy(counts)).numpy()
    network = Summaries.load(parameters, symmetries=1)
    volumes = [Volume(counts=np.moveaxis(one, 0, -1).astype(np.int16), source=parameters) for one in counts]
    np.testing.assert_allclose(found, [network(volume) for volume in volumes], rtol=1e-4)
    assert json.loads(facts["facts.json"])["parameters"] == ["Omega_m", "sigma_8"]
    session = onnx_session(export.write(parameters, tmp_path / "network.onnx", size=(32, 32, 32)))
    (again,) = session.run(["parameters"], {"counts": counts})
    np.testing.assert_allclose(np.asarray(again), found, rtol=1e-4)


def test_what_a_training_knew_of_its_volumes_is_exported_too(parameters, tmp_path):
    told = {"cells_a_side": 16, "box_size_mpc_h": 64.0, "redshifts": [0.0, 1.5]}
    state = checkpoint.load(parameters)
    checkpoint.save(tmp_path / "told.pt", {**state, "statistics": state["statistics"] | told})
    extra = {"facts.json": ""}
    torch.export.load(export.write(tmp_path / "told.pt", tmp_path / "network.pt2"), extra_files=extra)
    facts = json.loads(extra["facts.json"])
    assert facts["axes"] == ["redshift", "x", "y", "z"]
    assert facts["shape"] == [2, 16, 16, 16]
    assert (facts["redshifts"], facts["box_size_mpc_h"]) == ([0.0, 1.5], 64.0)


def test_exported_weights_may_be_read_by_whoever_may_read_other_files(parameters, tmp_path):
    (tmp_path / "other").touch()
    assert export.write(parameters, tmp_path / "a.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_network_of_any_size_asks_for_one(parameters, tmp_path):
    with pytest.raises(ValueError, match=r"give size=, such as \(64, 64, 64\)"):
        export.write(parameters, tmp_path / "network.onnx")


def test_safetensors_read_back_are_the_same_network_bit_by_bit(masks, parameters, tmp_path):
    for path in (masks, parameters):
        state = checkpoint.load(path)
        again = checkpoint.load(export.write(path, tmp_path / f"{path.parent.name}.safetensors"))
        assert again["run"] == state["run"]
        assert again["step"] == state.get("step", 0)
        for ours, theirs in ((again["model"], state["model"]), (again["statistics"], state["statistics"])):
            assert ours.keys() == theirs.keys()
            for name, value in theirs.items():
                assert torch.equal(ours[name], value) if isinstance(value, torch.Tensor) else ours[name] == value


def test_a_detector_is_loaded_from_safetensors(masks, fields, tmp_path):
    detector = Detector.load(export.write(masks, tmp_path / "network.safetensors"))
    np.testing.assert_array_equal(detector.look(fields[0]), Detector.load(masks).look(fields[0]))


def test_weights_of_another_program_are_told_so(tmp_path):
    from safetensors.torch import save_file

    save_file({"weight": torch.ones(3)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="does not say its run, statistics, step: these are weights of"):
        portable.read(tmp_path / "other.safetensors")
    (tmp_path / "half.safetensors").write_bytes((tmp_path / "other.safetensors").read_bytes()[:20])
    with pytest.raises(ValueError, match="damaged"):
        portable.read(tmp_path / "half.safetensors")


def test_an_ending_that_is_no_format_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"exported as \.onnx, \.pt2, \.safetensors"):
        export.write(tmp_path, tmp_path / "network.h5")
