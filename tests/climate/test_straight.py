import numpy as np
import pytest
import xarray as xr

from climlab_dl.climate import archive, synthetic
from climlab_dl.climate.fields import CAM5
from climlab_dl.climate.straight import Straight


@pytest.fixture(scope="module")
def fields() -> xr.Dataset:
    return synthetic.atmosphere(times=3, shape=(20, 36), seed=4)


def read(opened: xr.Dataset, names, number: int) -> tuple[np.ndarray, bool]:
    straight = Straight.of(opened, names)
    assert straight is not None
    out = np.full((len(names), 20, 36), -1, np.int8 if names == ["mask"] else np.float32)
    return out, straight.read(number, out)


def as_others_have_it(fields: xr.Dataset) -> xr.Dataset:
    """North first, the date line in the middle, hPa."""
    turned = fields.isel(lat=slice(None, None, -1))
    turned = turned.assign_coords(lon=(turned.lon + 180) % 360 - 180).sortby("lon")
    return turned.assign(PSL=(turned.PSL / 100).assign_attrs(units="hPa"))


@pytest.mark.parametrize("names", [CAM5, ("PSL", "V850", "TMQ"), ("TMQ", "PSL", "TMQ"), ["mask"]])
@pytest.mark.parametrize("layout", ["deepcam", "climatenet", "cf", "turned"])
def test_snapshots_are_those_of_the_general_way(fields, tmp_path, layout, names):
    if layout == "turned":
        path = tmp_path / "turned.nc"
        as_others_have_it(fields).drop_encoding().to_netcdf(path)
    else:
        path = archive.save(fields, tmp_path / ("a.nc" if layout == "cf" else "a"), layout=layout)
    opened = archive.open(path)
    for number in (2, 0):
        snapshot = opened.isel(time=number).load()
        out, gaps = read(opened, names, number)
        np.testing.assert_array_equal(out, [snapshot[name].values for name in names])
        assert not gaps


def test_it_writes_into_whatever_array_it_is_given(fields, tmp_path):
    opened = archive.open(archive.save(fields, tmp_path / "a", layout="deepcam"))
    straight = Straight.of(opened, CAM5)
    assert straight is not None
    together = np.zeros((2, 20, 36, 16), np.float32)
    straight.read(1, np.moveaxis(together[1], -1, 0))
    np.testing.assert_array_equal(together[1, ..., 3], opened.UBOT[1])
    assert (together[0] == 0).all()


def test_a_gap_is_told_and_an_impossible_value_refused_with_its_file_and_time(fields, tmp_path):
    fields = fields.copy(deep=True)
    fields["TS"][1, 2, 3] = np.nan
    fields["PSL"][2, 5, 5] = -9999.0
    opened = archive.open(archive.save(fields, tmp_path / "a", layout="deepcam"))
    assert [read(opened, CAM5, number)[1] for number in (0, 1)] == [False, True]
    file = str(opened.encoding["files"][2])
    with pytest.raises(ValueError, match=rf"{file}: at {str(fields.time.values[2])[:19]} PSL .*fill value -9999"):
        read(opened, CAM5, 2)
    assert not read(opened, ("TMQ", "TS"), 2)[1]  # who does not look at it is not refused


def test_fields_that_follow_from_others_and_archives_of_several_layouts_have_no_such_reader(fields, tmp_path):
    one = archive.save(fields.isel(time=slice(0, 1)), tmp_path / "a", layout="deepcam")
    two = archive.save(fields.isel(time=slice(1, 3)), tmp_path / "b", layout="climatenet")
    assert Straight.of(archive.open([one, two]), ("TMQ",)) is None
    derived = archive.require(archive.open(one), ("TMQ", "VORT850"))
    assert Straight.of(derived, ("TMQ", "VORT850")) is None
    assert Straight.of(derived, ("TMQ",)) is not None
