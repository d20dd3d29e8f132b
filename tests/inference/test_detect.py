"""Detection is lazy, keeps the user's coordinates, and says what it did."""

import copy
import logging
import pickle

import numpy as np
import pytest
import torch
import xarray as xr
from dask import config

from climlab_dl import archive, synthetic
from climlab_dl.climate.fields import CLASSES
from climlab_dl.inference import detect as detection
from climlab_dl.inference.detect import Detector, detect
from climlab_dl.inference.network import Network
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.training import checkpoint
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.run import Run

CHANNELS = ("TMQ", "PSL")


class Thresholds(torch.nn.Module):
    """River where the first normalised channel is over 1, cyclone where the second is under -1."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, fields):
        self.calls += 1
        wet, deep = fields[:, 0], -fields[:, 1]
        return 50.0 * torch.stack([torch.ones_like(wet), deep, wet], dim=1)


def thresholds(**changes):
    # TMQ over 20 + 10 = 30 kg m-2 is a river, PSL under 101000 - 1000 = 100000 Pa a cyclone.
    facts = {"mean": np.array([20, 101000], np.float32), "std": np.array([10, 1000], np.float32)}
    return Detector(networks=(Network(model=Thresholds(), channels=CHANNELS, **facts, **changes),))


def expected(fields):
    wet, deep = (fields.TMQ.values - 20) / 10, (101000 - fields.PSL.values) / 1000
    return np.stack([np.ones_like(wet), deep, wet]).argmax(axis=0)


@pytest.fixture(scope="module")
def fields():
    return synthetic.atmosphere(times=3, shape=(24, 48), seed=0)


def test_the_mask_is_the_likeliest_class(fields):
    found = detect(thresholds(), fields)
    assert (found.mask.values == expected(fields)).all()
    np.testing.assert_allclose(found.probabilities.sum("class"), 1.0, rtol=1e-5)
    assert found.probabilities.dims == ("time", "class", "lat", "lon")
    assert found["class"].values.tolist() == list(CLASSES)


def test_only_the_snapshots_looked_at_are_computed_and_each_once(fields):
    detector = thresholds()
    found = detect(detector, fields)
    assert detector.networks[0].model.calls == 0
    found.mask.isel(time=1).load()
    assert detector.networks[0].model.calls == 1
    found.probabilities.isel(time=1).load()
    assert detector.networks[0].model.calls == 1
    found.load()
    assert detector.networks[0].model.calls == 3


def test_one_snapshot_without_time_gives_one_mask_without_time(fields):
    one = fields.isel(time=1, drop=True)
    found = detect(thresholds(), one)
    assert found.mask.dims == ("lat", "lon")
    assert (found.mask.values == expected(one)).all()


def test_the_users_coordinates_come_back(fields, tmp_path):
    theirs = fields[list(CHANNELS)].isel(lat=slice(None, None, -1))
    theirs = theirs.assign_coords(lon=(theirs.lon + 180) % 360 - 180).sortby("lon")
    for name, unit in (("TMQ", "kg m-2"), ("PSL", "Pa")):
        theirs[name].attrs["units"] = unit
    theirs.to_netcdf(tmp_path / "theirs.nc")
    found = detect(thresholds(), archive.open(tmp_path / "theirs.nc"))
    np.testing.assert_allclose(found.lat, theirs.lat)
    np.testing.assert_allclose(found.lon, theirs.lon)
    assert (found.mask.values == expected(theirs)).all()


def test_pixels_without_data_are_no_storm_and_do_not_spread(fields):
    holed = fields[list(CHANNELS)].copy(deep=True).load()
    holed["PSL"][0, 3:6, 4:9] = np.nan
    found = detect(thresholds(), holed)
    hole = np.isnan(holed.PSL.values)
    assert (found.mask.values[hole] == -1).all()
    assert (found.mask.values[~hole] == expected(holed)[~hole]).all()
    assert np.isnan(found.probabilities.transpose("time", "lat", "lon", "class").values[hole]).all()


def test_a_missing_channel_is_refused_or_said(fields, caplog):
    with pytest.raises(ValueError, match="no field 'PSL'"):
        detect(thresholds(), fields[["TMQ", "U850"]])
    with pytest.raises(ValueError, match=r"there is no TMQ, PSL\. missing='mean' would take"):
        detect(thresholds(), fields[["U850"]])
    with caplog.at_level(logging.WARNING):
        found = detect(thresholds(), fields[["TMQ"]], missing="mean")
    assert "no PSL: taken to be the mean of the training" in caplog.text
    assert not (found.mask == 1).any()
    assert (found.mask.values == 2 * (fields.TMQ.values > 30)).all()


def test_a_mean_does_not_stand_in_for_what_may_be_there_under_another_name(fields, caplog):
    other = fields[["TMQ"]].assign_attrs(unrecognised="orography orography")
    with caplog.at_level(logging.WARNING):
        detect(thresholds(), other, missing="mean")
    assert "mean of the training everywhere; not read: orography\n" in caplog.text
    other.attrs["unrecognised"] = "orography level_pressure"
    with pytest.raises(ValueError, match=r"no PSL, but level_pressure, .* names=\{'level_pressure': 'PSL'\}"):
        detect(thresholds(), other, missing="mean")


def test_options_are_checked_before_any_work(fields):
    with pytest.raises(ValueError, match="missing is 'guess'"):
        detect(thresholds(), fields, missing="guess")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="regrid is 'spline'"):
        detect(thresholds(), fields, regrid="spline")  # pyright: ignore[reportArgumentType]


def test_another_grid_is_said_and_the_answer_comes_back_on_the_users(fields, caplog):
    coarse = np.linspace(-85, 85, 12), np.arange(24) * 15.0
    # A detector trained on a coarser grid still answers on this one; storms larger than its cells stay.
    with caplog.at_level(logging.WARNING):
        found = detect(thresholds(grid=coarse), fields, regrid="conservative")
    assert "24 x 48, the network was trained on 12 x 24: regridded (conservative)" in caplog.text
    assert found.mask.shape == fields.TMQ.shape
    same = (found.mask.values == expected(fields)).mean()
    assert same > 0.8
    np.testing.assert_allclose(found.probabilities.sum("class"), 1.0, rtol=1e-4)


def test_a_detector_on_its_own_grid_does_not_regrid(fields):
    found = detect(thresholds(grid=(fields.lat.values, fields.lon.values)), fields)
    assert (found.mask.values == expected(fields)).all()


def test_sides_that_the_stride_does_not_divide_are_padded_and_cut(fields):
    odd = fields.isel(lat=slice(0, 23), lon=slice(0, 47))
    found = detect(thresholds(stride=8), odd)
    assert (found.mask.values == expected(odd)).all()


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A run's folder with a checkpoint of a small network that was never trained."""
    torch.manual_seed(0)
    run = Run(
        data=ClimateArchive(source="sample", channels=CHANNELS),
        model=DeepLab.small(),
        loss=WeightedCrossEntropy(),
        steps=1,
    )
    network = run.model.build(len(CHANNELS), len(CLASSES)).eval()
    statistics = {
        "channels": list(CHANNELS),
        "classes": list(CLASSES),
        "mean": torch.tensor([20.0, 101000.0]),
        "std": torch.tensor([10.0, 1000.0]),
    }
    folder = tmp_path_factory.mktemp("run")
    (folder / "checkpoints").mkdir()
    state = {"run": run.to_json(), "model": network.state_dict(), "statistics": statistics, "step": 7}
    checkpoint.save(folder / "checkpoints" / "step-00000007.pt", state)
    return folder, network


def test_a_loaded_detector_answers_as_the_network_that_was_saved_to_rounding(run_folder):
    folder, network = run_folder
    fields = synthetic.atmosphere(times=1, shape=(32, 64), seed=1)
    found = detect(Detector.load(folder), fields)
    normal = np.stack([(fields.TMQ.values - 20) / 10, (fields.PSL.values - 101000) / 1000], axis=1)
    snapshot = torch.from_numpy(normal.astype(np.float32))
    with torch.inference_mode():
        direct = network(snapshot).softmax(1).numpy()
        exact = copy.deepcopy(network).double()(snapshot.double()).softmax(1).numpy()
    # Folded kernels round otherwise, but no worse: a few times what single precision costs the network as it was.
    assert abs(found.probabilities.values - exact).max() < 4 * abs(direct - exact).max()
    assert abs(found.probabilities.values - exact).max() < 2e-5


def test_a_loaded_network_is_folded_and_keeps_its_channels_together(run_folder):
    model = Detector.load(run_folder[0]).networks[0].model
    norms = [layer for layer in run_folder[1].modules() if isinstance(layer, torch.nn.BatchNorm2d)]
    assert sum(isinstance(layer, torch.nn.BatchNorm2d) for layer in model.modules()) < len(norms) / 2
    kernels = [weight for weight in model.parameters() if weight.ndim == 4]
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in kernels)
    assert not any(weight.requires_grad for weight in model.parameters())


def test_a_mask_says_which_weights_made_it_and_keeps_its_type_on_disk(run_folder, tmp_path):
    detector = Detector.load(run_folder[0])
    found = detect(detector, synthetic.atmosphere(times=1, shape=(32, 64), seed=1))
    assert detector.networks[0].sha256 in found.attrs["history"]
    assert "step 7" in found.attrs["history"]
    archive.save(found, tmp_path / "found.nc")
    with xr.open_dataset(tmp_path / "found.nc") as back:
        assert back.mask.dtype == np.int8
        assert back.mask.attrs["flag_meanings"] == "background cyclone river"
        assert back.mask.attrs["flag_values"].tolist() == [0, 1, 2]
        assert detector.networks[0].sha256 in back.attrs["history"]
        assert (back.mask == found.mask).all()


def test_a_checkpoint_is_read_once_a_process_and_again_when_written_over(run_folder):
    folder, _ = run_folder
    path = folder / "checkpoints" / "step-00000007.pt"
    first = Detector.load(path)
    assert Detector.load(folder).networks[0] is first.networks[0]
    assert pickle.loads(pickle.dumps(first)).networks[0] is first.networks[0]
    state = checkpoint.load(path)
    checkpoint.save(path, {**state, "step": 8})
    assert Detector.load(path).networks[0].step == 8
    checkpoint.save(path, state)


def test_what_cannot_be_loaded_is_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match="no checkpoint yet"):
        Detector.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"absent\.pt does not exist .*give a run's folder"):
        Detector.load(tmp_path / "absent.pt")
    (tmp_path / "damaged.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="damaged"):
        Detector.load(tmp_path / "damaged.pt")


@pytest.mark.slow
def test_a_mask_computed_by_processes_is_the_same(run_folder):
    fields = synthetic.atmosphere(times=2, shape=(32, 64), seed=1)
    found = detect(Detector.load(run_folder[0]), fields).mask
    here = found.compute(scheduler="synchronous")
    with config.set({"multiprocessing.context": "spawn"}):
        there = found.compute(scheduler="processes", num_workers=1)
    assert (here == there).all()


def test_provenance_is_the_same_for_the_same_weights(run_folder):
    detector = Detector.load(run_folder[0])
    assert detection.provenance(detector) == detection.provenance(detector)
    assert detection.provenance(thresholds()).endswith("detect")
