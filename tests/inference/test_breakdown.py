"""Scores by month, basin, event and cell are those counted by hand, and storms are counted against observed tracks."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl import evaluate, events

LAT, LON = np.arange(-85.0, 90, 10), np.arange(0.0, 360, 10)


def layer(values, times=("2001-07-01", "2001-08-01")):
    coords = {"time": np.array(times, "datetime64[ns]"), "lat": LAT, "lon": LON}
    return xr.DataArray(np.int8(values), coords, ("time", "lat", "lon"))


def nothing():
    return np.zeros((2, 18, 36), np.int8)


def test_a_storm_touched_in_its_class_is_a_hit_across_the_seam_too():
    truth, found = nothing(), nothing()
    truth[0, 8, [35, 0]] = 1  # one cyclone across longitude 0, touched at one cell
    found[0, 8, 0] = 1
    truth[0, 4, 10:14] = 2  # a river, missed: what is there is taken for a cyclone
    found[0, 4, 12] = 1
    found[1, 12, 20:22] = 2  # a river where none is
    scores = evaluate(layer(found), layer(truth), by="event")
    assert scores.loc["cyclone", ["hits", "misses", "false_alarms"]].tolist() == [1, 0, 1]
    assert scores.loc["river", ["hits", "misses", "false_alarms"]].tolist() == [0, 1, 1]
    assert scores.loc["cyclone", "csi"] == 1 / 2
    assert scores.loc["cyclone", "found"] == 1
    assert scores.loc["river", "false"] == 1


def test_each_month_has_the_scores_of_its_own_snapshots():
    truth, found = nothing(), nothing()
    truth[:, 4, 10:14] = 2
    found[0, 4, 10:14] = 2
    scores = evaluate(layer(found), layer(truth), by="month")
    assert scores.index.tolist() == [7, 8]
    assert scores.iou_river.tolist() == [1, 0]
    together = evaluate(layer(found), layer(truth)).loc["detected"]
    assert together.iou_river == 1 / 2


def test_months_need_a_time_in_common():
    with pytest.raises(ValueError, match="no time in common"):
        evaluate(layer(nothing()), layer(nothing(), ("2002-07-01", "2002-08-01")), by="month")


def test_a_storm_counts_in_its_own_basin_only():
    truth, found = nothing(), nothing()
    truth[0, 10, 32] = 1  # 15 N 40 W: the North Atlantic, found
    found[0, 10, 32] = 1
    truth[0, 10, 14] = 1  # 15 N 140 E: the western North Pacific, missed
    scores = evaluate(layer(found), layer(truth), by="basin")
    assert scores.loc["NA", "recall_cyclone"] == 1
    assert scores.loc["WP", "recall_cyclone"] == 0
    assert np.isnan(scores.loc["EP", "recall_cyclone"])


def test_a_storm_found_where_nobody_labelled_is_no_false_alarm():
    truth, found = nothing(), nothing()
    truth[0, :, :18] = -1
    found[0, 8, 4:6] = 1
    found[0, 8, 24:26] = 1
    assert evaluate(layer(found), layer(truth), by="event").loc["cyclone", "false_alarms"] == 1


def test_each_cell_counts_its_own_hits_misses_and_false_alarms_whichever_way_the_rows_go():
    truth, found = nothing(), nothing()
    truth[:, 4, 10] = 2  # found once of two times
    found[0, 4, 10] = 2
    found[1, 7, 3] = 1  # there is nothing
    truth[1, 9, 9] = -1
    counts = evaluate(layer(found).isel(lat=slice(None, None, -1)), layer(truth), by="cell")
    at_river = counts.sel({"class": "river", "lat": LAT[4], "lon": 100.0})
    assert [int(at_river[name]) for name in ("hits", "misses", "false_alarms")] == [1, 1, 0]
    assert int(counts.false_alarms.sel({"class": "cyclone", "lat": LAT[7], "lon": 30.0})) == 1
    assert int(counts.hits.sum() + counts.misses.sum() + counts.false_alarms.sum()) == 3
    assert int(counts.snapshots.sel(lat=LAT[9], lon=90.0)) == 1
    assert int(counts.snapshots.max()) == 2


def test_several_masks_are_broken_down_under_their_names():
    truth, found = nothing(), nothing()
    truth[0, 4, 10:14] = 2
    scores = evaluate({"all": layer(truth), "none": layer(found)}, layer(truth), by="event")
    assert scores.loc[("all", "river"), "hits"] == 1
    assert scores.loc[("none", "river"), "misses"] == 1
    cells = evaluate({"all": layer(truth), "none": layer(found)}, layer(truth), by="cell")
    assert cells.hits.sel(mask="all").sum() == cells.misses.sel(mask="none").sum() == 4


def test_an_unknown_breakdown_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="by is 'week'; choose one of month, basin, event, cell"):
        evaluate(layer(nothing()), layer(nothing()), by="week")  # pyright: ignore[reportArgumentType]


def observations():
    # At the first time one at 15 N 135 E and one at 15 N 40 W; between the times one that does not count; at the
    # second time one at 15 S 60 E.
    return pd.DataFrame(
        {
            "track": ["A", "B", "B", "C"],
            "time": pd.to_datetime(["2001-07-01T00", "2001-07-01T00", "2001-07-01T06", "2001-08-01T00"]),
            "lat": [15.0, 15.0, 16.0, -15.0],
            "lon": [135.0, 320.0, 320.0, 60.0],
        }
    )


def test_observed_cyclones_are_hits_where_one_is_found_near_them():
    found = nothing()
    found[0, 10, 14] = 1  # 15 N 140 E: at 15 N, 5 degrees are 537 km from the first observation
    found[1, 3, 3] = 1  # 55 S 30 E: nothing there
    near = evaluate(layer(found), observations(), max_km=600)
    assert near.loc["cyclone", ["hits", "misses", "false_alarms"]].tolist() == [1, 2, 1]
    assert near.loc["cyclone", "found"] == pytest.approx(1 / 3)
    far = evaluate(layer(found), observations(), max_km=500)
    assert far.loc["cyclone", ["hits", "misses", "false_alarms"]].tolist() == [0, 3, 2]
    months = evaluate(layer(found), observations(), by="month", max_km=600)
    assert months.hits.to_dict() == {7: 1, 8: 0}
    assert months.false_alarms.to_dict() == {7: 0, 8: 1}
    basins = evaluate(layer(found), observations(), by="basin", max_km=600)
    assert basins.loc["WP", "hits"] == basins.loc["NA", "misses"] == basins.loc["SI", "false_alarms"] == 1


def test_a_region_answers_only_for_the_storms_in_it():
    found = layer(nothing()).isel(lon=slice(10, 20))  # 100 E .. 190 E
    assert evaluate(found, observations()).loc["cyclone", "misses"] == 1


def test_tracks_of_other_days_or_of_no_dates_are_refused():
    with pytest.raises(ValueError, match=r"no observation at the mask's times.*2001-07-01"):
        evaluate(layer(nothing(), ("2002-07-01", "2002-08-01")), observations())
    with pytest.raises(ValueError, match="model's calendar"):
        evaluate(layer(nothing()).assign_coords(time=[0, 1]), observations())
    with pytest.raises(ValueError, match="tracks have no cells"):
        evaluate(layer(nothing()), observations(), by="cell")


def test_best_tracks_of_ibtracs_are_found_by_a_mask_painted_around_them(shared):
    tracks = events.read_tracks(shared / "climate" / "ibtracs_v04r00_2storms.nc")
    row = tracks.loc[tracks["min_psl_hPa"].idxmin()]
    found = np.zeros((1, 18, 36), np.int8)
    found[0, np.abs(LAT - row["lat"]).argmin(), np.abs(LON - row["lon"]).argmin()] = 1
    scores = evaluate(layer(found, (row["time"],)), tracks, max_km=800)
    assert scores.loc["cyclone", ["hits", "false_alarms"]].tolist() == [1, 0]
