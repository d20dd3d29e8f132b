"""Files as the models and services write them: ERA5 of both times, CMIP6, CESM, GFS, MERRA-2, Zarr."""

import netCDF4
import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive
from climlab_dl.climate.fields import GRAVITY

LAT, LON = np.linspace(90, -90, 7), np.arange(0, 360, 45.0)
SIZE = {"lat": 7, "lon": 8}
RNG = np.random.default_rng(0)


def grid(lat="latitude", lon="longitude"):
    return {lat: (lat, LAT, {"units": "degrees_north"}), lon: (lon, LON, {"units": "degrees_east"})}


def between(low, high, *shape):
    return (low + RNG.random(shape) * (high - low)).astype(np.float32)


def test_era5_as_the_service_wrote_it_until_2024(tmp_path):
    # Packed shorts, time in hours since 1900, and ERA5T along expver: each time is missing in one of the two versions.
    msl = between(98000, 103000, 2, 2, 7, 8).astype(float)
    msl[0, 1], msl[1, 0] = np.nan, np.nan
    era5 = xr.Dataset(
        {
            "msl": (("time", "expver", "latitude", "longitude"), msl, {"units": "Pa"}),
            "z": (
                ("time", "expver", "level", "latitude", "longitude"),
                np.broadcast_to(np.array([1.4, 5.5])[:, None, None] * 1000 * GRAVITY, (2, 2, 2, 7, 8)),
                {"units": "m**2 s**-2", "standard_name": "geopotential"},
            ),
            "tp": (("time", "expver", "latitude", "longitude"), np.full((2, 2, 7, 8), 0.0036), {"units": "m"}),
        },
        {
            "time": ("time", np.array([1051896, 1051902], np.int32), {"units": "hours since 1900-01-01 00:00:00.0"}),
            "expver": ("expver", np.array([1, 5], np.int32)),
            "level": ("level", np.array([850, 500], np.int32), {"units": "millibars"}),
            **grid(),
        },
    )
    packing = {"dtype": "int16", "scale_factor": 0.1, "add_offset": 100500.0, "_FillValue": -32767}
    era5.to_netcdf(tmp_path / "era5.nc", encoding={"msl": packing})
    fields = archive.open(tmp_path / "era5.nc")
    assert list(fields) == ["PSL", "PRECT", "Z500", "Z850"]
    # 1051896 h = 43829 days after 1900-01-01.
    assert fields.time.values[0] == np.datetime64("2020-01-01T00")
    np.testing.assert_allclose(fields.PSL[0], msl[0, 0, ::-1], atol=0.06)
    np.testing.assert_allclose(fields.PSL[1], msl[1, 1, ::-1], atol=0.06)
    np.testing.assert_allclose(fields.Z850, 1400, rtol=1e-6)
    np.testing.assert_allclose(fields.Z500, 5500, rtol=1e-6)
    # 3.6 mm accumulated over an hour are 1e-6 m/s.
    np.testing.assert_allclose(fields.PRECT, 1e-6, rtol=1e-6)


def test_era5_as_the_service_writes_it_now(tmp_path):
    # valid_time is the dimension, number a scalar, expver text along time; levels are pressure_level, descending.
    levels = np.array([1000, 850, 700, 500, 300, 200.0])
    q = between(0, 0.01, 2, 6, 7, 8)
    u = between(-20, 20, 2, 6, 7, 8)
    dims = ("valid_time", "pressure_level", "latitude", "longitude")
    flat = ("valid_time", "latitude", "longitude")
    era5 = xr.Dataset(
        {
            "q": (dims, q, {"units": "kg kg**-1", "standard_name": "specific_humidity"}),
            "u": (dims, u, {"units": "m s**-1", "standard_name": "eastward_wind"}),
            "v": (dims, np.zeros_like(u), {"units": "m s**-1", "standard_name": "northward_wind"}),
            "u10": (flat, u[:, 0], {"units": "m s**-1"}),
            "skt": (flat, between(250, 300, 2, 7, 8), {"units": "K"}),
            "avg_tprate": (flat, np.full((2, 7, 8), 1e-4), {"units": "kg m**-2 s**-1"}),
        },
        {
            "valid_time": ("valid_time", [1577836800, 1577858400], {"units": "seconds since 1970-01-01"}),
            "expver": ("valid_time", np.array(["0001", "0001"])),
            "number": 0,
            "pressure_level": ("pressure_level", levels, {"units": "hPa"}),
            **grid(),
        },
    )
    era5.to_netcdf(tmp_path / "era5.nc")
    fields = archive.open(tmp_path / "era5.nc")
    assert list(fields) == ["TMQ", "U850", "V850", "UBOT", "PRECT", "TS", "U200", "V200", "IVT", "TUQ", "TVQ"]
    np.testing.assert_array_equal(fields.U850, u[:, 1, ::-1])
    np.testing.assert_allclose(fields.PRECT, 1e-7)
    # The integrals over pressure by numpy's own trapezoidal rule; pressure falls along the levels.
    column = -np.asarray(np.trapezoid(q, levels * 100, axis=1))[:, ::-1] / GRAVITY
    np.testing.assert_allclose(fields.TMQ, column, rtol=1e-5)
    flux = -np.asarray(np.trapezoid(q.astype(float) * u, levels * 100, axis=1))[:, ::-1] / GRAVITY
    np.testing.assert_allclose(fields.TUQ, flux, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(fields.IVT, np.abs(flux), rtol=1e-4, atol=1e-3)


def test_cmip6_with_one_variable_a_file_in_a_calendar_without_leap_days(tmp_path):
    time = ("time", np.array([59.0, 59.25]), {"units": "days since 2000-01-01", "calendar": "noleap", "axis": "T"})
    plev = ("plev", np.array([85000.0, 50000.0, 25000.0]), {"units": "Pa", "standard_name": "air_pressure"})
    flat, deep = ("time", "lat", "lon"), ("time", "plev", "lat", "lon")
    psl, ua = between(98000, 103000, 2, 7, 8), between(-20, 20, 2, 3, 7, 8)
    files = {
        "psl": (flat, psl, {"units": "Pa", "standard_name": "air_pressure_at_mean_sea_level"}),
        "prw": (flat, between(0, 60, 2, 7, 8), {"units": "kg m-2"}),
        "pr": (flat, np.full((2, 7, 8), 2e-4), {"units": "kg m-2 s-1", "standard_name": "precipitation_flux"}),
        "ua": (deep, ua, {"units": "m s-1", "standard_name": "eastward_wind"}),
        "tas": (flat, between(250, 300, 2, 7, 8), {"units": "K", "standard_name": "air_temperature"}),
    }
    for name, variable in files.items():
        coordinates = {"time": time, **grid("lat", "lon")}
        extra = {"plev": plev} if name == "ua" else {"height": ((), 2.0, {"units": "m"})} if name == "tas" else {}
        xr.Dataset({name: variable}, {**coordinates, **extra}).to_netcdf(
            tmp_path / f"{name}_6hrPlevPt_X_gn_200003010000-200003010600.nc"
        )
    fields = archive.open(tmp_path)
    assert list(fields) == ["TMQ", "U850", "PSL", "PRECT", "TREFHT"]
    # xarray#4127: day 59 of a year without 29 February is 1 March.
    assert str(fields.time.values[0]) == "2000-03-01 00:00:00"
    assert fields.time.values[0].calendar == "noleap"
    np.testing.assert_array_equal(fields.PSL, psl[:, ::-1])
    np.testing.assert_array_equal(fields.U850, ua[:, 0, ::-1])
    np.testing.assert_allclose(fields.PRECT, 2e-7)


def test_cesm_on_hybrid_levels_is_interpolated_to_pressure(tmp_path):
    # p = a 1e5 + b p_s. A wind that is linear in log p is found again exactly at 850 hPa.
    a, b = np.array([0.1, 0.2, 0.1, 0.0, 0.0]), np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    ground = between(95000, 103000, 1, 7, 8).astype(float)
    pressure = a[:, None, None] * 1e5 + b[:, None, None] * ground[0]
    u = 3.0 * np.log(pressure)[None]
    cesm = xr.Dataset(
        {
            "U": (("time", "lev", "lat", "lon"), u, {"units": "m/s"}),
            "PS": (("time", "lat", "lon"), ground, {"units": "Pa"}),
            "hyam": ("lev", a),
            "hybm": ("lev", b),
            "P0": 1e5,
            "PRECT": (("time", "lat", "lon"), np.full((1, 7, 8), 1e-8), {"units": "m/s"}),
            "PHIS": (("time", "lat", "lon"), np.zeros((1, 7, 8)), {"units": "m2/s2"}),
        },
        {
            "time": ("time", [0.125], {"units": "days since 0001-01-01 00:00:00", "calendar": "noleap"}),
            "lev": (
                "lev",
                1000 * (a + b),
                {"units": "hPa", "standard_name": "atmosphere_hybrid_sigma_pressure_coordinate"},
            ),
            **grid("lat", "lon"),
        },
    )
    cesm.to_netcdf(tmp_path / "b.e11.cam.h2.0001-01-01-10800.nc")
    fields = archive.open(tmp_path)
    assert list(fields) == ["U850", "PS", "PRECT", "U200"]
    np.testing.assert_allclose(fields.U850, 3 * np.log(85000), rtol=1e-6)
    assert str(fields.time.values[0]) == "0001-01-01 03:00:00"
    assert fields.attrs["unrecognised"] == "PHIS"


def test_gfs_names_of_wgrib2_and_of_thredds(tmp_path):
    dims = ("time", "latitude", "longitude")
    wgrib2 = xr.Dataset(
        {
            "PRMSL_meansealevel": (dims, between(98000, 103000, 1, 7, 8), {"units": "Pa"}),
            "UGRD_850mb": (dims, between(-20, 20, 1, 7, 8), {"units": "m/s"}),
            "HGT_1000mb": (dims, between(0, 200, 1, 7, 8), {"units": "gpm"}),
            "PWAT_entireatmosphere_consideredasasinglelayer_": (dims, between(0, 60, 1, 7, 8), {"units": "kg/m^2"}),
        },
        {"time": ("time", [1318291200.0], {"units": "seconds since 1970-01-01 00:00:00.0 0:00"}), **grid()},
    )
    wgrib2.to_netcdf(tmp_path / "a.nc")
    assert list(archive.open(tmp_path / "a.nc")) == ["TMQ", "U850", "PSL", "Z1000"]
    thredds = xr.Dataset(
        {
            "Pressure_reduced_to_MSL_msl": (("time", "lat", "lon"), between(98000, 103000, 1, 7, 8), {"units": "Pa"}),
            "Temperature_isobaric": (("time", "isobaric", "lat", "lon"), between(210, 280, 1, 2, 7, 8), {"units": "K"}),
        },
        {
            "time": ("time", [0.0], {"units": "Hour since 2011-10-11T00:00:00Z"}),
            "isobaric": ("isobaric", [20000.0, 50000.0], {"units": "Pa"}),
            **grid("lat", "lon"),
        },
    )
    thredds.to_netcdf(tmp_path / "b.nc")
    fields = archive.open(tmp_path / "b.nc")
    assert list(fields) == ["PSL", "T200", "T500"]
    assert fields.time.values[0] == np.datetime64("2011-10-11")


def test_merra2_names_and_a_transport_from_its_components(tmp_path):
    dims = ("time", "lat", "lon")
    merra = xr.Dataset(
        {
            "SLP": (dims, between(98000, 103000, 1, 7, 8), {"units": "Pa"}),
            "TQV": (dims, between(0, 60, 1, 7, 8), {"units": "kg m-2"}),
            "H1000": (dims, between(0, 200, 1, 7, 8), {"units": "m"}),
            "UFLXQV": (dims, np.full((1, 7, 8), 300.0), {"units": "kg m-1 s-1"}),
            "VFLXQV": (dims, np.full((1, 7, 8), -400.0), {"units": "kg m-1 s-1"}),
        },
        {"time": ("time", [30], {"units": "minutes since 2017-02-28 00:00:00"}), **grid("lat", "lon")},
    )
    merra.to_netcdf(tmp_path / "MERRA2_400.inst1_2d_asm_Nx.20170228.nc4", engine="netcdf4")
    fields = archive.open(tmp_path)
    assert list(fields) == ["TMQ", "PSL", "Z1000", "IVT", "TUQ", "TVQ"]
    np.testing.assert_allclose(fields.IVT, 500)  # 3-4-5


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF4_CLASSIC", "zarr"])
def test_every_generation_of_files_gives_the_same(fields, tmp_path, kind):
    if kind == "zarr":
        # Written plainly, by somebody else: groups without consolidated metadata, several snapshots a chunk.
        fields.to_zarr(tmp_path / "a.zarr", consolidated=False, encoding={"TMQ": {"chunks": (4, 12, 24)}})
    else:
        fields.to_netcdf(tmp_path / "a.nc", format=kind, engine="netcdf4")
    xr.testing.assert_equal(archive.open(tmp_path), fields)


def test_a_name_map_serves_what_nobody_knows(tmp_path):
    odd = xr.Dataset(
        {
            "water": (("lat", "lon"), between(0, 60, 7, 8), {"units": "mm"}),
            "junk": (("lat", "lon"), np.full((7, 8), 1e9)),
            "PSL": (("lat", "lon"), np.full((7, 8), 1e9)),
            "klass": (("lat", "lon"), np.ones((7, 8), np.int16)),
        },
        grid("lat", "lon"),
    )
    odd.to_netcdf(tmp_path / "odd_20200101.nc")
    fields = archive.open(tmp_path, names={"water": "TMQ", "PSL": None, "klass": "mask"})
    assert list(fields) == ["TMQ", "mask"]
    assert fields.TMQ.attrs["original_name"] == "water"
    assert fields.attrs["unrecognised"] == "junk"
    with pytest.raises(ValueError, match="no field is called 'TMQQ'"):
        archive.open(tmp_path, names={"water": "TMQQ"})
    with pytest.raises(ValueError, match=r"names has 'wader', but no variable.*did you mean 'water'"):
        archive.open(tmp_path, names={"wader": "TMQ", "PSL": None})


def test_coordinates_under_names_of_ones_own_are_named(snapshot, tmp_path):
    levels, winds = [850.0, 500.0, 200.0], between(-20, 20, 1, 3, 6, 8)
    plain = snapshot(U=(("time", "plev", "lat", "lon"), winds, {"units": "m/s"})).assign_coords(plev=levels)
    plain.to_netcdf(tmp_path / "plain.nc")
    theirs = plain.rename(lat="ypos", lon="xpos", time="when", plev="height_level")
    for name in ("ypos", "xpos"):
        theirs[name].attrs = {}
    theirs.to_netcdf(tmp_path / "theirs.nc")
    with pytest.raises(ValueError, match=r"no latitude .*degrees_north.* names=\{'THEIRS': 'lat'\}"):
        archive.open(tmp_path / "theirs.nc")
    with pytest.raises(ValueError, match=r"no longitude .*degrees_east.* names=\{'THEIRS': 'lon'\}"):
        archive.open(tmp_path / "theirs.nc", names={"ypos": "lat"})
    names = {"ypos": "lat", "xpos": "lon", "when": "time", "height_level": "level"}
    fields = archive.open(tmp_path / "theirs.nc", names=names)
    xr.testing.assert_equal(fields, archive.open(tmp_path / "plain.nc"))
    assert {"TMQ", "U850", "U200"} <= set(fields)
    with pytest.raises(ValueError, match=r"'latitude'.* of a coordinate lat, lon, time, level"):
        archive.open(tmp_path / "theirs.nc", names={"ypos": "latitude"})


def test_katrina_of_wrf_is_put_together_from_its_parts(shared, tmp_path):
    with xr.open_dataset(shared / "climate" / "katrina_wrf_20050828_ci_test_file.nc", decode_times=False) as raw:
        raw.load()
    with pytest.raises(ValueError, match="the domain moves"):
        archive.open(shared / "climate" / "katrina_wrf_20050828_ci_test_file.nc")
    raw.isel(Time=[3]).to_netcdf(tmp_path / "peak.nc")
    fields = archive.open(tmp_path / "peak.nc")
    assert fields.time.values[0] == np.datetime64("2005-08-28T21")
    # The eye of 938.5 hPa lies in the north-eastern corner; the best track has it at 26.3 N 88.6 W. The wind goes
    # round it to the left: eastward in its south, southward in its west.
    assert float(fields.PSL.min()) == pytest.approx(93852, abs=60)
    pressure = fields.PSL[0].values
    row, column = np.unravel_index(pressure.argmin(), pressure.shape)
    assert float(fields.lat[row]) == pytest.approx(26.3, abs=0.5)
    assert float(fields.lon[column]) == pytest.approx(360 - 88.6, abs=0.5)
    assert float(fields.U850[0, row - 6, column]) > 50
    assert float(fields.V850[0, row, column - 10]) < -50
    # The file ends at 500 hPa: no column, so no precipitable water.
    assert not {"TMQ", "T200", "IVT"} & set(fields)


@pytest.mark.parametrize(("form", "compressed"), [("NETCDF4", False), ("NETCDF4", True), ("NETCDF3_CLASSIC", False)])
def test_a_fill_value_in_double_is_that_of_numbers_in_single(fields, tmp_path, form, compressed):
    # As MATLAB and NCL write it: 1e20 in single precision is 1.00000002004e20 in double.
    encoding = {name: {"_FillValue": None} | ({"zlib": True} if compressed else {}) for name in fields}
    fields.to_netcdf(tmp_path / "a.nc", format=form, engine="netcdf4", encoding=encoding)
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:
        file.set_auto_mask(False)
        file["TMQ"][:, :2] = np.float32(1e20)
        file["TMQ"].setncattr("missing_value", np.float64(1e20))
    opened = archive.open(tmp_path / "a.nc")
    missing = np.isnan(opened.TMQ.values)
    assert missing[:, :2].all()
    assert not missing[:, 2:].any()
    xr.testing.assert_equal(opened.drop_vars("TMQ"), fields.drop_vars("TMQ"))


def test_files_are_closed_after_opening(fields, tmp_path):
    archive.save(fields, tmp_path / "a.nc")
    archive.open(tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc", "a") as file:  # HDF5 refuses this while a reader has the file open
        file.note = "appended"
    np.testing.assert_array_equal(archive.open(tmp_path / "a.nc").TMQ, fields.TMQ)


def test_a_dimension_too_many_is_named(tmp_path, caplog):
    water = (("time", "member", "lat", "lon"), between(1, 50, 1, 3, 7, 8), {"units": "kg m-2"})
    pressure = (("time", "lat", "lon"), between(98000, 103000, 1, 7, 8), {"units": "Pa"})
    time = {"time": ("time", [0], {"units": "hours since 2001-01-01"})}
    xr.Dataset({"TMQ": water}, time | grid("lat", "lon")).to_netcdf(tmp_path / "a.nc")
    wanted = r"a\.nc: TMQ has besides time, latitude and longitude the dimension member \(3\)\. .*isel\(member=0\)"
    with pytest.raises(ValueError, match=wanted):
        archive.open(tmp_path / "a.nc")
    xr.Dataset({"TMQ": water, "PSL": pressure}, time | grid("lat", "lon")).to_netcdf(tmp_path / "b.nc")
    assert list(archive.open(tmp_path / "b.nc")) == ["PSL"]
    assert "the dimension member (3)" in caplog.text
    assert archive.check(tmp_path / "b.nc").suggestions == {}
