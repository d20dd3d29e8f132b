"""A series is drawn over the dates of its snapshots."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl import maps


def axis(times):
    """Axis of the series of a map with these times."""
    lat, lon = np.arange(-80.0, 81, 20), np.arange(0.0, 360, 20)
    values = np.full((4 if times is None else len(times), len(lat), len(lon)), 20, np.float32)
    field = xr.DataArray(values, {"lat": lat, "lon": lon}, ("time", "lat", "lon"), "TMQ", {"units": "kg m-2"})
    field = field if times is None else field.assign_coords(time=times)
    return next(iter(maps.explore(field).layout().select({"name": "panel"}))).xaxis[0]


def test_a_series_axis_shows_dates_of_snapshots_about_evenly_spaced_in_time():
    # Ten daily snapshots and one 268 days after the first: those closest to 0, 89.3, 178.7 and 268 days.
    times = np.datetime64("2001-06-30T06:00", "ns") + np.array([*range(10), 268]) * np.timedelta64(1, "D")
    shown = axis(times)
    assert shown.ticker.ticks == [0, 9, 268]
    labels = ["2001-06-30\n06:00 UTC", "2001-07-09\n06:00 UTC", "2002-03-25\n06:00 UTC"]
    assert list(shown.major_label_overrides.values()) == labels
    assert shown.axis_label is None


@pytest.mark.parametrize(("calendar", "last"), [("360_day", "2001-02-30"), ("noleap", "2001-03-02")])
def test_dates_on_the_axis_are_those_of_the_archives_calendar(calendar, last):
    # The 60th day of twelve months of 30 days, which ends the second, and the 61st of 365 days: 31 + 28 + 2.
    times = xr.date_range("2001-01-01", periods=60 if calendar == "360_day" else 61, calendar=calendar, use_cftime=True)
    labels = axis(times).major_label_overrides
    assert labels[len(times) - 1.0].split("\n") == [last, "00:00"]


def test_snapshots_without_times_are_counted():
    shown = axis(None)
    assert shown.major_label_overrides == {}
    assert shown.axis_label == "snapshots since the first"
