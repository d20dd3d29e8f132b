"""Outlines follow the cells' own edges, close across the seam, and stay open nowhere."""

from collections import Counter

import numpy as np
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from climlab_dl.plot import canvas
from climlab_dl.plot.outlines import outline

LAT, LON = np.arange(-85.0, 90, 10), np.arange(0.0, 360, 10)
GRID = xr.DataArray(np.zeros((18, 36)), dims=("lat", "lon"), coords={"lat": LAT, "lon": LON})


def flat(center=0):
    return canvas.over(GRID, canvas.projection("PlateCarree", center))


def test_one_cell_is_outlined_by_its_four_sides():
    mask = np.zeros((18, 36), np.uint8)
    mask[10, 4] = 2  # centre 15 N 40 E
    found = outline(mask, LAT, LON, flat())
    sides = {tuple(sorted([(a, b), (c, d)])) for a, b, c, d in zip(found.x0, found.y0, found.x1, found.y1, strict=True)}
    corners = [(35, 10), (45, 10), (45, 20), (35, 20)]
    assert sides == {tuple(sorted([corners[k], corners[(k + 1) % 4]])) for k in range(4)}
    assert found.classes.tolist() == [2, 2, 2, 2]


def test_a_region_across_longitude_0_has_no_line_inside_it():
    mask = np.zeros((18, 36), np.uint8)
    mask[9, -2:] = mask[9, :2] = 1
    found = outline(mask, LAT, LON, flat())
    upright = found.x0 == found.x1
    # Cells centred on 340, 350, 0, 10: from 335 E = 25 W to 15 E.
    assert sorted(found.x0[upright].tolist()) == [-25, 15]


def test_rows_are_not_joined_over_the_poles():
    mask = np.zeros((18, 36), np.uint8)
    mask[0], mask[-1] = 1, 1
    found = outline(mask, LAT, LON, flat())
    assert set(found.y0.tolist()) == {-80.0, 80.0}


def test_where_two_classes_meet_the_cyclone_keeps_its_outline():
    mask = np.zeros((18, 36), np.uint8)
    mask[9, 5], mask[9, 6] = 2, 1
    found = outline(mask, LAT, LON, flat())
    between = (found.x0 == 55) & (found.x1 == 55)
    assert found.classes[between].tolist() == [1]


def test_pixels_that_nobody_labelled_are_not_outlined():
    mask = np.full((18, 36), -1, np.int8)
    assert len(outline(mask, LAT, LON, flat())) == 0


@given(arrays(np.uint8, (18, 36), elements=st.integers(0, 1)))
def test_outlines_of_one_class_are_closed_curves(mask):
    # A curve is closed where an even number of its pieces meet: on the globe's rows short of the poles, any mask.
    mask[[0, -1]] = 0
    found = outline(mask, LAT, LON, flat())
    # Points on the map's edge are the same point at 180 W and 180 E.
    ends = Counter()
    for x, y in ((found.x0, found.y0), (found.x1, found.y1)):
        ends.update(zip(np.round((x + 180) % 360, 3).tolist(), np.round(y, 3).tolist(), strict=True))
    # The map's cut is at 180 E; the grid's cells end at 175 and 185, so that pieces across it are left out.
    assert all(count % 2 == 0 for (x, _), count in ends.items() if 10 < x < 350)


def test_no_piece_stretches_across_any_map():
    mask = np.random.default_rng(0).integers(0, 3, (18, 36)).astype(np.uint8)
    for name in canvas.PROJECTIONS:
        place = canvas.over(GRID, canvas.projection(name, 180))
        found = outline(mask, LAT, LON, place)
        width = place.extent[1] - place.extent[0]
        assert np.hypot(found.x1 - found.x0, found.y1 - found.y0).max() < width / 4
        assert np.isfinite([found.x0, found.y0, found.x1, found.y1]).all()


def test_a_regions_border_closes_what_touches_it():
    lat, lon = np.arange(10.0, 14), np.arange(100.0, 104)
    region = xr.DataArray(np.zeros((4, 4)), dims=("lat", "lon"), coords={"lat": lat, "lon": lon})
    place = canvas.over(region, canvas.projection("PlateCarree"))
    found = outline(np.ones((4, 4), np.uint8), lat, lon, place)
    # All four sides of the square, four cells each.
    assert len(found) == 16
    assert (found.x0.min(), found.x1.max(), found.y0.min(), found.y1.max()) == (99.5, 103.5, 9.5, 13.5)
