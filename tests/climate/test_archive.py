"""Whatever people have, one dataset: real files, their permutations, and the way back."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl import archive
from climlab_dl.climate.fields import CAM5


def test_the_sample_archive_opens_as_one_lazy_dataset(sample):
    fields = archive.open(sample)
    assert list(fields) == list(CAM5)
    assert dict(fields.sizes) == {"time": 60, "lat": 96, "lon": 192}
    assert (np.diff(fields.lat) > 0).all()
    assert fields.lon.values[[0, -1]].tolist() == [0, 358.125]
    assert fields.TMQ.chunks == ((1,) * 60, (96,), (192,))
    assert all(fields[name].dtype == np.float32 for name in fields)
    assert fields.PSL.attrs["standard_name"] == "air_pressure_at_mean_sea_level"
    raw = xr.open_dataset(sample / "gcm_t63_2001-08-14T06.nc")
    np.testing.assert_array_equal(fields.U850.sel(time="2001-08-14T12"), raw.U850.isel(time=1).astype(np.float32))


def test_opening_needs_no_cluster(sample):
    code = (
        "import sys; from climlab_dl import archive; archive.open(archive.sample()); "
        "print('distributed' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.fixture(scope="module")
def snapshots(sample) -> xr.Dataset:
    """Four snapshots of three fields on a coarse grid, in memory."""
    return (
        archive.open(sample / "gcm_t63_2001-08-14T06.nc")[["TMQ", "U850", "PSL"]]
        .isel(time=slice(4), lat=slice(None, None, 8), lon=slice(None, None, 8))
        .compute()
    )


@given(data=st.data())
def test_orientation_convention_order_and_split_of_files_do_not_matter(snapshots, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("split")
    cut = data.draw(st.integers(1, 3), label="snapshots in the first file")
    order = data.draw(st.permutations(["b", "a"]), label="names of the files")
    for name, piece in zip(
        order, (snapshots.isel(time=slice(cut)), snapshots.isel(time=slice(cut, None))), strict=True
    ):
        if data.draw(st.booleans(), label="latitude descends"):
            piece = piece.isel(lat=slice(None, None, -1))
        if data.draw(st.booleans(), label="longitude from -180"):
            piece = piece.assign_coords(lon=(piece.lon + 180) % 360 - 180).sortby("lon")
        if data.draw(st.booleans(), label="hPa"):
            piece = piece.assign(PSL=(piece.PSL.astype(float) / 100).assign_attrs(units="hPa"))
        if data.draw(st.booleans(), label="other names"):
            piece = piece.rename(TMQ="tcwv", PSL="msl", lat="latitude", lon="longitude", time="valid_time")
        if data.draw(st.booleans(), label="other order of dimensions"):
            piece = piece.transpose()
        piece.to_netcdf(folder / f"{name}.nc")
    found = archive.open(folder)
    xr.testing.assert_equal(found[["TMQ", "U850"]], snapshots[["TMQ", "U850"]])
    np.testing.assert_allclose(found.PSL, snapshots.PSL, rtol=1e-6)


@pytest.mark.parametrize(
    ("turn", "closed"),
    [(lambda d: d, False), (lambda d: d.isel(lat=slice(None, None, -1)), False), (lambda d: d, True)],
    ids=["ascending", "descending", "closed"],
)
@pytest.mark.parametrize("first", [0.0, -180.0, -172.5, 15.0])
def test_restore_gives_the_users_own_coordinates_back(snapshots, tmp_path, turn, closed, first):
    theirs = turn(snapshots.assign_coords(lon=((snapshots.lon - first).round(6) % 360 + first)).sortby("lon"))
    if closed:
        theirs = xr.concat([theirs, theirs.isel(lon=[0]).assign_coords(lon=theirs.lon[:1].values + 360)], "lon")
    theirs.to_netcdf(tmp_path / "theirs.nc")
    fields = archive.open(tmp_path / "theirs.nc")
    assert fields.sizes["lon"] == snapshots.sizes["lon"]
    back = archive.restore(fields)
    xr.testing.assert_allclose(back, theirs)
    np.testing.assert_allclose(back.lon, theirs.lon, atol=1e-9)
    np.testing.assert_array_equal(archive.restore(fields.PSL).values, theirs.PSL.values)


def test_real_merra2_and_gfs_files_open_in_the_same_convention(shared):
    merra = archive.open(shared / "climate" / "IWV_IVT_MERRA_20170228_00.nc")
    raw = xr.open_dataset(shared / "climate" / "IWV_IVT_MERRA_20170228_00.nc")
    assert list(merra) == ["TMQ", "IVT"]
    assert merra.lon.values[[0, -1]].tolist() == [0, 359.375]
    assert float(merra.TMQ.sel(lat=40, lon=200)[0]) == float(raw.IWV.sel(lat=40, lon=-160)[0])
    xr.testing.assert_allclose(archive.restore(merra).IVT.drop_attrs(), raw.IVT.drop_attrs())
    gfs = archive.open(shared / "climate" / "gfs_f072_valid_20111011T00_camnames.nc")
    assert gfs.lat.values[[0, -1]].tolist() == [-90, 90]
    # Hurricanes Jova and Irwin, 990 and 996 hPa at 17.5 N.
    assert gfs.PSL.sel(lat=17.5, lon=[255, 242.5]).values.ravel() == pytest.approx([99000, 99600], abs=150)


def test_files_are_found_by_glob_list_and_directory(sample, tmp_path):
    one = sample / "gcm_t63_2001-08-14T06.nc"
    assert archive.open(str(sample / "*08-14*")).identical(archive.open([one]))
    assert archive.open([one, one]).identical(archive.open(one))
    with pytest.raises(FileNotFoundError, match="no climate files"):
        archive.open(tmp_path)
    with pytest.raises(FileNotFoundError, match="Nothing matches"):
        archive.open(tmp_path / "*.nc")
    shutil.copy(one, tmp_path / "no_ending_at_all")
    assert archive.open(tmp_path / "no_ending_at_all").sizes["time"] == 5
