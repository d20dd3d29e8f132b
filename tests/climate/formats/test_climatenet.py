"""ClimateNet's NetCDF files: as published, and as written here."""

import netCDF4
import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive
from climlab_dl.climate.fields import CAM5, CYCLONE, FIELDS, RIVER


def publish(path, labels, seed=0):
    """Write a file as ClimateNet's are: text for a time, LABELS without time, int64; 12 x 18 instead of 768 x 1152."""
    noise = np.random.default_rng(seed).random((16, 1, 12, 18), np.float32)
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("time", 1), ("lat", 12), ("lon", 18)):
            file.createDimension(name, size)
        file.createVariable("lat", "f8", ("lat",))[:] = np.linspace(-90, 90, 12)
        file.createVariable("lon", "f8", ("lon",))[:] = np.arange(18) * 20.0
        file.createVariable("time", str, ("time",))[0] = path.name
        for channel, name in zip(noise, CAM5, strict=True):
            variable = file.createVariable(name, "f4", ("time", "lat", "lon"))
            low, high = FIELDS[name].display
            variable[:] = low + channel * (high - low)
            # The published spelling of the units.
            variable.setncatts({"description": name, "units": FIELDS[name].unit.replace("kg m-2", "kg/m^2")})
        file.createVariable("LABELS", "i8", ("lat", "lon"))[:] = labels
    return path


@pytest.fixture
def labels() -> np.ndarray:
    """A cyclone and a river."""
    labels = np.zeros((12, 18), np.int64)
    labels[3, 4], labels[8, 2:9] = CYCLONE, RIVER
    return labels


def test_time_comes_from_the_text_and_labels_get_a_time(tmp_path, labels):
    # Tempest Extremes #36, #76 and ClimateNet: no time that can be decoded, labels without a time dimension.
    for name in ("data-2000-02-29-07-1.nc", "data-1996-06-09-01-1.nc"):
        publish(tmp_path / name, labels)
    fields = archive.open(tmp_path)
    assert list(fields) == [*CAM5, "mask"]
    assert fields.time.values.tolist() == [
        np.datetime64("1996-06-09T03", "ns").astype(int),
        np.datetime64("2000-02-29T21", "ns").astype(int),
    ]
    assert fields.run.values.tolist() == [1, 1]
    assert fields.mask.dims == ("time", "lat", "lon")
    assert fields.mask.dtype == np.int8
    assert fields.mask.attrs["flag_meanings"] == "background cyclone river"
    np.testing.assert_array_equal(fields.mask.values, [labels, labels])


def test_runs_of_the_model_share_times_and_copies_by_other_labellers_too(tmp_path, labels):
    # andregraubner/ClimateNet#5: many labellings of one snapshot; each is a snapshot of its own.
    for name in ("data-1996-06-09-01-1_0.nc", "data-1996-06-09-01-1_1.nc", "data-1996-06-09-01-2_0.nc"):
        publish(tmp_path / name, labels)
    fields = archive.open(tmp_path)
    assert fields.run.values.tolist() == [1, 1, 2]
    assert fields.labelling.values.tolist() == [0, 1, 0]
    again = archive.open(archive.save(fields, tmp_path / "again", layout="climatenet"))
    xr.testing.assert_equal(again, fields)


def test_a_round_trip_is_the_identity(fields, tmp_path):
    folder = archive.save(fields, tmp_path / "out", layout="climatenet")
    assert sorted(path.name for path in folder.iterdir())[0] == "data-2001-08-14-02-1.nc"
    xr.testing.assert_identical(archive.open(folder), fields)


@pytest.mark.parametrize("calendar", ["noleap", "360_day"])
def test_a_calendar_survives_a_round_trip(fields, tmp_path, calendar):
    there = fields.convert_calendar(calendar, align_on="date", use_cftime=True)
    xr.testing.assert_identical(archive.open(archive.save(there, tmp_path / "out", layout="climatenet")), there)
    xr.testing.assert_identical(archive.open(archive.save(there, tmp_path / "hdf", layout="deepcam")), there)


def test_what_is_written_is_what_climatenets_reader_indexes(fields, tmp_path):
    """ClimateNet stacks the fields that its configuration names and takes LABELS, per file, in the order of names."""
    folder = archive.save(fields, tmp_path / "out", layout="climatenet")
    path = sorted(folder.glob("*.nc"))[0]
    with xr.open_dataset(path) as file:
        features = file[["TMQ", "U850", "V850", "PSL"]].to_array().transpose("time", "variable", "lat", "lon")
        assert features.shape == (1, 4, 12, 24)
        assert file["LABELS"].dims == ("lat", "lon")
        assert file["LABELS"].dtype == np.int64
        np.testing.assert_array_equal(file["LABELS"], fields.mask[0])
        assert str(file["time"].values[0]) == path.name
