import numpy as np
import pytest

from climlab_dl.climate import sphere
from climlab_dl.climate.shapes import Regions

LAT, LON = np.linspace(-90, 90, 361), np.arange(0, 360, 0.5)
AREAS = sphere.cell_areas_km2(LAT, LON)


def regions(mask, wrap=True):
    labels, count = sphere.connected(mask, wrap=wrap)
    return Regions(labels=labels, count=count, lat=LAT, lon=LON, areas=AREAS, wrap=wrap)


def strip(azimuth, lat, lon, length_km, width_km):
    """Cells of a rectangle on the sphere around a great circle that leaves (lat, lon) towards the azimuth."""
    center, north = sphere.unit_vectors(lat, lon), sphere.unit_vectors(lat + 90, lon)
    east = np.cross(north, center)
    along = np.cos(np.radians(azimuth)) * north + np.sin(np.radians(azimuth)) * east
    points = sphere.unit_vectors(LAT[:, None], LON)
    s = 6371.0 * np.arctan2(points @ along, points @ center)
    x = 6371.0 * np.arcsin(np.clip(points @ np.cross(center, along), -1, 1))
    return (np.abs(s) < length_km / 2) & (np.abs(x) < width_km / 2)


@pytest.mark.parametrize("azimuth", [0, 30, 45, 80, 90])
@pytest.mark.parametrize("place", [(0, 0), (45, 180), (-60, 359)])
def test_a_straight_river_is_as_long_and_wide_as_drawn(azimuth, place):
    found = regions(strip(azimuth, place[0], place[1], 4000, 500))
    assert found.length_km == pytest.approx([4000], rel=0.05)
    assert found.area_km2 / found.length_km == pytest.approx([500], rel=0.08)


def test_the_length_of_a_bent_river_follows_the_bend():
    # A quarter of the small circle 25 to 29 degrees around (0N, 0E): its middle line is R sin 27 pi/2 = 4543 km long,
    # its ends are R acos(cos2 27) = 4161 km apart.
    distance = sphere.great_circle_km(LAT[:, None], LON, 0, 0) / 6371.0
    points = sphere.unit_vectors(LAT[:, None], LON)
    mask = (np.abs(np.degrees(distance) - 27) < 2) & (points[..., 2] > 0) & (points[..., 1] > 0)
    assert regions(mask).length_km == pytest.approx([np.sin(np.radians(27)) * 6371.0 * np.pi / 2], rel=0.05)


def test_a_round_event_is_as_long_as_its_diameter():
    mask = sphere.great_circle_km(LAT[:, None], LON, 40, 0) < 600
    assert regions(mask).length_km == pytest.approx([1200], rel=0.1)


def test_one_cell_has_the_size_of_a_cell():
    mask = np.zeros(AREAS.shape, bool)
    mask[180, 3] = True
    found = regions(mask)
    # 0.5 degrees of the equator are 55.6 km.
    assert found.length_km == pytest.approx([55.6], rel=1e-3)
    assert found.area_km2 == pytest.approx([55.6**2], rel=1e-3)


def test_events_of_both_poles_and_a_ring_have_finite_shapes():
    mask = np.zeros(AREAS.shape, bool)
    mask[0] = mask[-1] = mask[200] = True
    mask[:2, :5] = True
    found = regions(mask)
    assert found.count == 3
    assert np.isfinite(found.length_km).all()
    assert (found.length_km > 0).all()
    assert np.isfinite(found.centroids).all()


def test_extremes_skip_missing_cells():
    # ClimateGlobalChange/tempestextremes#92, TECA#652: NaN and fill values were not skipped.
    mask = np.zeros(AREAS.shape, bool)
    mask[100:103, 10:13] = True
    mask[200:202, 50:52] = True
    field = np.full(AREAS.shape, np.nan)
    field[101, 11], field[102, 12] = 5.0, 3.0
    found = regions(mask)
    assert found.maximum(field)[0] == 5.0
    assert np.isnan(found.maximum(field)[1])
    lowest, lat, lon = found.lowest(field)
    assert (lowest[0], lat[0], lon[0]) == (3.0, LAT[102], LON[12])
    assert np.isnan([lowest[1], lat[1], lon[1]]).all()


def test_the_lowest_value_may_lie_in_a_cell_beside_the_event_also_over_the_seam():
    mask = np.zeros(AREAS.shape, bool)
    mask[100:103, :3] = True
    field = np.full(AREAS.shape, 10.0)
    field[103, -1], field[104, 1] = 7.0, 5.0  # one cell away, and two
    assert [a.item() for a in regions(mask).lowest(field)] == [7.0, LAT[103], LON[-1]]
    assert regions(mask, wrap=False).lowest(field)[0].item() == 10.0


def test_of_equal_values_that_of_the_event_itself_is_the_lowest():
    mask = np.zeros(AREAS.shape, bool)
    mask[100, 5] = True
    assert [a.item() for a in regions(mask).lowest(np.ones(AREAS.shape))] == [1.0, LAT[100], LON[5]]


def test_only_a_regional_grid_has_an_edge():
    mask = np.zeros(AREAS.shape, bool)
    mask[100:103, -3:] = True
    mask[50:53, 20:30] = True
    assert regions(mask, wrap=False).touches_edge().tolist() == [False, True]
    assert not regions(mask).touches_edge().any()


def test_no_region_measures_nothing():
    found = regions(np.zeros(AREAS.shape, bool))
    assert found.area_km2.shape == found.length_km.shape == found.maximum(AREAS).shape == (0,)
