"""Which cells a cyclone covers: the radius of its wind, its box, its largest piece."""

import numpy as np
import pandas as pd
import pytest

from climlab_dl.climate.cyclone_extent import Extent
from climlab_dl.climate.mesh import degrees_between, mesh_of

LAT, LON = np.arange(-89.75, 90, 0.5), np.arange(0, 360, 0.5)
MESH = mesh_of(LAT, LON)
EXTENT = Extent()
NAMES = ("UBOT", "VBOT", "TMQ", "U850", "V850", "PRECT")


@pytest.mark.parametrize(("lat", "lon"), [(15.25, 0.0), (15.25, 359.5), (-40.25, 180.0)])
def test_the_wind_radius_is_where_the_wind_last_exceeds_the_limit(lat, lon):
    # Calm eye, then 17.5 m/s x 3 / distance: above 63 km/h = 17.5 m/s out to 3 degrees. Bins are 6/32 wide and hold
    # few cells of half a degree, so the radius is right to a cell and a bin.
    distance = degrees_between(lat, lon, LAT[:, None], LON[None])
    speed = np.where(distance < 1, 0.0, 17.5 * 3 / np.maximum(distance, 1))
    assert EXTENT.wind_radius(speed, MESH, lat, lon) == pytest.approx(3.0, abs=0.5 + 6 / 32)
    assert EXTENT.wind_radius(speed * 0.1, MESH, lat, lon) == 0.0
    assert EXTENT.wind_radius(speed * np.nan, MESH, lat, lon) == 0.0


def snapshot(**fields):
    return {name: fields.get(name, np.zeros((len(LAT), len(LON)))) for name in NAMES}


def painted(fields, lat, lon, mesh=MESH):
    mask = np.zeros((len(LAT), len(LON)), dtype=np.int8)
    EXTENT.paint(mask, 1, pd.DataFrame({"lat": [lat], "lon": [lon]}), fields, mesh)
    return mask == 1


def test_the_moistest_seven_percent_of_the_box_are_painted():
    # No wind, so the box is 2 x 6.6 degrees: 26 rows and columns of half a degree; moisture falls with the distance,
    # so the 93rd percentile leaves ceil(7 % of 26 x 26) = 48 cells, the ones nearest to the centre.
    distance = degrees_between(10.0, 0.25, LAT[:, None], LON[None])
    cells = painted(snapshot(TMQ=60 - distance), 10.0, 0.25)
    assert cells.sum() == pytest.approx(0.07 * 26 * 26, abs=1)
    assert distance[cells].max() < distance[~cells].min() + 0.1


def test_a_coarse_box_gives_ten_cells_rather_than_seven_percent():
    # On 2.5 degrees the box of 2 x 6.6 degrees has 5 x 5 cells, 7 % of which are less than two.
    lat, lon = np.arange(-90, 90.1, 2.5), np.arange(0, 360, 2.5)
    distance = degrees_between(10.0, 100.0, lat[:, None], lon[None])
    fields = {name: 60 - distance if name == "TMQ" else 0 * distance for name in NAMES}
    mask = np.zeros(distance.shape, dtype=np.int8)
    EXTENT.paint(mask, 1, pd.DataFrame({"lat": [10.0], "lon": [100.0]}), fields, mesh_of(lat, lon))
    assert 7 <= mask.sum() <= 10  # cells at equal distance stand or fall together
    assert mask[40, 40] == 1


def test_a_piece_apart_is_left_out():
    distance = degrees_between(10.0, 100.0, LAT[:, None], LON[None])
    apart = degrees_between(14.5, 104.5, LAT[:, None], LON[None])
    cells = painted(snapshot(TMQ=60 - distance, PRECT=np.where(apart < 1, 1e-6, 0.0)), 10.0, 100.0)
    assert cells[distance < 1].all()
    assert not cells[apart < 1].any()


def test_a_box_is_cut_at_longitude_zero_only_where_nothing_wraps():
    distance = degrees_between(10.0, 0.0, LAT[:, None], LON[None])
    fields = snapshot(TMQ=60 - distance)
    assert painted(fields, 10.0, 0.0)[:, 600:].any()
    assert not painted(fields, 10.0, 0.0, mesh_of(LAT, LON, wrap=False))[:, 600:].any()


def test_a_percentile_outside_its_range_is_refused():
    with pytest.raises(ValueError, match="percentile=100 must lie between 0 and 100"):
        Extent(percentile=100)
