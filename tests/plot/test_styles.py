"""Colours part at zero for winds, limits are fixed, dates are the calendar's own."""

import cftime
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl import archive, maps
from climlab_dl.climate.fields import CAM5, CLASSES, FIELDS
from climlab_dl.plot import styles


@pytest.mark.parametrize("name", CAM5)
def test_known_channels_have_the_tables_limits(name):
    low, high = FIELDS[name].display
    look = styles.style(xr.DataArray(np.linspace(low, high, 100), dims="x", name=name))
    assert (look.low, look.high) == (low, high)
    assert not look.fitted
    assert look.scale == look.label
    assert look.label.startswith(f"{name} (")
    assert (look.low == -look.high) == FIELDS[name].diverging


def test_fields_are_shown_in_the_units_in_which_they_are_read():
    # 1013.25 hPa, 18 g/kg, and 2 mm of rain in an hour.
    for name, value, shown, unit in (
        ("PSL", 101325.0, 1013.25, "hPa"),
        ("QREFHT", 0.018, 18.0, "g kg⁻¹"),
        ("PRECT", 2e-3 / 3600, 2.0, "mm h⁻¹"),
        ("TMQ", 40.0, 40.0, "kg m⁻²"),
    ):
        field = xr.DataArray([value], dims="x", name=name, attrs={"units": FIELDS[name].unit, "long_name": name})
        read = styles.readable(field)
        assert float(read[0]) == pytest.approx(shown)
        assert styles.style(read).unit == unit
        assert styles.style(read).low <= shown <= styles.style(read).high
        # A field that is in that unit already, and one whose unit nobody knows, stay as they are.
        assert styles.readable(read) is read
        other = field.assign_attrs(units="furlong")
        assert styles.readable(other) is other


def test_a_known_field_in_a_unit_of_its_own_takes_its_limits_from_its_values():
    torr = xr.DataArray(np.linspace(700, 800, 101), dims="x", name="PSL", attrs={"units": "torr"})
    assert (styles.style(torr).low, styles.style(torr).high) == (701, 799)


def test_limits_that_do_not_hold_a_field_are_fitted_to_its_first_snapshot_and_that_is_said():
    # The sample's mean sea level pressure is 16 hPa too high: 5.9% of its first snapshot's area lie above 1040 hPa.
    fields = archive.open(archive.sample())[["PSL", "TMQ"]].isel(time=[0, 30, 59]).load()
    pressure = styles.readable(fields.PSL)
    look = styles.style(pressure)
    assert (look.low, look.high) == pytest.approx(np.percentile(pressure[0], [1, 99]), rel=1e-6)
    assert look.high > 1050
    assert look.scale == "PSL (hPa), colours fitted to the first snapshot"
    # By which all others are drawn, whichever is drawn first.
    assert styles.style(pressure, pressure[0].values) == look
    assert (maps.static(fields, channel="PSL", time=2).axes[0].images[0].get_clim()) == (look.low, look.high)
    assert not styles.style(fields.TMQ).fitted


def test_a_few_storms_beyond_the_limits_leave_them_alone():
    wind = xr.DataArray(np.zeros((10, 10)), dims=("lat", "lon"), name="U850", coords={"lat": np.arange(-85.5, 90, 19)})
    # The cosines of the ten latitudes add up to 6.04, each cell at 9.5 S has 0.0986 of them: 1.6% of the area.
    wind[4, :3] = 80
    assert not styles.style(wind).fitted
    wind[4, :4] = 80
    assert styles.style(wind).fitted
    # A tenth of the cells, at 85.5 S, but 1.3% of the area.
    wind[4] = 0
    wind[0] = 80
    assert not styles.style(wind).fitted


def test_what_an_archive_says_of_its_limits_is_believed():
    share = xr.DataArray(np.linspace(0, 0.1, 11), dims="x", name="chance", attrs={"valid_range": (0.0, 1.0)})
    assert (styles.style(share).low, styles.style(share).high) == (0, 1)
    assert not styles.style(share).fitted


def test_powers_are_written_as_powers():
    field = xr.DataArray([1.0], dims="x", name="flux", attrs={"units": "kg m-1 s-1"})
    assert styles.style(field).label == "flux (kg m⁻¹ s⁻¹)"


def test_an_unknown_field_takes_its_limits_from_its_values():
    look = styles.style(xr.DataArray(np.linspace(100, 200, 101), dims="x", name="dust", attrs={"units": "kg"}))
    # The 1st and 99th percentile of 100, 101, ..., 200.
    assert (look.low, look.high, look.label) == (101, 199, "dust (kg)")


def test_an_unknown_field_of_both_signs_parts_at_zero():
    look = styles.style(xr.DataArray(np.linspace(-1, 10, 1000), dims="x", name="anomaly"))
    assert look.low == -look.high
    assert look.colormap == styles.DIVERGING
    # The middle of the palette is the palest colour.
    brightness = [sum(int(c[k : k + 2], 16) for k in (1, 3, 5)) for c in look.palette(257)]
    assert abs(int(np.argmax(brightness)) - 128) <= 1


def test_a_field_without_numbers_has_limits_all_the_same():
    look = styles.style(xr.DataArray(np.full(4, np.nan), dims="x", name="gone"))
    assert look.high > look.low


def test_every_class_has_its_own_colour_and_background_none():
    colors = styles.class_colors()
    assert len(set(colors)) == len(CLASSES)
    assert colors[0].endswith("00")


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (pd.date_range("2001-02-28T18", periods=2, freq="6h"), ["2001-02-28 18:00 UTC", "2001-03-01 00:00 UTC"]),
        ([cftime.Datetime360Day(2001, 2, 30, 6)], ["2001-02-30 06:00"]),
        ([cftime.DatetimeNoLeap(2004, 3, 1)], ["2004-03-01 00:00"]),
        ([3, 4], ["3", "4"]),
    ],
)
def test_dates_are_the_calendars_own(times, text):
    field = xr.DataArray(np.zeros(len(times)), dims="time", coords={"time": times})
    assert styles.dates(field) == text


def test_without_time_there_is_no_date():
    assert styles.dates(xr.DataArray(np.zeros((2, 2)), dims=("lat", "lon"))) == [""]
