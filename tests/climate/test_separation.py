"""Cyclones whose masks touch: told apart by their centres of pressure."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array

from climlab_dl.climate import archive, events, heuristics, sphere, synthetic
from climlab_dl.climate.separation import _in_one_piece

find: Any = events.find  # tables whose columns the type checker cannot know


def lows(*centres, step=2.0, width=3.0):
    """Pressure with lows (lat, lon, Pa) of a width in degrees, and the mask of all within 7 degrees of them."""
    lat, lon = np.arange(-90 + step / 2, 90, step), np.arange(0, 360, step)
    pressure, mask = np.full((lat.size, lon.size), 101000.0), np.zeros((lat.size, lon.size), np.int8)
    for centre_lat, centre_lon, depth in centres:
        away = np.degrees(sphere.great_circle_km(lat[:, None], lon, centre_lat, centre_lon) / sphere.EARTH_RADIUS_KM)
        pressure -= depth * np.exp(-((away / width) ** 2))
        mask[away <= 7] = 1
    coords = {"lat": lat, "lon": lon}
    fields = xr.Dataset({"PSL": (("lat", "lon"), pressure.astype(np.float32))}, coords)
    return xr.DataArray(mask, coords, ("lat", "lon")), fields


def test_jova_and_irwin_are_two_events_although_their_masks_touch(shared):
    # GFS valid 2011-10-11 00 UTC: Jova 17.5N 105W 990 hPa, Irwin 17.5N 117.5W 996 hPa. The masks by rule touch, and as
    # one event they have their centroid at 111W, where there is no storm. The masks lie where moisture, westerlies
    # and southerlies are largest, south of the centres.
    fields = archive.open(shared / "climate/gfs_f072_valid_20111011T00_camnames.nc").load()
    mask = heuristics.label(fields)
    together = find(mask, fields, separation=None)
    apart = find(mask, fields)
    assert len(apart) == len(together) + 1
    storms = apart[(apart["class"] == "cyclone") & apart["lon"].between(235, 265) & apart["lat"].between(10, 25)]
    assert storms[["psl_lat", "psl_lon"]].round(6).to_numpy().tolist() == [[17.5, 255.0], [17.5, 242.5]]
    assert storms["min_psl_hPa"].round().tolist() == [990, 996]
    np.testing.assert_allclose(storms["lat"], 17.5, atol=2.5)
    np.testing.assert_allclose(storms["lon"], [255, 242.5], atol=1)
    assert storms["region"].nunique() == 1
    one = together[together["region"] == storms["region"].iloc[0]]
    assert storms["area_km2"].sum() == pytest.approx(float(one["area_km2"].iloc[0]))
    assert float(one["lon"].iloc[0]) == pytest.approx(249, abs=0.5)
    # The same storms where seam and north are elsewhere.
    both = xr.Dataset({"mask": mask, **fields})
    turned = both.roll(lon=40).assign_coords(lon=both.lon).isel(lat=slice(None, None, -1))
    moved = find(turned["mask"], turned)
    moved["lon"] = (moved["lon"] - 40 * 2.5) % 360
    columns = ["lat", "lon", "area_km2", "min_psl_hPa", "length_km", "max_wind_m_s"]
    pd.testing.assert_frame_equal(
        moved.sort_values(["class", "area_km2"])[columns].reset_index(drop=True),
        apart.sort_values(["class", "area_km2"])[columns].reset_index(drop=True),
    )


def test_two_like_lows_share_their_mask_evenly():
    # Centres 12 degrees apart on one parallel: all but the cells on the meridian between them, 186E, are nearer to one,
    # and those go to the deeper low. So the western event is larger by just that column.
    mask, fields = lows((11, 180, 2001), (11, 192, 2000))
    table = find(mask, fields)
    assert table[["psl_lat", "psl_lon"]].round(6).to_numpy().tolist() == [[11, 180], [11, 192]]
    areas = mask * sphere.cell_areas_km2(mask.lat, mask.lon)
    between = float(areas.sel(lon=186).sum())
    assert between > 0
    assert table["area_km2"].tolist() == pytest.approx([(float(areas.sum()) + d) / 2 for d in (between, -between)])


@pytest.mark.parametrize(
    ("centres", "storms"),
    [
        ([(11, 180, 2000), (11, 192, 1500)], 2),
        ([(11, 180, 2000), (11, 186, 1500), (3, 196, 900)], 2),  # 186 is within 6 degrees of the deeper 180
        ([(11, 180, 2000), (11, 192, 1500), (19, 186, 900)], 3),
        ([(11, 180, 2000), (11, 192, 120)], 1),  # 120 Pa close no contour of 200 Pa
        ([(11, 356, 2000), (-1, 4, 1500)], 2),  # over the seam
    ],
)
def test_centres_count_that_are_6_degrees_apart_and_closed(centres, storms):
    mask, fields = lows(*centres)
    assert len(find(mask)) == 1
    assert len(find(mask, fields, separation=None)) == 1
    table = find(mask, fields)
    assert len(table) == storms
    assert table["area_km2"].sum() == pytest.approx(float(find(mask)["area_km2"].iloc[0]))


def test_rivers_are_never_divided():
    mask, fields = lows((11, 180, 2000), (11, 192, 1500))
    assert len(find(2 * mask, fields)) == 1


@settings(max_examples=8)
@given(
    places=st.lists(
        st.tuples(st.integers(-15, 15), st.integers(0, 10), st.integers(300, 3000)), min_size=2, max_size=4
    ),
    turn=st.integers(0, 179),
)
def test_parts_cover_the_region_and_turn_with_the_globe(places, turn):
    mask, fields = lows(*((lat, 170 + 4 * lon, depth) for lat, lon, depth in places))
    table = find(mask, fields)
    whole = find(mask)
    np.testing.assert_allclose(
        table.groupby("region")["area_km2"].sum(), whole.set_index("region")["area_km2"], rtol=1e-9
    )
    assert len(events.to_geojson(mask, table=table)["features"]) == len(table)
    both = xr.Dataset({"mask": mask, **fields})
    turned = both.roll(lon=turn).assign_coords(lon=both.lon).isel(lat=slice(None, None, -1))
    moved = find(turned["mask"], turned)
    moved["lon"] = (moved["lon"] - 2.0 * turn) % 360
    columns = ["area_km2", "lat", "lon", "min_psl_hPa"]
    same = [t[columns].round(4).sort_values(columns).to_numpy() for t in (table, moved)]
    np.testing.assert_allclose(*same, atol=1e-3)


def test_outlines_are_those_of_the_parts():
    mask, fields = lows((11, 180, 2000), (11, 192, 1500))
    table = find(mask, fields)
    features = events.to_geojson(mask, table=table)["features"]
    assert [feature["properties"]["area_km2"] for feature in features] == table["area_km2"].tolist()
    lon = [np.array(feature["geometry"]["coordinates"]).reshape(-1, 2)[:, 0] % 360 for feature in features]
    assert lon[0].min() < 180 < lon[0].max() <= 187
    assert 185 <= lon[1].min() < 192 < lon[1].max()
    # A table with one of the two does not say where the other's part begins; fields do.
    with pytest.raises(ValueError, match=r"covers .* storms of a divided region are not in the table\. Give fields"):
        events.to_geojson(mask, table=table[1:])
    alone = events.to_geojson(mask, table=table[1:], fields=fields)["features"]
    assert alone[0]["geometry"] == features[1]["geometry"]


def test_a_grid_of_unequal_steps_leaves_regions_whole(caplog):
    mask, fields = lows((11, 180, 2000), (11, 192, 1500))
    uneven = {"lon": [*range(80, 90), *range(91, 100)]}
    assert len(find(mask.isel(uneven), fields.isel(uneven))) == 1
    assert "cyclones that touch stay one event: longitude does not ascend in equal steps" in caplog.text


def test_a_separation_without_meaning_is_refused():
    with pytest.raises(ValueError, match="merge=0 must be positive"):
        events.Separation(merge=0)


def test_a_part_stays_in_one_piece_where_its_centre_has_two_nearest_cells():
    # A horseshoe around a centre in its gap: both tips are equally near, and the other storm lies in the bend.
    ways = coo_array((np.ones(6), (np.arange(6), np.arange(1, 7))), shape=(7, 7)).tocsr()
    part = _in_one_piece(np.array([0, 0, 0, 1, 1, 0, 0]), ways)
    assert part.tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_storms_of_a_ragged_mask_near_the_pole_have_lengths():
    # Such as a network draws early: hundreds of specks that touch by corners; a part of one fell into two pieces, and
    # its length was infinite.
    rng = np.random.default_rng(5)
    fields = synthetic.atmosphere(times=1, shape=(96, 192), seed=3).load()
    fields["PSL"] = fields.PSL + 600 * rng.standard_normal(fields.PSL.shape)
    for share in (0.3, 0.4, 0.5):
        mask = (fields.mask > 9).astype("int8") + (rng.random(fields.mask.shape) < share).astype("int8")
        assert np.isfinite(events.find(mask.assign_attrs(fields.mask.attrs), fields).length_km).all()
