"""Centres through time become tracks, by distance on the sphere and by the rules on duration and wind."""

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.climate import heuristics, sphere, synthetic
from climlab_dl.climate.heuristics import Stitching, stitch

ANY = Stitching(speed=1600.0, wind=0.0, strong=0.0)


def points(lat, lon, hours, wind: float | np.ndarray = 30.0, **flags):
    start = np.datetime64("2001-08-01T00", "ns")
    time = start + np.asarray(hours) * np.timedelta64(1, "h")
    return pd.DataFrame({"time": time, "lat": lat, "lon": lon, "wind": wind, **flags})


def tracks(table, rule):
    return stitch(table, rule)["track"].tolist()


def test_a_storm_over_the_dateline_is_one_track():
    # 1 degree of longitude at 15N is 107 km; from 178 to -177.
    storm = points(15.0, [178.0, 179.0, 180.0, -179.0, -178.0, -177.0], np.arange(0, 36, 6))
    assert tracks(storm, ANY) == [0] * 6


def test_two_storms_that_pass_each_other_keep_their_tracks():
    # 20 degrees apart at first; each moves 2 degrees a step; they pass at 5 degrees of latitude from each other.
    hours = np.arange(0, 66, 6)
    east = points(10.0, 100 + 2.0 * np.arange(11), hours)
    west = points(15.0, 120 - 2.0 * np.arange(11), hours)
    found = stitch(pd.concat([east, west]), Stitching(speed=1000.0, wind=0.0, strong=0.0))
    assert found.groupby("track")["lat"].nunique().tolist() == [1, 1]


def test_a_leap_farther_than_the_speed_allows_begins_a_new_track():
    # 4 degrees of latitude are 444.8 km; six hours at 1600 km/day allow 400 km, at 1800 km/day 450.
    leap = points([10.0, 14.0], 50.0, [0, 6])
    assert tracks(leap, ANY) == [0, 1]
    assert tracks(leap, Stitching(speed=1800.0, wind=0.0, strong=0.0)) == [0, 0]
    assert tracks(leap, Stitching(speed=np.inf, reach=440.0, wind=0.0, strong=0.0)) == [0, 1]


def test_a_gap_is_bridged_only_where_the_rule_allows_it():
    gap = points(10.0, [50.0, 50.5, 51.5, 52.0], [0, 6, 18, 24])
    assert tracks(gap, ANY) == [0, 0, 1, 1]
    assert tracks(gap, Stitching(gap=24.0, wind=0.0, strong=0.0)) == [0, 0, 0, 0]


def test_strong_hours_need_not_be_on_end():
    # TECA: 17 m/s with both flags for 48 h, which are eight six-hourly sightings.
    wind = np.array([20, 10, 20, 20, 10, 20, 20, 20, 20, 20.0])
    storm = points(10.0, 50 + 0.5 * np.arange(10), 6 * np.arange(10), wind, has_warm_core=True, has_thickness=True)
    assert len(stitch(storm, Stitching.teca())) == 10
    assert stitch(storm.assign(wind=np.where(np.arange(10) == 3, 10.0, wind)), Stitching.teca()).empty
    assert stitch(storm.assign(has_thickness=np.arange(10) > 2), Stitching.teca()).empty


def test_tstorms_wants_a_warm_core_within_forty_degrees_and_slow_moves():
    # 17 m/s for two days; half a degree in six hours are 220 km a day on the equator, 2.5 degrees 1,110 km.
    storm = points(10.0, 50 + 0.5 * np.arange(10), 6 * np.arange(10), 20.0, has_warm_core=True, has_thickness=False)
    assert len(stitch(storm, Stitching.tstorms())) == 10
    assert stitch(storm.assign(lat=41.0), Stitching.tstorms()).empty
    assert stitch(storm.assign(lon=50 + 2.5 * np.arange(10)), Stitching.tstorms()).empty
    assert len(stitch(storm.assign(lon=50 + 2.5 * np.arange(10), has_thickness=True), Stitching.teca())) == 10


def test_tempest_wants_ten_sightings_within_fifty_degrees():
    storm = points(45.0 + 1.0 * np.arange(12), 50.0, 6 * np.arange(12), 12.0)
    assert stitch(storm, Stitching.tempest()).empty  # six of twelve are within 50 degrees
    assert len(stitch(storm.assign(lat=storm["lat"] - 10), Stitching.tempest())) == 12
    assert stitch(storm.assign(lat=storm["lat"] - 10).iloc[:9], Stitching.tempest()).empty


@given(st.permutations(range(12)))
def test_the_order_of_the_rows_does_not_matter(order):
    hours = np.repeat(np.arange(4) * 6, 3)
    table = points(np.tile([10.0, 12.0, -20.0], 4), np.repeat(np.arange(4), 3) + np.tile([50.0, 55, 300], 4), hours)
    pd.testing.assert_frame_equal(stitch(table.iloc[list(order)], ANY), stitch(table, ANY))


@given(st.floats(0, 360), st.booleans())
def test_tracks_do_not_depend_on_the_longitude_convention(turn, west):
    hours = np.repeat(np.arange(4) * 6, 2)
    lon = np.repeat(np.arange(4), 2) + np.tile([0.0, 180], 4) + turn
    lon = (lon + 180) % 360 - 180 if west else lon % 360
    assert tracks(points(np.tile([10.0, -15], 4), lon, hours), ANY) == [0] * 4 + [1] * 4


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "standard", "proleptic_gregorian"])
def test_every_calendar_gives_the_same_tracks(calendar):
    # Over the end of February; six hours are six hours in each.
    first = cftime.datetime(2000, 2, 28, calendar=calendar)
    times = xr.date_range(first, periods=12, freq="6h", calendar=calendar, use_cftime=True)
    storm = points(10.0, 50 + 0.5 * np.arange(12), 6 * np.arange(12)).assign(time=times.to_numpy())
    assert tracks(storm, ANY) == [0] * 12


def test_planted_storms_are_tracked_from_the_first_step_to_the_last():
    made = synthetic.atmosphere(times=10, shape=(90, 180), seed=3)
    found = stitch(heuristics.cyclone_candidates(made), Stitching.teca())
    assert found.groupby("track").size().tolist() == [10] * 5
    for _, track in found.groupby("track"):
        steps = sphere.great_circle_km(
            *(track[name].to_numpy()[part] for part in (slice(None, -1), slice(1, None)) for name in ("lat", "lon"))
        )
        # 0.4-1 degree west and 0.1-0.3 poleward a step: at most 115 km, and a cell of 222 km more or less.
        assert steps.max() < 115 + 2 * 222


def test_only_tracks_are_labelled_when_they_are_given():
    made = synthetic.atmosphere(times=10, shape=(90, 180), seed=3)
    found = stitch(heuristics.cyclone_candidates(made), Stitching.teca())
    one = found.loc[found["track"] == 2]
    lats, lons = np.array(one["lat"]), np.array(one["lon"])
    mask = heuristics.label(made, rivers=None, centres=one).compute()
    for i in range(10):
        regions, count = sphere.connected(mask.values[i] == 1)
        lat, lon = np.nonzero(regions == 1)
        near = sphere.great_circle_km(made.lat[lat], made.lon[lon], lats[i], lons[i])
        assert count == 1
        assert near.min() < 700


def test_runs_of_a_model_are_tracked_apart():
    # Two runs with the same dates and storms in the same places; the second one's has one more step.
    table = pd.concat(
        [
            points(10.0, 50.0 + np.arange(4), 6 * np.arange(4)).assign(run=1),
            points(10.0, 50.0 + np.arange(5), 6 * np.arange(5)).assign(run=2),
        ]
    )
    found = stitch(table, ANY)
    assert found["track"].tolist() == [0] * 4 + [1] * 5
    assert found["run"].tolist() == [1] * 4 + [2] * 5


def test_candidates_and_masks_of_two_runs_keep_apart():
    made = synthetic.atmosphere(times=2, shape=(48, 96), seed=3).load()
    other = synthetic.atmosphere(times=2, shape=(48, 96), seed=4).load()
    both = xr.concat([made.assign_coords(run=("time", [1, 1])), other.assign_coords(run=("time", [2, 2]))], "time")
    found = heuristics.cyclone_candidates(both)
    assert found.groupby("run")["time"].nunique().tolist() == [2, 2]
    second = found.loc[(found["run"] == 2) & found["has_warm_core"]]
    mask = heuristics.label(both, rivers=None, centres=second)
    assert not mask[:2].any()
    np.testing.assert_array_equal(mask[2:], heuristics.label(other, rivers=None))


def test_what_is_no_table_of_candidates_is_refused():
    table = points(10.0, [50.0, 51.0], [0, 6])
    with pytest.raises(ValueError, match=r"lack \['has_thickness', 'has_warm_core'\]"):
        stitch(table, Stitching.teca())
    with pytest.raises(ValueError, match="times are no dates"):
        stitch(table.assign(time=[0, 1]), ANY)
    with pytest.raises(ValueError, match="speed=0 must be positive"):
        Stitching(speed=0)
    assert stitch(table.iloc[:0], ANY).empty
