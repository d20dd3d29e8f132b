"""Files that do not go together are refused, each named with what it has."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive


def test_snapshots_of_different_grids_are_refused(snapshot, tmp_path):
    snapshot().to_netcdf(tmp_path / "a.nc")
    later = snapshot().isel(lon=slice(0, 8, 2)).assign_coords(time=[np.datetime64("2001-01-02", "ns")])
    later.to_netcdf(tmp_path / "b.nc")
    with pytest.raises(ValueError, match=r"different grids: .*a\.nc has 6 x 8 .*b\.nc has 6 x 4"):
        archive.open(tmp_path)


def test_times_of_different_calendars_are_refused(snapshot, tmp_path):
    snapshot().to_netcdf(tmp_path / "a.nc")
    snapshot().convert_calendar("noleap").to_netcdf(tmp_path / "b.nc")
    with pytest.raises(ValueError, match=r"different calendars: .*a\.nc has standard, .*b\.nc has noleap"):
        archive.open(tmp_path)


def test_the_same_time_twice_is_refused(snapshot, tmp_path):
    snapshot().to_netcdf(tmp_path / "a.nc")
    snapshot().to_netcdf(tmp_path / "b.nc")
    with pytest.raises(ValueError, match=r"Two snapshots of the same time 2001-01-01.*a\.nc and in .*b\.nc"):
        archive.open(tmp_path)


def test_the_same_time_twice_in_one_file_is_refused(snapshot, tmp_path):
    xr.concat([snapshot(), snapshot()], "time").to_netcdf(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=r"a\.nc has the time 2001-01-01T00.* twice\. Drop one .*drop_duplicates"):
        archive.open(tmp_path)


def test_files_with_and_without_a_field_are_refused(snapshot, tmp_path):
    snapshot().to_netcdf(tmp_path / "a.nc")
    later = snapshot().drop_vars("PSL").assign_coords(time=[np.datetime64("2001-01-02", "ns")])
    later.to_netcdf(tmp_path / "b.nc")
    with pytest.raises(ValueError, match=r"only one of them has PSL\. Leave .*names=\{'PSL': None\}"):
        archive.open(tmp_path)
    assert archive.open(tmp_path, names={"PSL": None}).sizes["time"] == 2


def test_different_fields_at_different_times_are_refused(snapshot, tmp_path):
    snapshot()[["TMQ"]].to_netcdf(tmp_path / "a.nc")
    later = snapshot()[["PSL"]].assign_coords(time=[np.datetime64("2001-01-02", "ns")])
    later.to_netcdf(tmp_path / "b.nc")
    with pytest.raises(ValueError, match=r"a\.nc has TMQ at 1 times 2001-01-01.*b\.nc has PSL at 1 times 2001-01-02"):
        archive.open(tmp_path)
