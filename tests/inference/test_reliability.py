"""Reliability: what is said to be half certain comes true half the time."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl.climate.fields import CLASSES
from climlab_dl.inference.reliability import reliability

LAT, LON = np.linspace(-89, 89, 90), np.arange(180) * 2.0
COORDS = {"time": [0, 1], "lat": LAT, "lon": LON}


def told(river):
    chances = np.stack([1 - river, np.zeros_like(river), river], axis=1)
    return xr.DataArray(chances, {**COORDS, "class": list(CLASSES)}, ("time", "class", "lat", "lon"))


def test_probabilities_that_are_frequencies_lie_on_the_diagonal():
    random = np.random.default_rng(0)
    river = random.random((2, 90, 180))
    truth = xr.DataArray(np.int8(2 * (random.random(river.shape) < river)), COORDS, ("time", "lat", "lon"))
    table = reliability(told(river), truth)
    rows = table[table["class"] == "river"]
    # Some 3,240 pixels a bin: a standard deviation of at most 0.5 / sqrt(3240) = 0.009.
    assert len(rows) == 10
    assert (rows.forecast - rows.observed).abs().max() < 5 * 0.009
    assert rows.pixels.sum() == river.size
    # Uniform p: the Brier score is the mean of p (1 - p), a sixth; that of the frequency a half is a quarter.
    assert table.attrs["brier"]["river"] == pytest.approx(1 / 6, abs=0.01)
    assert table.attrs["brier_of_frequency"]["river"] == pytest.approx(1 / 4, abs=0.01)
    assert table.attrs["brier"]["cyclone"] == 0


def test_what_is_unknown_or_unlabelled_does_not_count():
    river = np.full((2, 90, 180), 0.3)
    river[0, :45] = np.nan
    truth = xr.DataArray(np.zeros(river.shape, np.int8), COORDS, ("time", "lat", "lon"))
    truth[1, :, :90] = -1
    table = reliability(told(river), truth)
    assert table[table["class"] == "river"].pixels.tolist() == [45 * 180 + 90 * 90]


def test_no_time_in_common_is_said():
    truth = xr.DataArray(np.zeros((2, 90, 180), np.int8), {**COORDS, "time": [7, 8]}, ("time", "lat", "lon"))
    with pytest.raises(ValueError, match="no time in common"):
        reliability(told(np.zeros((2, 90, 180))), truth)


def test_another_grid_is_said():
    truth = xr.DataArray(np.zeros((2, 90, 180), np.int8), COORDS, ("time", "lat", "lon"))
    with pytest.raises(ValueError, match="different grids"):
        reliability(told(np.zeros((2, 90, 180))), truth.isel(lon=slice(None, None, 2)))
