"""When a snapshot was: names, calendars, and times that are none."""

import cftime
import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive
from climlab_dl.climate import times


@pytest.mark.parametrize(
    ("name", "when"),
    [
        ("data-1996-06-09-01-1.nc", "1996-06-09 03:00:00"),
        ("data-1996-06-09-07-12_0.nc", "1996-06-09 21:00:00"),
        ("data-1996-06-09-01-1-ANOMALY.h5", "1996-06-09 03:00:00"),
        ("b.e11.cam.h1.2001-06-09-10800.nc", "2001-06-09 03:00:00"),
        ("IWV_IVT_MERRA_20170228_00.nc", "2017-02-28 00:00:00"),
        ("MERRA2_400.inst1_2d_asm_Nx.20170228.nc4", "2017-02-28 00:00:00"),
        ("wrfout_d01_2005-08-28_06:30:00", "2005-08-28 06:30:00"),
        ("gfs_f072_valid_20111011T06_camnames.nc", "2011-10-11 06:00:00"),
        ("gfs_4_20120101_1200_003.nc", "2012-01-01 12:00:00"),
        ("ERA5_2012010118.nc", "2012-01-01 18:00:00"),
        ("psl_6hr_X_200001010600-200012311800.nc", "2000-01-01 06:00:00"),
        ("2019-01-01T06:00:00.000000000.nc", "2019-01-01 06:00:00"),
        ("gfs.t12z.pgrbf120.nc", None),
        ("T63_1234567890.nc", None),
        ("data-2001-02-30-00-1.nc", None),
    ],
)
def test_time_is_read_from_names_as_archives_write_them(name, when):
    found = times.from_name(name).time
    assert (str(found) if found else None) == when


def test_the_thirtieth_of_february_exists_where_the_calendar_has_it():
    assert str(times.from_name("data-2001-02-30-00-1.nc", "360_day").time) == "2001-02-30 00:00:00"


def snapshots(time, count=3, **attributes):
    """Snapshots of precipitable water with any time coordinate."""
    coordinates = {
        "lat": ("lat", [-45.0, 0.0, 45.0], {"units": "degrees_north"}),
        "lon": ("lon", np.arange(0, 360, 90.0), {"units": "degrees_east"}),
    }
    if time is not None:
        coordinates["time"] = ("time", time, attributes)
    water = np.arange(count * 12, dtype=np.float32).reshape(count, 3, 4)
    return xr.Dataset({"TMQ": (("time", "lat", "lon"), water, {"units": "kg m-2"})}, coordinates)


@pytest.mark.parametrize(
    ("calendar", "start", "days"),
    [
        # xarray#4127, SciTools/nc-time-axis#122: noleap has no 29 February, and no 30 years' shift.
        ("noleap", "2000-02-28", ["2000-02-28", "2000-03-01", "2000-03-02"]),
        # tobac#490: 360_day goes over 30 February.
        ("360_day", "2001-02-29", ["2001-02-29", "2001-02-30", "2001-03-01"]),
        ("standard", "2000-02-28", ["2000-02-28", "2000-02-29", "2000-03-01"]),
        ("julian", "1900-02-28", ["1900-02-28", "1900-02-29", "1900-03-01"]),
        ("proleptic_gregorian", "1500-02-28", ["1500-02-28", "1500-03-01", "1500-03-02"]),
        # Before 1582 the standard calendar is the Julian one, in which 1500 was a leap year.
        ("standard", "1500-02-28", ["1500-02-28", "1500-02-29", "1500-03-01"]),
    ],
)
def test_every_calendar_keeps_its_days_through_open_save_and_open(tmp_path, calendar, start, days):
    snapshots([0, 1, 2], units=f"days since {start}", calendar=calendar).to_netcdf(tmp_path / "a.nc")
    fields = archive.open(tmp_path / "a.nc")
    assert [str(day)[:10] for day in fields.time.dt.strftime("%Y-%m-%d").values] == days
    again = archive.open(archive.save(fields, tmp_path / "b.nc"))
    xr.testing.assert_identical(again.drop_attrs(deep=False), fields.drop_attrs(deep=False))


def test_dates_of_real_files_in_unusual_calendars(shared):
    ccsm = archive.open(shared / "climate" / "sresa1b_ncar_ccsm3-example.nc")
    assert str(ccsm.time.values[0]) == "2000-05-16 12:00:00"
    assert ccsm.time.values[0].calendar == "noleap"
    iris = archive.open(shared / "climate" / "iris_A1B_north_america_360day.nc", names={"air_temperature": "TREFHT"})
    assert iris.time.values[0].calendar == "360_day"
    assert iris.sizes["time"] == 240
    assert (
        archive.check(shared / "climate" / "iris_A1B_north_america_360day.nc", names={"air_temperature": "TREFHT"}).gaps
        == ()
    )


def test_times_that_cannot_be_decoded_are_kept_with_a_notice(tmp_path, caplog):
    snapshots([10, 20, 30], units="fortnights since the flood").to_netcdf(tmp_path / "a.nc")
    fields = archive.open(tmp_path / "a.nc")
    assert fields.time.values.tolist() == [10, 20, 30]
    assert fields.time.attrs["units"] == "fortnights since the flood"
    assert "cannot be decoded" in caplog.text
    again = archive.open(archive.save(fields, tmp_path / "b.nc"))
    assert again.time.values.tolist() == [10, 20, 30]


def test_numbers_without_units_are_kept_with_a_notice(tmp_path, caplog):
    snapshots([10, 20, 30]).to_netcdf(tmp_path / "a.nc")
    assert archive.open(tmp_path / "a.nc").time.values.tolist() == [10, 20, 30]
    assert "has no units" in caplog.text


def test_a_field_without_a_time_gets_it_from_the_name(tmp_path):
    # ClimateGlobalChange/tempestextremes#36, #76: no time dimension or no time information.
    snapshots(None, count=1).isel(time=0).to_netcdf(tmp_path / "water_20170228_06.nc")
    fields = archive.open(tmp_path)
    assert fields.TMQ.dims == ("time", "lat", "lon")
    assert fields.time.values == np.datetime64("2017-02-28T06")


def test_a_field_of_no_known_time_is_numbered_with_a_notice(tmp_path, caplog):
    snapshots(None).to_netcdf(tmp_path / "water.nc")
    assert archive.open(tmp_path).time.values.tolist() == [0, 1, 2]
    assert "numbered instead" in caplog.text


def test_a_real_file_with_a_scalar_time_has_one_snapshot(shared):
    fields = archive.open(shared / "climate" / "era5_ivt_australia_19880201.nc")
    assert fields.time.values == np.datetime64("1988-02-01")
    assert fields.IVT.shape == (1, 201, 321)


def test_files_may_count_time_from_different_days(tmp_path):
    snapshots([0], count=1, units="days since 2001-03-01", calendar="noleap").to_netcdf(tmp_path / "b.nc")
    snapshots([1416], count=1, units="hours since 2001-01-01", calendar="noleap").to_netcdf(tmp_path / "a.nc")
    # 1416 h are 59 days: 1 March of a year without leap day, the same moment as in the other file.
    with pytest.raises(ValueError, match=r"Two snapshots of the same time 2001-03-01.*a\.nc.*b\.nc"):
        archive.open(tmp_path)
    snapshots([1392], count=1, units="hours since 2001-01-01", calendar="noleap").to_netcdf(tmp_path / "a.nc")
    assert [str(t)[:10] for t in archive.open(tmp_path).time.values] == ["2001-02-28", "2001-03-01"]


def test_a_time_as_a_date_and_back():
    for when in (np.datetime64("2001-02-28T06:30:15.5", "ns"), cftime.DatetimeNoLeap(2001, 2, 28, 6)):
        date = times.dated(xr.DataArray(when))
        assert (date.year, date.month, date.day, date.hour) == (2001, 2, 28, 6)
