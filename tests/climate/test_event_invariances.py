"""Turning, flipping and rolling the grid, and other calendars, change no event."""

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from climlab_dl.climate import events

find: Any = events.find  # tables whose columns the type checker cannot know
MEASURES = ["lat", "area_km2", "length_km", "width_km", "min_psl_hPa", "max_wind_m_s", "land_share"]


def essence(table, lon_shift=0.0):
    """Rows in an order that knows nothing of rows and columns, with tracks named by their members."""
    table = table.assign(lon=(table["lon"] - lon_shift) % 360).round({"lat": 6, "lon": 6, "area_km2": 3})
    table["lon"] = table["lon"] % 360
    table["hour"] = [str(time) for time in table["time"]]
    table = table.sort_values(["hour", "class", "area_km2", "lat", "lon"]).reset_index(drop=True)
    first = table.groupby("track")["lat"].transform("first") + 1000 * table.groupby("track").transform("size")
    return table[["class", "lon", *MEASURES, "saffir_simpson", "ar_scale"]].assign(track=first)


def same(first, second):
    pd.testing.assert_frame_equal(first, second, rtol=1e-6, atol=1e-6)


@settings(max_examples=10)
@given(seed=st.integers(0, 999), shift=st.integers(1, 89))
def test_rolling_the_grid_changes_no_event(weather, seed, shift):
    # LBL-EESA/TECA#194, #786, #787: blobs across the seam were counted twice.
    mask, fields = weather(seed)
    rolled = find(mask.roll(lon=shift, roll_coords=True), fields.roll(lon=shift, roll_coords=True))
    same(essence(find(mask, fields)), essence(rolled))


@settings(max_examples=10)
@given(seed=st.integers(0, 999), shift=st.integers(1, 89))
def test_turning_the_earth_turns_the_events(weather, seed, shift):
    # Land does not turn with it. The length depends on the tip from which it is measured, and of two cells that are
    # equally far out the first in the grid is taken, so that it may change by a few percent.
    mask, fields = weather(seed)
    turned = find(mask.roll(lon=shift), fields.roll(lon=shift))
    columns = [c for c in essence(turned).columns if c not in ("land_share", "length_km", "width_km")]
    same(essence(find(mask, fields))[columns], essence(turned, lon_shift=4.0 * shift)[columns])


@settings(max_examples=10)
@given(seed=st.integers(0, 999))
def test_flipping_the_order_of_latitude_changes_no_event(weather, seed):
    mask, fields = weather(seed)
    same(essence(find(mask, fields)), essence(find(mask[:, ::-1], fields)))


@settings(max_examples=10)
@given(seed=st.integers(0, 999))
def test_both_longitude_conventions_have_the_same_events(weather, seed):
    # tobac-project/tobac#126: segmentation was wrong at 180 or at 0.
    mask, fields = weather(seed)
    western = mask.assign_coords(lon=(mask["lon"] + 180) % 360 - 180)
    found = find(western, fields)
    same(essence(find(mask, fields)), essence(found))
    assert found["lon"].between(-180, 180).to_numpy().all()
    assert (found["lon"] < 0).to_numpy().any()
    same(essence(found), essence(find(western.sortby("lon"), fields)))


@settings(max_examples=10)
@given(seed=st.integers(0, 999), order=st.permutations(range(4)))
def test_permuted_times_have_the_same_events_and_tracks(weather, seed, order):
    mask, fields = weather(seed)
    pd.testing.assert_frame_equal(find(mask, fields), find(mask[list(order)], fields))


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "proleptic_gregorian"])
def test_the_calendar_changes_no_event(weather, calendar):
    # tobac-project/tobac#490. From 26 February 360_day months go on to the 30th.
    mask, fields = weather(times=12)
    other, other_fields = weather(times=12, calendar=calendar)
    ours, theirs = find(mask, fields), find(other, other_fields)
    pd.testing.assert_frame_equal(ours.drop(columns="time"), theirs.drop(columns="time"))
