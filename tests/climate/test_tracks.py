from typing import Any

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl.climate import events
from climlab_dl.climate.tracks import Linking, hours_since_first, time_text

LAT, LON = np.arange(-89.0, 90, 2), np.arange(0.0, 360, 2)

find: Any = events.find  # tables whose columns the type checker cannot know


def masks(*snapshots, hours=6, times=None):
    """Masks on a 2-degree grid; each snapshot is a list of boxes (class, south, north, west, east) in degrees."""
    values = np.zeros((len(snapshots), LAT.size, LON.size), np.int8)
    for drawn, boxes in zip(values, snapshots, strict=True):
        for kind, south, north, west, east in boxes:
            rows = (south <= LAT) & (north >= LAT)
            columns = (LON - west) % 360 <= east - west
            drawn[np.ix_(rows, columns)] = kind
    times = pd.date_range("2001-09-01", periods=len(snapshots), freq=f"{hours}h") if times is None else times
    return xr.DataArray(values, {"time": times, "lat": LAT, "lon": LON}, ("time", "lat", "lon"))


def test_a_moving_cyclone_is_one_track_over_the_dateline():
    # 4 degrees of longitude at 15N every 6 h are 430 km; without overlap 400 km would be the limit.
    found = find(masks(*[[(1, 12, 18, west, west + 6)] for west in (172, 176, 180, 184)]))
    assert found["track"].tolist() == [1, 1, 1, 1]
    assert found["lon"].tolist() == pytest.approx([175, 179, 183, 187])


def test_a_jump_faster_than_the_limit_begins_a_new_track():
    snapshots = masks([(1, 12, 18, 100, 104)], [(1, 12, 18, 106, 110)])  # 645 km, no overlap
    assert find(snapshots)["track"].tolist() == [1, 2]
    assert find(snapshots, linking=Linking(max_speed_km_day=2700))["track"].tolist() == [1, 1]


def test_the_limit_grows_with_the_time_step():
    # The same jump is slow enough in 12 hours.
    snapshots = masks([(1, 12, 18, 100, 104)], [(1, 12, 18, 106, 110)], hours=12)
    assert find(snapshots)["track"].tolist() == [1, 1]


def test_storms_of_different_classes_are_never_linked():
    found = find(masks([(1, 12, 18, 100, 110)], [(2, 12, 18, 100, 110)]))
    assert found["track"].tolist() == [1, 2]
    assert found["split_from"].count() == 0


def test_two_storms_that_pass_keep_their_names():
    # The first new place is nearer to the second storm: taking the nearest pair first would lose the first storm.
    found = find(
        masks(
            [(1, 10, 14, 100, 104), (1, 10, 14, 110, 114)],
            [(1, 10, 14, 106, 110), (1, 10, 14, 115, 119)],
            hours=12,
        )
    )
    assert found.sort_values(["time", "lon"])["track"].tolist() == [1, 2, 1, 2]


def test_a_merge_is_recorded_on_the_last_row_of_the_smaller_storm():
    found = find(
        masks(
            [(2, 20, 30, 100, 140), (2, 20, 30, 146, 152)],
            [(2, 20, 30, 100, 152)],
            [(2, 20, 30, 102, 154)],
        )
    )
    small = found[found["lon"] > 140].iloc[0]
    assert found["track"].nunique() == 2
    big = found.loc[found["time"] == found["time"].max(), "track"].item()
    assert (small["merged_into"], small["track"]) == (big, 3 - big)
    assert found["merged_into"].count() == 1
    assert found["split_from"].count() == 0


def test_a_split_is_recorded_on_the_first_row_of_the_new_storm():
    found = find(masks([(2, 20, 30, 100, 152)], [(2, 20, 30, 100, 140), (2, 20, 30, 146, 152)]))
    new = found[found["split_from"].notna()]
    assert len(new) == 1
    assert new["lon"].item() == pytest.approx(149)
    assert new["split_from"].item() == 1
    assert found["merged_into"].count() == 0


def test_a_storm_that_misses_a_step_goes_on():
    found = find(masks([(1, 12, 18, 100, 106)], [], [(1, 12, 18, 102, 108)]))
    assert found["track"].tolist() == [1, 1]


def test_a_gap_longer_than_allowed_ends_every_track():
    snapshots = masks(*[[(1, 12, 18, 100, 106)]] * 2, hours=30)
    assert find(snapshots)["track"].tolist() == [1, 2]
    assert find(snapshots, linking=Linking(max_gap_hours=48))["track"].tolist() == [1, 1]


def test_tracking_goes_over_30_february_in_a_360_day_calendar():
    # tobac-project/tobac#490: 360_day times with timedelta padding crashed.
    times = xr.date_range("2001-02-29T12:00", periods=3, freq="12h", calendar="360_day", use_cftime=True)
    found = find(masks(*[[(1, 12, 18, west, west + 6)] for west in (100, 102, 104)], times=times))
    assert found["track"].tolist() == [1, 1, 1]
    assert [time_text(time) for time in found["time"]] == [
        "2001-02-29T12:00:00",
        "2001-02-30T00:00:00",
        "2001-02-30T12:00:00",
    ]


def test_28_february_is_followed_by_1_march_in_a_noleap_calendar():
    # pydata/xarray#4127, SciTools/nc-time-axis#122: noleap times were decoded or drawn as other dates.
    times = xr.date_range("2000-02-28T18:00", periods=2, freq="6h", calendar="noleap", use_cftime=True)
    hours = hours_since_first(np.asarray(times))
    assert hours is not None
    assert hours.tolist() == [0, 6]
    assert time_text(times[1]) == "2000-03-01T00:00:00"


def test_hours_are_the_same_in_every_calendar():
    for calendar in ("standard", "noleap", "360_day", "julian"):
        times = [cftime.datetime(1500, 6, 1, hour, calendar=calendar) for hour in (3, 6, 12)]
        assert hours_since_first(np.array(times)).tolist() == [0, 3, 9]  # type: ignore[union-attr]


def test_times_that_are_no_dates_are_followed_by_overlap_in_the_order_given(caplog):
    snapshots = masks(*[[(1, 12, 18, west, west + 6)] for west in (100, 102, 140)], times=["b", "a", "c"])
    found = find(snapshots)
    assert found["track"].tolist() == [1, 1, 2]
    assert found["time"].tolist() == ["b", "a", "c"]
    assert "no dates" in caplog.text


def test_repeated_times_are_refused():
    times = np.array(["2001-01-01", "2001-01-01"], "datetime64[ns]")
    with pytest.raises(ValueError, match="time twice"):
        find(masks([], [], times=times))


@pytest.mark.parametrize("name", ["max_speed_km_day", "max_gap_hours"])
def test_linking_refuses_numbers_that_are_not_positive(name):
    with pytest.raises(ValueError, match=name):
        Linking(**{name: 0})
