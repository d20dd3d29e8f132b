"""Regridding keeps what it promises: linear fields, integrals, the seam, and what is unknown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.climate.regrid import METHODS, regridder
from climlab_dl.climate.sphere import cell_areas_km2

COARSE = np.arange(-87.5, 90, 5), np.arange(0.0, 360, 5)
FINE = np.arange(-89.25, 90, 1.5), np.arange(0.0, 360, 1.5)
GAUSS = np.degrees(np.arcsin(np.polynomial.legendre.leggauss(48)[0])), np.arange(96) * 3.75


@pytest.mark.parametrize("method", METHODS)
def test_a_grid_onto_itself_changes_nothing(method):
    values = np.random.default_rng(0).normal(size=(2, 48, 96))
    found = regridder(GAUSS[0], GAUSS[1], GAUSS[0], GAUSS[1], method)(values)
    np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("old", "new"), [(FINE, COARSE), (COARSE, FINE), (GAUSS, FINE)])
def test_a_constant_stays_constant_up_to_the_poles_and_across_the_seam(method, old, new):
    values = np.full((len(old[0]), len(old[1])), 7.0)
    found = regridder(old[0], old[1], new[0], new[1], method)(values)
    np.testing.assert_allclose(found, 7.0, rtol=1e-6)


@given(st.integers(0, 2**32 - 1))
def test_conservative_regridding_keeps_the_integral_over_the_sphere(seed):
    values = np.random.default_rng(seed).normal(size=(len(FINE[0]), len(FINE[1])))
    coarse = regridder(*FINE, *COARSE, "conservative")(values)
    before = (values * cell_areas_km2(*FINE)).sum()
    after = (coarse * cell_areas_km2(*COARSE)).sum()
    assert after == pytest.approx(before, rel=1e-4, abs=1e3)


def test_bilinear_regridding_keeps_what_is_linear():
    # lat + 2 lon between lon 10 and 300, away from the seam, where it is linear.
    lat, lon = COARSE
    new_lat, new_lon = np.array([-80.0, 3.25, 60.0]), np.array([11.0, 123.4, 299.0])
    found = regridder(lat, lon, new_lat, new_lon, "bilinear")(lat[:, None] + 2 * lon[None])
    np.testing.assert_allclose(found, new_lat[:, None] + 2 * new_lon[None], rtol=1e-5)


def test_half_way_across_the_seam_lies_the_mean_of_both_sides():
    lat, lon = COARSE
    values = np.zeros((len(lat), len(lon)))
    values[:, -1], values[:, 0] = 1.0, 3.0
    assert regridder(lat, lon, lat, np.array([357.5]), "bilinear")(values)[10, 0] == pytest.approx(2.0)


@pytest.mark.parametrize("method", METHODS)
def test_outside_a_region_nothing_is_known(method):
    lat, lon = np.arange(10.0, 21), np.arange(355.0, 366)
    new_lat, new_lon = np.array([0.0, 15.0, 30.0]), np.array([3.0, 100.0, 356.0])
    found = regridder(lat, lon, new_lat, new_lon, method)(np.ones((11, 11)))
    known = np.isfinite(found)
    if method == "bilinear":
        assert known.tolist() == [[False] * 3, [True, False, True], [False] * 3]
    else:
        # Cells of 7.5 to 22.5 N and of some 50 degrees of longitude are not even half covered.
        assert not known[[0, 2]].any()


def test_missing_values_do_not_spread():
    values = np.ones((len(FINE[0]), len(FINE[1])))
    values[50, 100] = np.nan
    found = regridder(*FINE, *COARSE, "conservative")(values)
    np.testing.assert_allclose(found, 1.0, rtol=1e-6)


def test_another_method_is_refused():
    with pytest.raises(ValueError, match=r"'cubic'.*bilinear, conservative"):
        regridder(*FINE, *COARSE, "cubic")  # pyright: ignore[reportArgumentType]
