"""How far fields stand from the thresholds of the rules."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl.climate import archive, derived, heuristics
from climlab_dl.climate.contrasts import CONTRASTS
from climlab_dl.climate.fields import FIELDS
from climlab_dl.climate.mesh import degrees_between, mesh_of
from climlab_dl.climate.rivers import Above

LAT, LON = np.linspace(-88.5, 88.5, 60), np.arange(0, 360, 3.0)


def on_globe(values):
    return xr.DataArray(values, {"lat": LAT, "lon": LON}, ("lat", "lon"))


def test_every_contrast_is_a_field_within_one_of_zero_with_its_threshold_inside(sample):
    fields = archive.require(archive.open(sample / "gcm_t63_2001-08-14T06.nc"), list(CONTRASTS)).isel(time=0)
    for name in CONTRASTS:
        assert FIELDS[name].unit == fields[name].attrs["units"] == "1"
        assert fields[name].dtype == np.float32
        assert -1 <= fields[name].min() < -0.5
        assert 0.5 < fields[name].max() <= 1


def test_the_excess_of_vapour_changes_sign_where_the_river_rule_decides(sample):
    fields = archive.require(archive.open(sample / "gcm_t63_2001-08-14T06.nc"), ["TMQEXCESS1", "TMQEXCESS5"])
    rule = heuristics.Rivers.kurth().where
    assert isinstance(rule, Above)
    snapshot = fields.isel(time=0)
    mesh = mesh_of(fields.lat.values, fields.lon.values)
    excess = derived.damped(snapshot.TMQ) - 21
    for name, width in (("TMQEXCESS1", 1), ("TMQEXCESS5", 5)):
        np.testing.assert_array_equal(snapshot[name] > 0, rule.cells({"TMQ": snapshot.TMQ.values}, mesh))
        np.testing.assert_allclose(snapshot[name], np.tanh(excess / width), atol=1e-5)


def test_every_centre_of_the_cyclone_rule_lies_in_a_rise_of_pressure_and_near_a_warm_core(sample):
    fields = archive.require(archive.open(sample / "gcm_t63_2001-08-14T06.nc"), list(CONTRASTS))
    rule, mesh, seen = heuristics.Cyclones.kurth(), mesh_of(fields.lat.values, fields.lon.values), 0
    for time in range(4):
        snapshot = {str(name): fields[name].isel(time=time).values for name in fields.data_vars}
        for lat, lon in rule.find(snapshot, mesh)[["lat", "lon"]].to_numpy():
            row, column = np.abs(mesh.lat - lat).argmin(), np.abs(mesh.lon - lon).argmin()
            assert snapshot["PSLRISE40"][row, column] >= 0
            # The warmest cell above lies within 1.5 steps of the grid.
            assert np.roll(snapshot["WARMCORE04"], 1 - column, 1)[row - 1 : row + 2, :3].max() >= 0
            seen += 1
    assert seen > 4


def test_a_bowl_of_pressure_over_the_seam_rises_by_what_its_formula_says():
    pressure = (1e5 + 10 * degrees_between(LAT[30], 0.0, LAT[:, None], LON[None]) ** 2).astype(np.float32)
    # 10 Pa times 5 degrees squared; values between cells of 3 degrees are a little high, for the bowl curves. From 6
    # degrees east the gentlest ray goes down into the bowl; its highest step is the first, 3.5 degrees from the middle.
    rise = derived.pressure_rise(on_globe(pressure))
    assert rise[30, 0] == rise.max() == pytest.approx(250, rel=0.15)
    assert rise[30, 2] == pytest.approx(10 * 3.5**2 - 10 * 6**2, rel=0.1)
    np.testing.assert_allclose(CONTRASTS["PSLRISE200"](rise), np.tanh((rise - 100) / 200), atol=1e-6)
    # Temperatures of 250 and 240 K in the middle that fall by 0.02 K times 5 degrees squared, in the mean of both.
    warmth = (1e5 - pressure) / 500
    fall = derived.warm_core(on_globe(250 + warmth), on_globe(240 + warmth))
    assert fall[30, 0] == fall.max() == pytest.approx(0.5, rel=0.15)


def test_rises_turn_with_the_field_and_leave_a_gap_where_it_was():
    field = np.random.default_rng(0).normal(size=(60, 120)).astype(np.float32)
    found = derived.pressure_rise(on_globe(field)).values
    np.testing.assert_array_equal(derived.pressure_rise(on_globe(np.roll(field, 17, 1))), np.roll(found, 17, 1))
    field[20:40, 50:60] = np.nan
    np.testing.assert_array_equal(np.isnan(derived.pressure_rise(on_globe(field))), np.isnan(field))


def test_what_several_fields_follow_from_is_computed_once_and_not_kept(sample, monkeypatch):
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc").isel(time=0)
    calls = []
    monkeypatch.setattr(derived, "least_rise_everywhere", lambda *given: calls.append(1) or np.zeros((96, 192)))
    found = archive.require(fields, list(CONTRASTS)).compute()
    assert len(calls) == 2  # pressure's and warmth's, each for two contrasts
    assert set(found.data_vars) == {*fields.data_vars, *CONTRASTS}


def test_a_contrast_that_does_not_follow_says_what_it_needs(sample):
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc")
    with pytest.raises(ValueError, match=r"no field 'WARMCORE04'.*It can be computed from WARMCORE"):
        archive.require(fields.drop_vars("T200"), ["WARMCORE04"])
    with pytest.raises(ValueError, match=r"no field 'TMQEXCESS1'.*It can be computed from TMQDAMPED"):
        archive.require(fields.drop_vars("TMQ"), ["TMQEXCESS1"])
