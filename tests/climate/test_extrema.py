"""Closed contours, nearest extremes and the rise around them, on bowls whose shape is a formula."""

import numpy as np
import pytest

from climlab_dl.climate.extrema import (
    closed,
    extreme_near,
    largest_piece,
    least_rise,
    least_rise_everywhere,
    lowest_of_neighbours,
    merge,
)
from climlab_dl.climate.mesh import degrees_between, mesh_of

LAT, LON = np.arange(-89.5, 90), np.arange(360.0)
MESH = mesh_of(LAT, LON)


def cell(lat, lon):
    return np.array([int(lat + 89.5)]), np.array([int(lon) % 360])


def bowl(lat, lon):
    """Pressure that rises by 10 Pa times the squared distance in degrees."""
    return 1e5 + 10 * degrees_between(lat, lon, LAT[:, None], LON[None]) ** 2


@pytest.mark.parametrize(("lat", "lon"), [(0.5, 0), (0.5, 359), (30.5, 180), (-60.5, 2), (75.5, 100)])
def test_a_contour_closes_where_the_bowl_has_risen(lat, lon):
    # 200 Pa is reached at sqrt(20) = 4.47 degrees; the last cell below lies within that.
    field = bowl(lat, lon)
    assert closed(field, MESH, cell(lat, lon), rise=200.0, radius=4.5)[0]
    assert not closed(field, MESH, cell(lat, lon), rise=200.0, radius=3.0)[0]


def test_one_gap_in_the_rim_opens_the_contour():
    field = bowl(0.5, 10)
    field[cell(0.5, 10)[0], 10:30] = 1e5
    assert not closed(field, MESH, cell(0.5, 10), rise=200.0, radius=5.5)[0]
    field[cell(0.5, 10)[0], 14:16] = 1e5 + 300  # a lock in the channel
    assert closed(field, MESH, cell(0.5, 10), rise=200.0, radius=5.5)[0]


def test_unknown_values_and_the_edge_of_a_region_keep_a_contour_open():
    field = bowl(0.5, 10)
    hole = field.copy()
    hole[88, 5:9] = np.nan
    hole[80:90, 5] = np.nan
    assert not closed(hole, MESH, cell(0.5, 10), rise=200.0, radius=5.5)[0]
    region = mesh_of(LAT, LON[:40])
    near_edge = bowl(0.5, 2)[:, :40]
    assert not closed(near_edge, region, cell(0.5, 2), rise=200.0, radius=5.5)[0]
    assert closed(bowl(0.5, 20)[:, :40], region, cell(0.5, 20), rise=200.0, radius=5.5)[0]


def test_the_least_rise_is_that_along_the_gentlest_ray():
    # Along every ray 10 Pa x 5^2 = 250; with a ridge of -100 Pa to the east beyond 2 degrees, 150 there.
    field = bowl(0.5, 0)
    np.testing.assert_allclose(least_rise(field, MESH, cell(0.5, 0), 5.0), 250.0, rtol=0.01)
    east = (LON[None] > 2) & (LON[None] < 20) & (abs(LAT[:, None] - 0.5) < 2)
    np.testing.assert_allclose(least_rise(field - 100 * east, MESH, cell(0.5, 0), 5.0), 150.0, rtol=0.01)
    assert np.isnan(least_rise(np.full_like(field, np.nan), MESH, cell(0.5, 0), 5.0))[0]


@pytest.mark.parametrize("columns", [slice(None), slice(30, 150)])
@pytest.mark.parametrize("lat", [np.linspace(-88.5, 88.5, 60), np.linspace(70.0, -40.0, 50)])
def test_the_least_rise_of_all_cells_is_that_of_each(lat, columns):
    lon = np.arange(0, 360, 2.0)[columns]
    mesh, field = mesh_of(lat, lon), np.random.default_rng(0).normal(size=(len(lat), len(lon)))
    rows, columns = np.indices(field.shape)
    each = least_rise(field, mesh, (rows.ravel(), columns.ravel()), 7.0).reshape(field.shape)
    known = ~np.isnan(each)
    assert known.mean() > 0.7
    np.testing.assert_allclose(least_rise_everywhere(field, mesh, 7.0)[known], each[known], atol=1e-9)


def test_a_ray_of_which_nothing_is_known_leaves_the_others():
    field = bowl(89.5, 0)
    # From the last row but the pole, rays to the north leave the grid: those to the south rise.
    assert np.isfinite(least_rise_everywhere(field, MESH, 5.0)).all()
    region = mesh_of(LAT, LON[:40])
    assert np.isfinite(least_rise_everywhere(field[:, :40], region, 5.0)).all()


def test_the_nearest_largest_value_is_found_over_the_seam_and_not_beyond_the_radius():
    field = np.zeros((180, 360))
    field[90, 358] = field[90, 5] = 1.0  # 2 and 5 degrees from longitude 0
    field[90, 20] = 9.0
    assert [int(i[0]) for i in extreme_near(field, MESH, cell(0.5, 0), 6.0)] == [90, 358]
    assert [int(i[0]) for i in extreme_near(np.full_like(field, np.nan), MESH, cell(0.5, 0), 6.0)] == [90, 0]


def test_of_minima_within_the_merging_distance_the_lowest_stays():
    field = np.minimum(bowl(10.5, 359), bowl(10.5, 3) - 50)  # 4 degrees of longitude are 3.9 on the sphere
    low = lowest_of_neighbours(field, MESH, latitude=80.0)
    assert sorted(zip(low[0].tolist(), low[1].tolist(), strict=True)) == [(100, 3), (100, 359)]
    for distance, left in ((6.0, [3]), (3.0, [3, 359])):
        assert sorted(merge(field, MESH, low, distance)[1].tolist()) == left


def test_the_largest_piece_touches_by_corners():
    cells = np.zeros((6, 9), dtype=bool)
    cells[[0, 1, 2], [0, 1, 2]] = True
    cells[4:6, 7] = True
    kept = largest_piece(cells)
    assert kept.sum() == 3
    assert kept[1, 1]
    assert not largest_piece(np.zeros((2, 2), dtype=bool)).any()
