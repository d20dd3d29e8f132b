"""Shapes with known sizes: boxes, axes, transport along them."""

import numpy as np
import xarray as xr

from climlab_dl.climate import heuristics
from climlab_dl.climate.heuristics import Rivers
from climlab_dl.climate.mesh import mesh_of
from climlab_dl.climate.river_shapes import AxisShape, boxes, principal_axis, regions_of

LAT, LON = np.arange(-89.5, 90), np.arange(360.0)
GLOBE = {"lat": LAT, "lon": LON}


def moist(at, name="IVT", value=600.0):
    return xr.Dataset({name: (("lat", "lon"), np.where(at, value, 10.0).astype("f4"))}, GLOBE)


def test_axis_and_width_of_a_meridional_band():
    # 30 x 4 degrees at 45N: length 30 x 111.19 = 3,336 km, area / length = 4 cos(45) x 111.19 = 314 km.
    band = (np.abs(LAT[:, None] - 45) < 15) & (np.abs(LON[None] - 100.5) < 2)
    mesh = mesh_of(LAT, LON)
    regions = regions_of(band, mesh, 8)

    def kept(shape):
        return bool(shape.keep(regions, {})[0])

    assert [kept(AxisShape(length=km)) for km in (3200.0, 3600.0)] == [True, False]
    assert [kept(AxisShape(width=km)) for km in (340.0, 290.0)] == [True, False]
    assert [kept(AxisShape(ratio=ratio)) for ratio in (9.5, 12.0)] == [True, False]
    assert [kept(AxisShape(area=km2)) for km2 in (1.0e6, 1.1e6)] == [True, False]


def test_boxes_are_the_shortest_arc_on_a_globe_that_wraps():
    cells = np.zeros((180, 360), dtype=bool)
    cells[100, np.arange(-5, 11)] = True  # 16 columns from 355 to 10
    cells[[50, 51, 51], [20, 20, 21]] = True
    mesh, cut = mesh_of(LAT, LON), mesh_of(LAT, LON, wrap=False)
    south, north, arc = boxes(regions_of(cells, mesh, 4))
    np.testing.assert_allclose(arc, [1.0, 15.0])
    np.testing.assert_allclose([south, north], [[-39.5, 10.5], [-38.5, 10.5]])
    np.testing.assert_allclose(boxes(regions_of(cells, cut, 4))[2], [1.0, 10.0, 4.0])


def test_the_principal_axis_of_a_diagonal_across_longitude_zero():
    steps = np.linspace(-5, 5, 21)
    axis = principal_axis(steps, steps % 360, np.ones(21))
    np.testing.assert_allclose(np.abs(axis), np.sqrt(0.5), atol=0.01)
    assert axis[0] * axis[1] > 0


def test_guan_waliser_wants_transport_poleward_along_the_axis():
    # A band from 25N to 50N, 45 degrees steep; the transport along it, against it, across it, and disordered.
    steep = (np.abs(LAT[:, None] - 37 - (LON[None] - 100)) < 3) & (np.abs(LAT[:, None] - 37) < 13)
    fields = moist(steep)
    limit = xr.full_like(fields["IVT"], 85.0)
    disorder = np.random.default_rng(0).uniform(0, 2 * np.pi, steep.shape)

    def found(angle):
        carried = fields.assign(TUQ=fields["IVT"] * np.cos(angle), TVQ=fields["IVT"] * np.sin(angle))
        return bool((heuristics.label(carried, cyclones=None, rivers=Rivers.guan_waliser(limit)) == 2).any())

    assert found(np.pi / 4)
    assert not found(np.pi / 4 + np.pi)
    assert not found(3 * np.pi / 4)
    assert not found(disorder)
