"""An ensemble of thresholds: its draws and its votes."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl.climate import heuristics
from climlab_dl.climate.heuristics import Ensemble
from climlab_dl.climate.river_shapes import AxisShape
from climlab_dl.climate.rivers import AbovePercentile

LAT, LON = np.arange(-89.5, 90), np.arange(360.0)
GLOBE = {"lat": LAT, "lon": LON}


def moist(at, name="IVT", value=600.0):
    return xr.Dataset({name: (("lat", "lon"), np.where(at, value, 10.0).astype("f4"))}, GLOBE)


def test_the_ensemble_draws_bards_medians_within_its_ranges():
    ensemble = Ensemble(members=4000, seed=1)
    rules = ensemble.rules()
    percentile = np.array([rule.where.percentile for rule in rules if isinstance(rule.where, AbovePercentile)])
    area = np.array([rule.shape.area for rule in rules if isinstance(rule.shape, AxisShape)])
    # The median of 4,000 draws that are uniform on either side has a standard error below 1 % of the range.
    assert np.median(percentile) == pytest.approx(94.1, abs=0.3)
    assert 80 <= percentile.min() < 80.2 < 98.9 < percentile.max() <= 99
    assert np.median(area) == pytest.approx(1.54e6, rel=0.05)
    assert ensemble.rules()[7] == rules[7]


def test_probability_is_one_where_all_agree_and_falls_with_the_area():
    # One band so strong and large that every member takes it, and a spot of 1 degree that is below every area.
    band = (np.abs(LAT[:, None] - 45) < 10) & (np.abs(LON[None] - 100) < 40)
    spot = (np.abs(LAT[:, None] + 45) < 1) & (np.abs(LON[None] - 100) < 1)
    fields = moist(band | spot)
    # 2 % of the cells are in the band: members above the 98th percentile see no cell above it.
    probability = heuristics.river_probability(fields, Ensemble(members=16, percentile=(80.0, 90.0, 97.0)))
    assert probability.where(xr.DataArray(band, dims=("lat", "lon"))).min() == 1.0
    assert probability.where(xr.DataArray(spot, dims=("lat", "lon"))).max() == 0.0
    assert probability.dtype == np.float32
