"""DeepCAM's HDF5 files in both layouts, written here as they are described, and round trips."""

from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive
from climlab_dl.climate.fields import CAM5, CYCLONE, FIELDS, RIVER
from climlab_dl.climate.formats import deepcam

ROWS, COLUMNS = 12, 18


@pytest.fixture
def data() -> np.ndarray:
    """Plausible channels, (lat, lon, channel): every channel within its colours, every pixel different."""
    noise = np.random.default_rng(0).random((ROWS, COLUMNS, 16), np.float32)
    low, high = (np.array([FIELDS[name].display[i] for name in CAM5], np.float32) for i in (0, 1))
    return low + noise * (high - low)


@pytest.fixture
def labels() -> np.ndarray:
    """Two labellings: a cyclone, and a river that is larger in the second."""
    masks = np.zeros((2, ROWS, COLUMNS), np.float32)
    masks[:, 3, 4] = CYCLONE
    masks[0, 8, 2:9] = RIVER
    masks[1, 6:9, 2:11] = RIVER
    return masks


def test_channels_last_as_in_mlperf_hpc(tmp_path, data, labels):
    with h5py.File(tmp_path / "data-2005-08-28-03-2-ANOMALY.h5", "w") as file:
        file["climate/data"] = data
        file["climate/labels_0"], file["climate/labels_1"] = labels
        file["climate/data_stats"] = np.zeros((4, 16), np.float32)
    with h5py.File(tmp_path / "stats.h5", "w") as file:
        file["climate/mean"] = np.zeros(16)
    fields = archive.open(tmp_path)
    assert list(fields) == [*CAM5, "mask", "labels"]
    # Step 3 of three hours is 09:00; the grid follows from the shape, poles included: -90..90 in 11 steps.
    assert fields.time.values == np.datetime64("2005-08-28T09")
    assert fields.run.values == [2]
    np.testing.assert_allclose(fields.lat, np.linspace(-90, 90, 12))
    np.testing.assert_allclose(fields.lon, np.arange(18) * 20)
    for i, name in enumerate(CAM5):
        np.testing.assert_array_equal(fields[name].values[0], data[..., i], err_msg=name)
    np.testing.assert_array_equal(fields.mask.values[0], labels[0])
    assert fields.mask.dtype == np.int8
    np.testing.assert_array_equal(fields.labels.values[0, 1], np.array([0, 1, 2])[labels[1].astype(int)])


def test_channels_first_with_some_left_out_as_in_the_set_of_2018(tmp_path, data, labels):
    kept = [0, 1, 2, 10]
    with h5py.File(tmp_path / "data-1996-06-09-01-1.h5", "w") as file:
        file["climate/data"] = np.moveaxis(data, -1, 0)[kept]
        file["climate/labels"] = labels
        file["climate/channels"] = np.array(kept, np.int32)
    fields = archive.open(tmp_path / "data-1996-06-09-01-1.h5")
    assert list(fields) == ["TMQ", "U850", "V850", "PRECT", "mask", "labels"]
    np.testing.assert_array_equal(fields.PRECT.values[0], data[..., 10])
    np.testing.assert_array_equal(fields.mask.values[0], labels[0])


def test_an_unknown_number_of_channels_is_refused(tmp_path, data):
    with h5py.File(tmp_path / "data-1996-06-09-01-1.h5", "w") as file:
        file["climate/data"] = data[..., :4]
    with pytest.raises(ValueError, match=r"4 channels.*climate/channels"):
        archive.open(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    # qubvel-org/segmentation_models.pytorch#197, shekkizh/FCN.tensorflow#17: labels of 3 classes have to be 0, 1, 2.
    [(0.5, "not whole numbers"), (3.0, r"0\.\.3 are out of range"), (-7.0, "out of range")],
)
def test_labels_that_are_no_classes_are_refused_by_name(tmp_path, data, labels, wrong, message):
    labels[0, 0, 0] = wrong
    with h5py.File(tmp_path / "data-1996-06-09-01-1.h5", "w") as file:
        file["climate/data"], file["climate/labels_0"] = data, labels[0]
    with pytest.raises(ValueError, match=f"data-1996-06-09-01-1.h5.*{message}"):
        archive.open(tmp_path)


@pytest.mark.parametrize("channels", [CAM5, ("TMQ", "PSL")], ids=["all", "some"])
def test_a_round_trip_is_the_identity(fields, tmp_path, channels):
    fields = fields[[*channels, "mask"]]
    xr.testing.assert_identical(archive.open(archive.save(fields, tmp_path / "out", layout="deepcam")), fields)


def test_two_labellings_and_the_run_survive_a_round_trip(tmp_path, data, labels):
    with h5py.File(tmp_path / "data-2005-08-28-03-2.h5", "w") as file:
        file["climate/data"], (file["climate/labels_0"], file["climate/labels_1"]) = data, labels
    fields = archive.open(tmp_path)
    again = archive.save(fields, tmp_path / "again", layout="deepcam")
    # Less than 0.9 of background would put ANOMALY in the name; here it is 1 - 8 / 216.
    assert sorted(path.name for path in again.iterdir()) == ["data-2005-08-28-03-2.h5", "stats.h5"]
    xr.testing.assert_identical(archive.open(again), fields)


def test_what_is_written_is_what_the_reference_reader_indexes(tmp_path, data, labels):
    """The statements of the MLPerf HPC reader: fields and labels by name, min-max statistics from stats.h5."""
    with h5py.File(tmp_path / "data-2005-08-28-03-2.h5", "w") as file:
        file["climate/data"], file["climate/labels_0"] = data, labels[1]
    folder = archive.save(archive.open(tmp_path), tmp_path / "out", layout="deepcam")
    with h5py.File(folder / "stats.h5") as stats_file, h5py.File(folder / "data-2005-08-28-03-2-ANOMALY.h5") as file:
        stats: Any = stats_file["climate"]
        group: Any = file["climate"]
        wanted = group["data"][..., list(range(16))]
        assert wanted.shape == (ROWS, COLUMNS, 16)
        assert group["labels_0"].dtype == np.float32
        assert group["data_stats"].shape == (4, 16)
        assert group["labels_0_stats"].shape == (7, 1)
        np.testing.assert_allclose(group["labels_0_stats"][4:, 0].sum(), 1, rtol=1e-6)
        low, high = stats["minval"][...], stats["maxval"][...]
        scaled = (wanted - low) / (high - low)
        assert scaled.min() == 0
        assert scaled.max() == 1
        std = np.sqrt(stats["sqmean"][...].astype(float) - stats["mean"][...].astype(float) ** 2)
        np.testing.assert_allclose(std[0], data[..., 0].std(), rtol=1e-3)
        assert stats["count"][()] == 1


def test_statistics_leave_missing_pixels_out():
    moments = deepcam.Moments(2)
    moments.add(np.array([[[1.0, np.nan], [3.0, 5.0]]], np.float32))
    found = moments.summary()
    assert found["mean"].tolist() == [2, 5]
    assert found["sqmean"].tolist() == [5, 25]
    assert found["minval"].tolist() == [1, 5]


def test_reading_all_channels_opens_each_file_once(tmp_path, data, monkeypatch):
    with h5py.File(tmp_path / "data-2005-08-28-03-2.h5", "w") as file:
        file["climate/data"] = data
    fields = archive.open(tmp_path)
    read = []
    monkeypatch.setattr(deepcam.Channels, "__call__", lambda self, f, i: read.append(f) or np.moveaxis(data, -1, 0))
    fields.compute(scheduler="synchronous")
    assert read == [0]


def test_times_that_the_names_cannot_tell_apart_are_refused(fields, tmp_path):
    hourly = fields.isel(time=slice(2))
    hourly = hourly.assign_coords(time=hourly.time[:1].values + np.array([0, 1], "timedelta64[h]"))
    with pytest.raises(ValueError, match="Two snapshots would both be data-2001-08-14-02-1"):
        archive.save(hourly, tmp_path / "out", layout="deepcam")
    with pytest.raises(ValueError, match="not dates"):
        archive.save(hourly.assign_coords(time=[0, 1]), tmp_path / "out", layout="climatenet")


def test_unlabelled_pixels_are_refused_because_the_layout_has_no_word_for_them(fields, tmp_path):
    fields.mask[0, 0, 0] = -1
    with pytest.raises(ValueError, match="1 unlabelled pixels"):
        archive.save(fields, tmp_path / "out", layout="deepcam")


def test_channels_that_deepcams_reader_would_miss_are_named(fields, tmp_path, caplog):
    archive.save(fields.drop_vars(["TS", "ZBOT"]), tmp_path, layout="deepcam")
    assert "there is no TS, ZBOT" in caplog.text
