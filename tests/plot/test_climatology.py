"""The climatology page shows shares and counts that can be counted by hand."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl.plot import climatology


@pytest.fixture
def mask():
    """Forty six-hourly snapshots: a cyclone at 22.5 N that stands still at 100 E for the first ten."""
    lat, lon = np.arange(-87.5, 90, 5), np.arange(0.0, 360, 5)
    values = np.zeros((40, 36, 72), np.int8)
    values[:10, 22, 20] = 1
    values[5:30, 8:10, 40:60] = 2
    times = np.datetime64("2001-07-25", "ns") + np.arange(40) * np.timedelta64(6, "h")
    attrs = {"flag_values": np.arange(3), "flag_meanings": "background cyclone river"}
    return xr.DataArray(values, {"time": times, "lat": lat, "lon": lon}, ("time", "lat", "lon"), "mask", attrs)


def image(figure, title):
    [axes] = [axes for axes in figure.axes if title in axes.get_title()]
    return np.ma.filled(axes.images[0].get_array(), np.nan)


def test_the_share_of_the_time_is_that_of_the_snapshots(mask, tmp_path):
    figure = climatology.climatology(mask, path=tmp_path / "page.png", dpi=50)
    # Ten of forty snapshots, whatever month they lie in: July has 28 of them, August 12.
    assert np.nanmax(image(figure, "cyclone: share")) == pytest.approx(25.0)
    assert np.nanmax(image(figure, "river: share")) == pytest.approx(100 * 25 / 40)
    assert "40 snapshots, 2 tracks" in figure.get_suptitle()
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_a_month_counts_only_its_own_snapshots(mask):
    figure = climatology.climatology(mask, months=[8])
    # August's twelve snapshots are the last: the river is there in two of them, the cyclone in none.
    assert np.nanmax(image(figure, "river: share")) == pytest.approx(100 * 2 / 12)
    assert np.isnan(image(figure, "cyclone: share")).all()
    assert "Aug: 12 snapshots" in figure.get_suptitle()


def test_a_month_that_the_mask_does_not_have_is_refused(mask):
    with pytest.raises(ValueError, match="no snapshot in Jan, Dec"):
        climatology.climatology(mask, months=[12, 1])
