"""Scores by month and by event are those counted by hand."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl.inference.breakdown import by_basin, by_event, by_month
from climlab_dl.inference.detect import evaluate

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
    scores = by_event(layer(found), layer(truth))
    assert scores.loc["cyclone", ["hits", "misses", "false_alarms"]].tolist() == [1, 0, 1]
    assert scores.loc["river", ["hits", "misses", "false_alarms"]].tolist() == [0, 1, 1]
    assert scores.loc["cyclone", "csi"] == 1 / 2
    assert scores.loc["cyclone", "found"] == 1
    assert scores.loc["river", "false"] == 1


def test_each_month_has_the_scores_of_its_own_snapshots():
    truth, found = nothing(), nothing()
    truth[:, 4, 10:14] = 2
    found[0, 4, 10:14] = 2
    scores = by_month(layer(found), layer(truth))
    assert scores.index.tolist() == [7, 8]
    assert scores.iou_river.tolist() == [1, 0]
    together = evaluate(layer(found), layer(truth)).loc["detected"]
    assert together.iou_river == 1 / 2


def test_months_need_a_time_in_common():
    with pytest.raises(ValueError, match="no time in common"):
        by_month(layer(nothing()), layer(nothing(), ("2002-07-01", "2002-08-01")))


def test_a_storm_counts_in_its_own_basin_only():
    truth, found = nothing(), nothing()
    truth[0, 10, 32] = 1  # 15 N 40 W: the North Atlantic, found
    found[0, 10, 32] = 1
    truth[0, 10, 14] = 1  # 15 N 140 E: the western North Pacific, missed
    scores = by_basin(layer(found), layer(truth))
    assert scores.loc["NA", "recall_cyclone"] == 1
    assert scores.loc["WP", "recall_cyclone"] == 0
    assert np.isnan(scores.loc["EP", "recall_cyclone"])
