"""Latitude ascends, longitude is 0..360 and ascends, and there is a way back."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.climate.grid import Grid, by_shape, restore


def fields_on(grid, lat, lon):
    """Put a field that knows its own place through a grid's reordering."""
    values = (100.0 * np.asarray(lat)[:, None] + np.mod(np.round(lon, 6), 360))[grid.rows][:, grid.columns]
    coordinates = {
        "lat": ("lat", grid.lat, grid.came["lat"]),
        "lon": ("lon", grid.lon, grid.came["lon"]),
    }
    return xr.DataArray(values, coordinates, ("lat", "lon"))


@given(
    columns=st.integers(4, 40),
    first=st.floats(-720, 720),
    rows=st.integers(2, 9),
    down=st.booleans(),
    back=st.booleans(),
    closed=st.booleans(),
    share=st.sampled_from([1.0, 0.4]),
)
def test_every_cell_keeps_its_place_and_the_way_back_is_the_identity(columns, first, rows, down, back, closed, share):
    lon = first + np.arange(columns) * 360 * share / columns
    closed = closed and share == 1
    lon = np.append(lon, lon[0] + 360) if closed else lon
    lon = lon[::-1] if back else lon
    lat = np.linspace(60, -60, rows) if down else np.linspace(-60, 60, rows)
    grid = Grid.of(lat, lon)
    field = fields_on(grid, lat, lon)
    assert (np.diff(field.lat) > 0).all()
    assert (np.diff(field.lon) > 0).all()
    assert 0 <= field.lon[0] < 360
    assert share < 1 or field.lon[-1] < 360
    expected = 100 * field.lat + np.mod(field.lon, 360)
    np.testing.assert_allclose(np.mod(field - expected + 1, 360), 1, atol=1e-4)
    theirs = restore(field)
    np.testing.assert_allclose(theirs.lat, lat)
    np.testing.assert_allclose(theirs.lon, lon, atol=1e-5)
    np.testing.assert_allclose(theirs.values, 100.0 * lat[:, None] + np.mod(np.round(lon, 6), 360), atol=1e-4)


def test_a_region_across_greenwich_keeps_its_columns_together():
    lon = np.array([-20.0, -10, 0, 10, 20])
    grid = Grid.of(np.array([0.0, 10]), lon)
    assert grid.lon.tolist() == [340, 350, 360, 370, 380]
    assert restore(fields_on(grid, [0, 10], lon)).lon.values.tolist() == lon.tolist()


def test_a_region_across_the_dateline_gets_its_own_longitudes_back():
    lon = np.array([160.0, 170, 180, -170, -160])
    grid = Grid.of(np.array([0.0, 10]), lon)
    assert grid.lon.tolist() == [160, 170, 180, 190, 200]
    assert restore(fields_on(grid, [0, 10], lon)).lon.values.tolist() == [160, 170, 180, -170, -160]


def test_a_repeated_meridian_is_dropped():
    grid = Grid.of(np.array([0.0, 10]), np.linspace(-180, 180, 13))
    assert grid.lon.tolist() == [30.0 * k for k in range(12)]


@pytest.mark.parametrize(
    ("lat", "lon", "message"),
    [
        ([0, 10, 5], [0, 90, 180, 270], "latitude is not monotonic"),
        ([0, 0, 10], [0, 90, 180, 270], "latitude is not monotonic"),
        ([0, 10], [0, 90, 45, 270], "longitude is not monotonic"),
        ([0, 10], [0, 90, 180, 270, 0, 90], "longitude is not monotonic"),
        ([0, 100], [0, 90, 180, 270], r"latitude runs 0\.\.100"),
        ([0, np.nan], [0, 90, 180, 270], "latitude has missing or infinite values"),
        ([0, 10], [0, 90, np.inf, 270], "longitude has missing or infinite values"),
        ([45], [0, 90, 180, 270], r"latitude has the single value 45, .* at least 2 x 2"),
        ([0, 10], [7.5], r"longitude has the single value 7\.5, a station"),
        ([[0, 1], [0, 1]], [0, 90, 180, 270], r"latitude has shape \(2, 2\), a curvilinear grid"),
    ],
)
def test_axes_that_are_none_are_refused(lat, lon, message):
    with pytest.raises(ValueError, match=f"somewhere.nc: {message}"):
        Grid.of(np.array(lat, float), np.array(lon, float), "somewhere.nc")


def test_the_grid_of_cam5_follows_from_its_shape():
    lat, lon = by_shape(768, 1152)
    # As ClimateNet's files have it: steps of 180/767 = 0.23468 and 0.3125 degrees, poles included.
    assert lat[1] - lat[0] == pytest.approx(0.234681, abs=1e-6)
    assert lat[[0, -1]].tolist() == [-90, 90]
    assert lon[[0, 1, -1]].tolist() == [0, 0.3125, 359.6875]
