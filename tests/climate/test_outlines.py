from typing import Any

import numpy as np
import pytest
import shapely
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.climate import events, sphere

find: Any = events.find  # tables whose columns the type checker cannot know


def polygon_area_km2(geometry):
    """Area on the sphere inside straight longitude-latitude edges: the integral of R^2 sin(lat) dlon along the rings.

    On an edge of constant latitude it is sin(lat) dlon, on a meridian nothing; outlines of cells have no other edges.
    """
    total = 0.0
    for ring in shapely.get_rings(shapely.get_parts(shapely.geometry.shape(geometry))):
        lon, lat = np.radians(shapely.get_coordinates(ring)).T
        level, upright = np.diff(lat) == 0, np.diff(lon) == 0
        assert (level | upright).all()
        # The right-hand rule puts the inside on the left: shells count west-going, holes against them.
        total -= np.sum(np.diff(lon) * np.sin(lat[:-1]) * level)
    return 6371.0**2 * total


def grid_mask(values, lat=None, lon=None):
    rows, columns = values.shape
    lat = -90 + (np.arange(rows) + 0.5) * 180 / rows if lat is None else lat
    lon = np.arange(columns) * 360 / columns if lon is None else lon
    return xr.DataArray(values.astype(np.int8), {"lat": lat, "lon": lon}, ("lat", "lon"))


def outlined(mask):
    table = find(mask)
    return table, [feature["geometry"] for feature in events.to_geojson(mask, table=table)["features"]]


@given(seed=st.integers(0, 9999), share=st.floats(0.1, 0.9), half=st.booleans())
def test_polygons_have_the_area_of_their_cells(seed, share, half):
    # Random cells: holes, corners that touch, both poles, the dateline on a column's edge or through its middle.
    values = np.random.default_rng(seed).random((12, 16)) < share
    lon = np.arange(16) * 22.5 + (11.25 if half else 0)
    table, shapes = outlined(grid_mask(values * 2, lon=lon))
    assert len(shapes) == len(table)
    for area, geometry in zip(table["area_km2"], shapes, strict=True):
        assert polygon_area_km2(geometry) == pytest.approx(area, rel=1e-6)
        shape = shapely.geometry.shape(geometry)
        assert shape.is_valid
        assert shapely.bounds(shape)[0] >= -180
        assert shapely.bounds(shape)[2] <= 180


def test_an_event_across_the_dateline_is_cut_in_two():
    # holoviz/geoviews#107, gadomski/antimeridian#89: the polygon spanned the world. A box 170E to 170W, 10N to 30N.
    mask = grid_mask(np.zeros((180, 360)))
    mask.loc[{"lat": slice(10, 30), "lon": slice(171, 189)}] = 2
    table, (geometry,) = outlined(mask)
    assert geometry["type"] == "MultiPolygon"
    parts = [shapely.bounds(shapely.Polygon(part[0])).tolist() for part in geometry["coordinates"]]
    assert sorted(parts) == [[-180, 10, -170.5, 30], [170.5, 10, 180, 30]]
    exact = 6371.0**2 * np.radians(19) * (np.sin(np.radians(30)) - np.sin(np.radians(10)))
    assert polygon_area_km2(geometry) == pytest.approx(exact)
    assert table["area_km2"].item() == pytest.approx(exact)


def test_holes_are_kept_and_wind_against_their_shell():
    values = np.zeros((18, 36))
    values[5:10, 5:10] = 2
    values[7, 7] = 0
    _, (geometry,) = outlined(grid_mask(values))
    shell, hole = (shapely.LinearRing(ring) for ring in geometry["coordinates"])
    assert shell.is_ccw
    assert not hole.is_ccw
    assert shapely.bounds(hole).tolist() == [65, -20, 75, -10]


def test_straight_edges_have_no_corners_inside():
    values = np.zeros((18, 36))
    values[5:10, 5:10] = 2
    _, (geometry,) = outlined(grid_mask(values))
    assert len(geometry["coordinates"][0]) == 5


def test_a_polar_cap_ends_at_the_pole():
    values = np.zeros((18, 36))
    values[-2:] = 2
    _, (geometry,) = outlined(grid_mask(values))
    assert shapely.bounds(shapely.geometry.shape(geometry)).tolist() == [-180, 70, 180, 90]


def test_a_region_on_the_dateline_is_cut_there():
    lat, lon = np.arange(0.5, 10), np.arange(170.5, 190)
    values = np.zeros((10, 20))
    values[3:6, 5:15] = 1
    for written in (lon, (lon + 180) % 360 - 180):
        table, (geometry,) = outlined(grid_mask(values, lat, written))
        parts = [shapely.bounds(shapely.Polygon(part[0])).tolist() for part in geometry["coordinates"]]
        assert sorted(parts) == [[-180, 3, -175, 6], [175, 3, 180, 6]]
        assert polygon_area_km2(geometry) == pytest.approx(table["area_km2"].item())


def test_the_far_ends_of_a_region_on_the_dateline_are_not_joined():
    # On the map the columns 170.5..179.5 lie at one end and -179.5..-170.5 at the other.
    lat, lon = np.arange(0.5, 10), np.arange(170.5, 190)
    values = np.zeros((10, 20))
    values[4] = 1
    table, (geometry,) = outlined(grid_mask(values, lat, lon))
    parts = [shapely.bounds(shapely.Polygon(part[0])).tolist() for part in geometry["coordinates"]]
    assert sorted(parts) == [[-180, 4, -170, 5], [170, 4, 180, 5]]
    assert polygon_area_km2(geometry) == pytest.approx(table["area_km2"].item())


def test_a_tolerance_leaves_out_corners_and_moves_the_outline_no_further():
    distance = sphere.great_circle_km(np.linspace(-89, 89, 90)[:, None], np.arange(0, 360, 2), 20, 100)
    mask = grid_mask((distance < 3000) * 2.0)
    exact, simple = (
        shapely.geometry.shape(events.to_geojson(mask, tolerance_deg=tolerance)["features"][0]["geometry"])
        for tolerance in (0, 2)
    )
    assert shapely.get_num_coordinates(simple) < shapely.get_num_coordinates(exact)
    assert shapely.hausdorff_distance(exact, simple) <= 2 + 1e-9


def test_a_region_over_longitude_0_has_no_crack_on_a_grid_of_thirds_of_a_degree_in_single_precision():
    # In float32 the last column's edge missed the first one's by 2e-5 degrees, and the region was in two pieces.
    lon = np.arange(1080, dtype=np.float32) / np.float32(3)
    values = np.zeros((12, 1080))
    values[5:7, [-2, -1, 0, 1]] = 2
    _, (geometry,) = outlined(grid_mask(values, lon=lon))
    assert geometry["type"] == "Polygon"


def test_the_longitudes_of_a_feature_are_all_of_one_kind():
    # RFC 7946 wants -180..180; the table has the user's 0..360.
    values = np.zeros((12, 16))
    values[5:7, 10:12] = 2
    mask = grid_mask(values)
    table = find(mask)
    (feature,) = events.to_geojson(mask, table=table)["features"]
    west, _, east, _ = shapely.bounds(shapely.geometry.shape(feature["geometry"]))
    assert west < feature["properties"]["lon"] < east < 0
    assert table["lon"][0] == pytest.approx(feature["properties"]["lon"] + 360)
