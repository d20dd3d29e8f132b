"""Which cells carry unusual vapour: thresholds, percentiles, ridges."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl.climate.mesh import mesh_of
from climlab_dl.climate.river_shapes import regions_of
from climlab_dl.climate.rivers import Above, AbovePercentile, Ridge, damped

LAT, LON = np.arange(-89.5, 90), np.arange(360.0)


def test_merra_blobs_are_counted_once_across_the_dateline(shared):
    # Counts of edge-connected regions without and with wrapping, as published with the file.
    fields = xr.open_dataset(shared / "climate" / "IWV_IVT_MERRA_20170228_00.nc").isel(time=0).load()
    for name, threshold, width, cut, joined in (
        ("IWV", 24, 19, 60, 58),
        ("IWV", 21, 19, 72, 70),
        ("IVT", 250, 10, 86, 82),
    ):
        where = Above(field=name, threshold=threshold, damping=width)
        for wrap, expected in ((False, cut), (True, joined)):
            mesh = mesh_of(fields["lat"], fields["lon"], wrap)
            cells = where.cells({name: fields[name].values}, mesh)
            assert regions_of(cells, mesh, connectivity=4).count == expected


def test_damping_leaves_nothing_at_the_equator_and_half_at_the_half_width():
    # 1 - exp(-lat^2 / 2 s^2) = 1/2 at lat = s sqrt(2 ln 2) = 1.1774 s: for s = 10 degrees at 11.774.
    mesh = mesh_of([0.0, 11.774, 89.0], LON)
    values = damped(np.full((3, 360), 8.0), mesh, 10.0)
    np.testing.assert_allclose(values[:, 0], [0.0, 4.0, 8.0], atol=1e-3)


def test_the_ridge_of_a_plane_wave_has_its_curvature():
    # IVT = 500 cos(k lat) has Laplacian -500 k^2 along its crest at the equator. On a circle of radius r the mean of
    # cos(k r cos a) is J0(k r) (eight points suffice), so 4 (J0(k r) - 1) 500 / r^2; k = 3 a radian, r = 10 degrees.
    lat = np.radians(LAT)
    field = np.broadcast_to(500 * np.cos(3 * lat)[:, None], (180, 360))
    radius = np.radians(10.0)
    series = 1 - (3 * radius) ** 2 / 4 + (3 * radius) ** 4 / 64  # J0
    expected = 4 * (series - 1) * 500 / radius**2
    mesh = mesh_of(LAT, LON)
    near = (np.abs(LAT) < 1)[:, None] & np.ones(360, dtype=bool)
    just_above, just_below = (
        Ridge(laplacian=expected * factor, latitude=0.0).cells({"IVT": field}, mesh) for factor in (0.98, 1.02)
    )
    assert just_above[near].all()
    assert not just_below[near].any()


def test_the_percentile_rule_marks_its_share_of_the_known_cells():
    values = np.random.default_rng(0).normal(size=(180, 360))
    values[:20] = np.nan
    cells = AbovePercentile(percentile=90.0, damping=0.0).cells({"IVT": values}, mesh_of(LAT, LON))
    assert cells.sum() == pytest.approx(0.1 * 160 * 360, abs=2)
    assert not cells[:20].any()
