"""Every pixel finds the right grid cell, on every projection and every grid."""

import cartopy.crs as ccrs
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.plot import canvas


def grid(lat, lon):
    return xr.DataArray(np.zeros((len(lat), len(lon))), dims=("lat", "lon"), coords={"lat": lat, "lon": lon})


GLOBE = grid(np.arange(-88.75, 90, 2.5), np.arange(0, 360, 2.5))


@pytest.mark.parametrize("name", canvas.PROJECTIONS)
@pytest.mark.parametrize("center", [0, 180, -100])
def test_a_pixel_shows_the_cell_that_it_lies_in(name, center):
    place = canvas.over(GLOBE, canvas.projection(name, center))
    cells = place.cells(GLOBE.lat.values, GLOBE.lon.values)
    seen = cells >= 0
    row, column = np.divmod(cells[seen], GLOBE.sizes["lon"])
    north = np.abs(place.lat[seen] - GLOBE.lat.values[row])
    east = np.abs((place.lon[seen] - GLOBE.lon.values[column] + 180) % 360 - 180)
    assert max(north.max(), east.max()) <= 1.25 + 1e-9
    # Nothing but what is off the globe, and no pixel of the globe, is left empty.
    assert (seen == np.isfinite(place.lat)).all()


@pytest.mark.parametrize("name", ["Mollweide", "Orthographic", "NorthPolarStereo"])
def test_an_ellipse_or_a_disk_fills_pi_quarters_of_the_picture(name):
    place = canvas.over(GLOBE, canvas.projection(name, 0), width=400)
    assert np.isfinite(place.lat).mean() == pytest.approx(np.pi / 4, abs=0.005)


@pytest.mark.parametrize("center", [0, 180])
def test_a_flat_map_has_no_seam(center):
    # Each cell is 2 pixels wide whatever longitude is in the middle; a seam would show as a doubled or missing column.
    place = canvas.over(GLOBE, canvas.projection("PlateCarree", center))
    columns = place.cells(GLOBE.lat.values, GLOBE.lon.values)[10] % GLOBE.sizes["lon"]
    counts = np.bincount(columns, minlength=GLOBE.sizes["lon"])
    assert counts.min() > 0
    assert counts.sum() == place.shape[1]
    assert np.ptp(counts) <= 1


@given(st.integers(0, 143))
def test_rolling_the_grid_in_longitude_changes_no_pixel(shift):
    field = np.arange(72 * 144).reshape(72, 144)
    place = canvas.over(GLOBE, canvas.projection("PlateCarree"), width=97)
    lat, lon = GLOBE.lat.values, GLOBE.lon.values
    rolled = np.roll(lon, -shift)
    rolled = np.where(rolled < rolled[0], rolled + 360, rolled)
    straight = field.ravel()[place.cells(lat, lon)]
    assert (np.roll(field, -shift, axis=1).ravel()[place.cells(lat, rolled)] == straight).all()


def test_a_gaussian_grids_last_rows_reach_the_poles():
    gaussian = grid(np.degrees(np.arcsin(np.polynomial.legendre.leggauss(64)[0])), np.arange(0, 360, 2.8125))
    place = canvas.over(gaussian, canvas.projection("PlateCarree"))
    assert (place.cells(gaussian.lat.values, gaussian.lon.values) >= 0).all()


def test_a_region_is_drawn_alone_and_in_one_piece_across_the_cut():
    # 170 E to 190 E on a map centred on 0, whose edge is at 180: the map moves on rather than tears the region.
    region = grid(np.arange(10.0, 31.0), np.arange(170.0, 191.0))
    place = canvas.over(region, canvas.projection("PlateCarree", 0))
    left, right, bottom, top = place.extent
    assert (right - left, bottom, top) == (21, 9.5, 30.5)
    cells = place.cells(region.lat.values, region.lon.values)
    assert (np.unique(cells) == np.arange(21 * 21)).all()


def test_by_default_the_earth_is_robinson_and_a_region_flat_around_its_middle():
    assert canvas.fitting(GLOBE) == ccrs.Robinson(0)
    # 120 E to 120 W, cell edges 119.5 and 240.5: the middle is 180, where a map centred on 0 is cut.
    pacific = grid(np.arange(20.0, 61.0), np.arange(120.0, 241.0))
    assert canvas.fitting(pacific) == ccrs.PlateCarree(180)
    assert canvas.fitting(pacific, "Mollweide") == ccrs.Mollweide(180)
    assert canvas.fitting(pacific, central_longitude=90.0) == ccrs.PlateCarree(90)


@given(st.integers(0, 359), st.integers(2, 358))
def test_a_region_anywhere_is_in_one_piece_on_its_map(west, columns):
    region = grid(np.arange(10.0, 31.0), west + np.arange(float(columns)))
    left, right, _, _ = canvas.over(region, canvas.fitting(region), width=10).extent
    assert -180 <= left < right <= 180


def test_around_a_region_there_is_no_cell():
    region = grid(np.arange(10.0, 31.0), np.arange(170.0, 191.0))
    place = canvas.over(region, canvas.projection("Robinson", 180))
    cells = place.cells(region.lat.values, region.lon.values)
    outside = (place.lat < 9.5) | (place.lat > 30.5) | (place.lon < 169.5) | (place.lon > 190.5)
    assert (cells[outside] == -1).all()
    assert (cells[np.isfinite(place.lat) & ~outside] >= 0).all()


def test_a_polar_map_ends_at_its_edge():
    for name, sign in (("NorthPolarStereo", 1), ("SouthPolarStereo", -1)):
        place = canvas.over(GLOBE, canvas.projection(name))
        assert np.nanmin(sign * place.lat) == pytest.approx(canvas.POLAR_EDGE, abs=0.5)
        assert np.nanmax(sign * place.lat) > 89.5


def test_a_projection_of_cartopys_own_is_taken_as_it_is():
    crs = ccrs.EqualEarth(20)
    assert canvas.projection(crs) is crs
    assert canvas.over(GLOBE, crs).crs is crs


def test_an_unknown_projection_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match=r"'Mercatorish'.*Robinson"):
        canvas.projection("Mercatorish")
