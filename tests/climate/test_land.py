import numpy as np
import pytest

from climlab_dl.climate import sphere
from climlab_dl.climate.land import land_mask

LAT, LON = np.arange(-89.5, 90), np.arange(0.5, 360)


def test_land_covers_its_known_share_of_the_earth():
    # Land is 29.2 % of the surface (148.9 of 510.1 million km2); the shelf ice that Natural Earth leaves out is small.
    share = np.average(land_mask(LAT, LON), weights=sphere.cell_areas_km2(LAT, LON))
    assert share == pytest.approx(0.292, abs=0.006)


@pytest.mark.parametrize(
    ("name", "lat", "lon", "land"),
    [
        ("Kansas", 38.5, -98.5, True),
        ("Siberia east of the dateline", 66.5, 181.5, True),
        ("Congo", -2.5, 23.5, True),
        ("Antarctica", -89.5, 0.5, True),
        ("South Pole, on the dateline", -90, 180, True),
        ("Pacific", 0.5, 180.5, False),
        ("Caspian Sea", 42.5, 50.5, False),
        ("North Pole", 89.5, 10.5, False),
    ],
)
def test_known_places(name, lat, lon, land):
    assert land_mask([lat], [lon]).item() is land, name


def test_conventions_and_order_do_not_matter():
    here = land_mask(LAT, LON)
    assert np.array_equal(here, land_mask(LAT[::-1], LON - 360)[::-1])


def test_the_land_mask_of_a_grid_is_kept_and_read_only():
    assert land_mask(LAT, LON) is land_mask(LAT, LON)
    assert not land_mask(LAT, LON).flags.writeable
