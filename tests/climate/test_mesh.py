"""Derivatives, windows, patches and rays on the sphere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.climate.mesh import METRES_PER_DEGREE, degrees_between, mesh_of

LAT = np.arange(-90, 90.1, 2.5)
LON = np.arange(0, 360, 2.5)


def noise(seed=0, shape=(73, 144)):
    return np.random.default_rng(seed).normal(size=shape)


def test_vorticity_of_solid_body_rotation_is_twice_its_rate_times_sine_of_latitude():
    # u = w a cos(lat), v = 0  =>  vorticity = -1/(a cos) d(u cos)/dlat = 2 w sin(lat). The derivative of cos^2 by
    # central differences over a step d is too small by sin(2 d) / 2 d = 0.99873 for d = 2.5 degrees.
    mesh = mesh_of(LAT, LON)
    rate = 1e-5
    u = rate * 6.371e6 * np.cos(np.radians(LAT))[:, None] * np.ones(len(LON))
    spin = mesh.vorticity(u, np.zeros_like(u))
    expected = 0.99873 * 2 * rate * np.sin(np.radians(LAT))[:, None] * np.ones(len(LON))
    np.testing.assert_allclose(spin[2:-2], expected[2:-2], rtol=1e-5, atol=1e-12)
    assert np.isfinite(spin).all()


def test_vorticity_of_a_wave_in_the_meridional_wind():
    # v = cos(3 lon), u = 0  =>  vorticity = -3 sin(3 lon) / (a cos lat); central differences at 2.5 degrees
    # shorten the slope by sin(3 d)/(3 d) = 0.9971.
    mesh = mesh_of(LAT, LON)
    v = np.cos(3 * np.radians(LON))[None] * np.ones((len(LAT), 1))
    spin = mesh.vorticity(np.zeros_like(v), v)
    row = len(LAT) // 2
    np.testing.assert_allclose(spin[row], -3 * np.sin(3 * np.radians(LON)) / 6.371e6, atol=3 / 6.371e6 * 0.004)


@pytest.mark.parametrize("order", [1, -1])
def test_vorticity_of_a_flow_over_the_poles_holds_in_the_outermost_rows_of_a_gaussian_grid(order):
    # A solid rotation about an axis in the equator: u = -W sin(lat) cos(lon), v = W sin(lon), whose vorticity is
    # 2 W / a cos(lat) cos(lon). One-sided differences were wrong by 0.04 of its largest value in the outermost rows.
    lat, lon = np.linspace(-88.57, 88.57, 96)[::order], np.arange(192) * 1.875
    mesh, phi, turn = mesh_of(lat, lon), np.radians(lat)[:, None], np.radians(lon)[None]
    found = mesh.vorticity(-10 * np.sin(phi) * np.cos(turn), 10 * np.sin(turn) * np.ones_like(phi))
    wanted = 20 / (METRES_PER_DEGREE * np.degrees(1)) * np.cos(phi) * np.cos(turn)
    assert np.abs(found - wanted).max() < 0.01 * np.abs(wanted).max()


def test_vorticity_is_the_same_for_either_order_of_latitude():
    u, v = noise(1), noise(2)
    up = mesh_of(LAT, LON).vorticity(u, v)
    down = mesh_of(LAT[::-1], LON).vorticity(u[::-1], v[::-1])
    np.testing.assert_allclose(down[::-1], up, rtol=1e-9, atol=1e-18)


@given(st.integers(0, len(LON) - 1))
def test_everything_turns_with_the_longitudes(turn):
    mesh, turned = mesh_of(LAT, LON), mesh_of(LAT, LON + turn * 2.5)
    field, rolled = noise(), np.roll(noise(), -turn, axis=1)
    np.testing.assert_allclose(
        turned.vorticity(rolled, rolled), np.roll(mesh.vorticity(field, field), -turn, axis=1), rtol=1e-9, atol=1e-18
    )
    np.testing.assert_array_equal(
        turned.window_maximum(rolled, 6.0), np.roll(mesh.window_maximum(field, 6.0), -turn, axis=1)
    )
    lat, lon = np.array([12.3, -40.0, 77.0]), np.array([1.0, 359.9, 180.2])
    np.testing.assert_allclose(turned.rays(rolled, lat, lon, 9.0), mesh.rays(field, lat, lon, 9.0), atol=1e-9)


def test_windows_do_not_join_the_poles():
    field = np.zeros((len(LAT), len(LON)))
    field[0, 7] = 1.0
    assert mesh_of(LAT, LON).window_maximum(field, 6.0)[5:].max() == 0.0


def test_a_regional_grid_never_wraps():
    lon = np.arange(100, 200, 2.5)
    field = noise(shape=(len(LAT), len(lon)))
    mesh = mesh_of(LAT, lon)
    assert not mesh.periodic
    assert np.isnan(mesh.sample(field, np.array([0.0]), np.array([99.0])))[0]
    assert mesh.box(0.0, 101.0, 5.0, 5.0).columns.min() == 0


@given(st.floats(-80, 80), st.floats(-360, 720), st.floats(1, 15))
def test_a_patch_holds_every_cell_of_its_cap(lat, lon, radius):
    mesh = mesh_of(LAT, LON)
    everywhere = degrees_between(lat, lon, LAT[:, None], LON[None]) <= radius
    patch = mesh.patch(lat, lon, radius)
    found = np.zeros_like(everywhere)
    found[patch.rows, patch.columns] = patch.distance <= radius
    np.testing.assert_array_equal(found, everywhere)


def test_bilinear_values_are_exact_for_a_bilinear_field():
    field = 2 * LAT[:, None] + 0.5 * LON[None] + 0.01 * LAT[:, None] * LON[None]
    lat, lon = np.array([1.1, -33.3]), np.array([7.7, 200.2])
    expected = 2 * lat + 0.5 * lon + 0.01 * lat * lon
    np.testing.assert_allclose(mesh_of(LAT, LON).sample(field, lat, lon), expected)
    np.testing.assert_allclose(mesh_of(LAT[::-1], LON).sample(field[::-1], lat, lon), expected)


def test_rays_end_at_their_reach():
    # The field is the distance from (20, 358), so each ray's value is the distance walked (bilinear values are
    # too large by an eighth of a cell beside the cusp).
    fine_lat, fine_lon = np.arange(-89.5, 90), np.arange(0.0, 360)
    field = degrees_between(20.0, 358.0, fine_lat[:, None], fine_lon[None])
    rays = mesh_of(fine_lat, fine_lon).rays(field, np.array([20.0]), np.array([358.0]), 5.0)
    np.testing.assert_allclose(rays[0], np.broadcast_to(np.arange(1.0, 6.0), (8, 5)), atol=0.13)


@pytest.mark.parametrize(
    ("lat", "lon", "message"),
    [
        ([0, 1], [0, 1, 2], "at least 3 x 3"),
        ([0, 2, 1], [0, 1, 2], "not strictly monotonic"),
        ([0, 1, 2], [358, 359, 0], "does not ascend in equal steps"),
    ],
)
def test_a_grid_that_is_none_is_refused(lat, lon, message):
    with pytest.raises(ValueError, match=message):
        mesh_of(lat, lon)
