"""The synthetic atmosphere: the schema of an archive, and storms where the truth says they are."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl.climate import sphere, synthetic
from climlab_dl.climate.fields import CAM5, FIELDS


def test_it_has_the_schema_of_an_archive():
    made = synthetic.atmosphere(times=2, shape=(24, 48))
    assert set(made.data_vars) == {*CAM5, "mask"}
    assert all(made[name].dims == ("time", "lat", "lon") and made[name].dtype == np.float32 for name in CAM5)
    assert made["mask"].dtype == np.int8
    assert made["mask"].attrs["flag_meanings"] == "background cyclone river"
    assert made["TMQ"].chunks == ((1, 1), (24,), (48,))
    assert np.all(np.diff(made["lat"]) > 0)
    assert 0 <= made["lon"].min() <= made["lon"].max() < 360


def test_fields_stay_within_physical_limits():
    made = synthetic.atmosphere(times=3, shape=(90, 180), seed=4).load()
    for name in CAM5:
        low, high = FIELDS[name].limits
        assert low <= made[name].min() <= made[name].max() <= high, name


def test_the_same_seed_gives_the_same_weather_and_another_seed_another():
    first, again, other = (synthetic.atmosphere(times=1, seed=seed) for seed in (1, 1, 2))
    xr.testing.assert_identical(first.load(), again.load())
    assert not np.allclose(first["PSL"], other["PSL"])


def test_the_weather_does_not_depend_on_the_grid():
    # Rows of a grid of 30 lie at (i + 1/2) 6 degrees, which a grid of 90 rows (2 degrees) has too, as row 3 i + 1.
    coarse = synthetic.atmosphere(times=1, shape=(30, 60), seed=3).load()
    fine = (
        synthetic.atmosphere(times=1, shape=(90, 180), seed=3).load().isel(lat=slice(1, None, 3), lon=slice(0, None, 3))
    )
    for name in ("TMQ", "PSL", "U850", "mask"):
        np.testing.assert_allclose(coarse[name], fine[name], rtol=1e-5, atol=1e-4)


def test_a_cyclone_and_a_river_cross_longitude_zero():
    mask = synthetic.atmosphere(times=1, shape=(96, 192), seed=0)["mask"].values[0]
    for value in (1, 2):
        joined = sphere.connected(mask == value, wrap=True)[1]
        cut = sphere.connected(mask == value, wrap=False)[1]
        assert cut == joined + 1


def test_five_cyclones_and_four_rivers_are_planted():
    mask = synthetic.atmosphere(times=1, shape=(180, 360), seed=7)["mask"].values[0]
    assert sphere.connected(mask == 1)[1] == 5
    assert sphere.connected(mask == 2)[1] == 4


def test_no_single_threshold_gives_the_rivers_away():
    made = synthetic.atmosphere(times=1, shape=(90, 180)).load()
    truth = made["mask"] == 2
    for threshold in np.arange(10, 60, 2.0):
        above = made["TMQ"] > threshold
        assert (above & truth).sum() / (above | truth).sum() < 0.5


def test_an_atmosphere_too_small_is_refused():
    with pytest.raises(ValueError, match="at least 1 snapshot of 8 x 16"):
        synthetic.atmosphere(shape=(4, 8))
