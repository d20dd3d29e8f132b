"""Outlines follow the cells' own edges and close across the seam; contours and arrows say what the numbers say."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from climlab_dl.plot import canvas
from climlab_dl.plot.outlines import BENDS, CORNERS, DOT, FULL_SPEED, LEVELS, arrows, contours, outline, tracks

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


def test_contours_lie_where_the_probability_is_reached():
    # The river's probability falls by 0.1 a cell of 10 degrees from 100 E to both sides: 0.95, 0.5 and 0.05 lie 5, 50
    # and 95 degrees away.
    river = np.maximum(1 - np.abs(LON - 100) / 100, 0) * np.ones((18, 1))
    found = contours(np.stack([1 - river, 0 * river, river]), LAT, LON, flat(100))
    assert set(found.classes.tolist()) == {2}
    for level in LEVELS:
        away = 100 * (1 - level)
        for side in (-1, 1):
            assert (np.abs(found.x0 - side * away) < 1e-3).sum() >= 17


def test_contours_pass_the_seam_and_unknown_probabilities_have_none():
    river = np.zeros((18, 36))
    river[8:10, [35, 0]] = 1.0
    chances = np.stack([1 - river, 0 * river, river])
    across = contours(chances, LAT, LON, flat())
    assert across.x0.min() > -25
    assert across.x0.max() < 15
    assert len(contours(np.full((3, 18, 36), np.nan), LAT, LON, flat())) == 0


def test_an_arrow_points_along_the_wind_and_is_as_long_as_it_is_fast():
    u, v = np.full((18, 36), 10.0), np.full((18, 36), -5.0)
    found = arrows(u, v, LAT, LON, flat(180), spacing=20.0)
    # On the row at 5 N (cosine 0.996) a shaft spans 10/25 of the spacing eastward and half of that southward.
    shafts = slice(0, len(found) // 3)
    low = np.abs(found.y0[shafts] - 5) < 0.1
    assert low.sum() >= 17
    eastward = 10 / FULL_SPEED * 20 / np.cos(np.radians(5))
    np.testing.assert_allclose((found.x1 - found.x0)[shafts][low], eastward, rtol=1e-3)
    np.testing.assert_allclose((found.y1 - found.y0)[shafts][low], -5 / FULL_SPEED * 20, rtol=1e-3)


def test_arrows_are_thinned_towards_the_poles():
    found = arrows(np.ones((18, 36)), np.zeros((18, 36)), LAT, LON, flat(180), spacing=10.0)
    shafts = slice(0, len(found) // 3)
    rows, counts = np.unique(found.y0[shafts], return_counts=True)
    at = dict(zip(rows.tolist(), counts.tolist(), strict=True))
    # At 75 degrees a parallel is a quarter as long as the equator.
    assert at[75.0] == pytest.approx(36 / 4, abs=1)
    assert at[5.0] >= 35


def test_missing_winds_have_no_arrows():
    assert len(arrows(np.full((18, 36), np.nan), np.zeros((18, 36)), LAT, LON, flat(), spacing=20.0)) == 0


def walk(lats, lons, track=1, kind="cyclone"):
    """Rows of a storm that is at these places, six hours apart."""
    times = pd.date_range("2001-07-01", periods=len(lats), freq="6h")
    return pd.DataFrame({"track": track, "class": kind, "time": times, "lat": lats, "lon": lons})


def test_a_track_leads_from_where_the_storm_began_to_where_it_is():
    storms = pd.concat([walk([10.0, 12, 14], [20.0, 22, 24]), walk([-30.0], [100.0], 2, "river")])
    here = tracks(storms, storms.time.iloc[1], flat())
    assert len(here) == BENDS
    assert (here.x0.min(), here.x1.max()) == pytest.approx((20, 22))
    assert set(here.classes) == {1}
    assert len(tracks(storms, storms.time.iloc[2], flat())) == 2 * BENDS
    # The river is gone after its only snapshot.
    assert set(tracks(storms, storms.time.iloc[2], flat()).classes) == {1}


def test_a_storm_that_is_seen_for_the_first_time_has_a_dot_around_its_place():
    storms = pd.concat([walk([10.0, 12], [20.0, 22]), walk([-30.0], [100.0], 2, "river")])
    dots = tracks(storms, storms.time.iloc[0], flat())
    assert len(dots) == 2 * CORNERS
    for kind, x, y in ((1, 20, 10), (2, 100, -30)):
        own = dots.classes == kind
        np.testing.assert_allclose(np.hypot(dots.x0[own] - x, dots.y0[own] - y), 360 * DOT, rtol=1e-4)
        # Closed: each piece ends where another begins.
        ends = [
            sorted(zip(a[own].tolist(), b[own].tolist(), strict=True))
            for a, b in ((dots.x0, dots.y0), (dots.x1, dots.y1))
        ]
        np.testing.assert_allclose(ends[0], ends[1], atol=1e-4)


def test_storms_behind_the_globe_have_no_dot():
    storms = pd.concat([walk([0.0], [10.0]), walk([0.0], [190.0], 2)])
    place = canvas.over(GRID, canvas.projection("Orthographic", 0))
    assert len(tracks(storms, storms.time.iloc[0], place)) == CORNERS
    assert len(tracks(storms, pd.Timestamp("2002-01-01"), place)) == 0


def test_a_track_across_the_dateline_is_cut_there_and_nowhere_else():
    storms = walk([0.0, 0.0], [174.0, 186.0])
    cut = tracks(storms, storms.time.iloc[1], flat())
    # One of twelve pieces, 179 to 181 E or the like, would lead across the map.
    assert len(cut) >= BENDS - 1
    assert np.abs(cut.x1 - cut.x0).max() < 2
    assert len(tracks(storms, storms.time.iloc[1], flat(180))) == BENDS


def test_a_track_is_a_great_circle():
    # Halfway from 0 E to 90 E along 45 N the great circle is at arctan(sqrt 2) = 54.74 N.
    storms = walk([45.0, 45.0], [0.0, 90.0])
    way = tracks(storms, storms.time.iloc[1], flat())
    assert way.y1.max() == pytest.approx(np.degrees(np.arctan(np.sqrt(2))), abs=1e-3)
