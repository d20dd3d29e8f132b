"""What stands out from a threshold or from its surroundings."""

import numpy as np
import pytest

from climlab_dl.climate import archive, derived, heuristics
from climlab_dl.climate.contrasts import CONTRASTS, WINDOW, surroundings
from climlab_dl.climate.fields import FIELDS
from climlab_dl.climate.mesh import mesh_of
from climlab_dl.climate.rivers import Above

LAT, LON = np.linspace(-88.5, 88.5, 60), np.arange(0, 360, 3.0)
MESH = mesh_of(LAT, LON)


def test_every_contrast_is_a_field_within_one_of_zero(sample):
    fields = archive.require(archive.open(sample / "gcm_t63_2001-08-14T06.nc"), list(CONTRASTS)).isel(time=0)
    for name in CONTRASTS:
        assert FIELDS[name].unit == fields[name].attrs["units"] == "1"
        assert fields[name].dtype == np.float32
        assert 0.5 < np.abs(fields[name]).max() <= 1


def test_the_excess_of_vapour_changes_sign_where_the_river_rule_decides(sample):
    fields = archive.require(archive.open(sample / "gcm_t63_2001-08-14T06.nc"), ["TMQEXCESS1", "TMQEXCESS5"])
    rule = heuristics.Rivers.kurth().where
    assert isinstance(rule, Above)
    snapshot = fields.isel(time=0)
    mesh = mesh_of(fields.lat.values, fields.lon.values)
    for name in ("TMQEXCESS1", "TMQEXCESS5"):
        np.testing.assert_array_equal(snapshot[name].values > 0, rule.cells({"TMQ": snapshot.TMQ.values}, mesh))
    excess = derived.damped(snapshot.TMQ) - 21
    np.testing.assert_allclose(snapshot.TMQEXCESS5, np.tanh(excess / 5), atol=1e-5)


def test_a_dip_of_one_hectopascal_in_a_field_of_a_thousand_is_seen():
    pressure = np.full((60, 120), 1e5, np.float32)
    pressure[30, 0] -= 100
    seen = CONTRASTS["PSLDIP1"](MESH, pressure)
    # A box of 9 degrees holds 3 x 3 cells of 3 degrees: the dip stands 100 - 100 / 9 Pa below its mean.
    assert seen[30, 0] == pytest.approx(-np.tanh(8 / 9), abs=1e-3)
    assert seen[30, -1] == seen[30, 1] == pytest.approx(np.tanh(1 / 9), abs=1e-3)
    assert np.abs(seen).sum() == pytest.approx(np.tanh(8 / 9) + 8 * np.tanh(1 / 9), abs=1e-2)


def test_the_surroundings_follow_a_turn_and_a_mirror_and_leave_a_plane_of_latitudes_alone():
    field = np.random.default_rng(0).normal(size=(60, 120))
    found = surroundings(field, MESH)
    np.testing.assert_allclose(surroundings(np.roll(field, 17, 1), MESH), np.roll(found, 17, 1))
    np.testing.assert_allclose(surroundings(field[::-1], MESH), found[::-1])
    rising = np.broadcast_to(LAT[:, None], (60, 120))
    np.testing.assert_allclose(surroundings(rising, MESH)[2:-2], rising[2:-2])


def test_a_gap_leaves_what_is_known_around_it():
    field = np.full((60, 120), 7.0, np.float32)
    field[20:40, 50:60] = np.nan
    found = surroundings(field, MESH)
    np.testing.assert_allclose(found[~np.isnan(field)], 7.0)
    np.testing.assert_array_equal(np.isnan(CONTRASTS["PSLDIP5"](MESH, field)), np.isnan(field))


def test_the_box_is_as_wide_in_degrees_on_a_finer_grid():
    fine = mesh_of(np.linspace(-89.875, 89.875, 720), np.arange(0, 360, 0.25))
    field = np.zeros((720, 1440))
    field[360, 700] = 1.0
    rows, columns = np.nonzero(surroundings(field, fine) > 1e-9)
    assert np.ptp(rows) * 0.25 == np.ptp(columns) * 0.25 == WINDOW


def test_a_contrast_that_does_not_follow_says_what_it_needs(sample):
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc")
    with pytest.raises(ValueError, match=r"no field 'WARMCORE1'.*It can be computed from T200 and T500"):
        archive.require(fields.drop_vars("T200"), ["WARMCORE1"])
    with pytest.raises(ValueError, match=r"no field 'TMQEXCESS1'.*It can be computed from TMQDAMPED"):
        archive.require(fields.drop_vars("TMQ"), ["TMQEXCESS1"])
