"""Presets as a whole: on real analyses, by season, under rotation, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.climate import heuristics
from climlab_dl.climate.heuristics import Cyclones, Ensemble, Rivers
from climlab_dl.climate.mesh import mesh_of
from climlab_dl.climate.rivers import Ridge

LAT, LON = np.arange(-89.5, 90), np.arange(360.0)
GLOBE = {"lat": LAT, "lon": LON}


def gfs(shared, date):
    return xr.open_dataset(next((shared / "climate").glob(f"gfs_*{date}*.nc"))).load()


def moist(at, name="IVT", value=600.0):
    return xr.Dataset({name: (("lat", "lon"), np.where(at, value, 10.0).astype("f4"))}, GLOBE)


def test_the_river_of_2011_01_15_is_found_by_every_kind_of_rule(shared):
    fields = gfs(shared, "20110115")
    box = {"lat": slice(45, 22), "lon": slice(190, 225)}
    core = fields["IVT"].isel(time=0).sel(box) > 800
    assert core.sum() > 10
    for rule in (Rivers.kurth(24.0), Rivers.ivt(), Rivers.tempest()):
        river = heuristics.label(fields, cyclones=None, rivers=rule).isel(time=0).sel(box) == 2
        assert (river & core).sum() >= 0.8 * core.sum(), rule
    assert heuristics.river_probability(fields).isel(time=0).sel(box).where(core).mean() > 0.5


def test_ridges_near_cyclones_are_no_rivers_of_tempest():
    # A band of transport along 40N; a cyclone at 40N 100E cuts out 8 degrees to either side of it.
    ivt = 600 * np.exp(-(((LAT[:, None] - 40) / 4) ** 2)) * np.ones((1, 360))
    rule = Rivers.tempest()
    mesh = mesh_of(LAT, LON)
    centres = pd.DataFrame({"lat": [40.0], "lon": [100.0]})
    free = rule.find(centres.iloc[:0], {"IVT": ivt}, mesh)
    cut = rule.find(centres, {"IVT": ivt}, mesh)
    lost = np.flatnonzero((free & ~cut)[129])  # row at 39.5N
    # 8 degrees on the sphere are arcsin(sin 8 / cos 39.5) = 10.4 degrees of longitude.
    assert (lost.min(), lost.max()) == (90, 110)


def test_guan_waliser_goes_by_season():
    # Twenty quiet days and one with a band in January, and likewise in July, where the quiet is 400 kg/m/s: the same
    # band of 300 is a river in January only.
    steep = (np.abs(LAT[:, None] - 37 - (LON[None] - 100)) < 3) & (np.abs(LAT[:, None] - 37) < 13)
    quiet = np.concatenate([np.full(21, 50.0), np.full(21, 400.0)])[:, None, None] * np.ones((1, 180, 360), dtype="f4")
    quiet[[20, 41]] = np.where(steep, 300.0, quiet[[20, 41]])
    time = np.concatenate([np.datetime64(start) + np.arange(21) for start in ("2001-01-01", "2001-07-01")])
    ivt = xr.DataArray(quiet.astype("f4"), {"time": time.astype("M8[ns]"), **GLOBE}, ("time", "lat", "lon"))
    fields = xr.Dataset({"IVT": ivt, "TUQ": ivt / np.sqrt(2), "TVQ": ivt / np.sqrt(2)}).chunk(time=1)

    def mark(season):
        limit = heuristics.local_percentile(season["IVT"], 85)
        return heuristics.label(season, cyclones=None, rivers=Rivers.guan_waliser(limit)).to_dataset()

    mask = fields.groupby("time.season").map(mark)["mask"].compute()
    assert np.flatnonzero((mask == 2).any(["lat", "lon"])).tolist() == [20]


def test_a_limit_of_another_grid_is_refused():
    fields = moist(np.zeros((180, 360), dtype=bool)).assign(TUQ=0.0, TVQ=0.0)
    fields = fields.assign(TUQ=fields["IVT"], TVQ=fields["IVT"])
    limit = xr.DataArray(np.zeros((3, 4)), {"lat": [-60.0, 0, 60], "lon": [0.0, 90, 180, 270]}, ("lat", "lon"))
    with pytest.raises(ValueError, match="does not have the fields' grid"):
        heuristics.label(fields, cyclones=None, rivers=Rivers.guan_waliser(limit))


def test_local_percentile_in_bands_is_the_percentile_over_time():
    rng = np.random.default_rng(0)
    drawn = rng.gamma(2, 100, (40, 12, 24))
    expected = np.percentile(drawn, 85, axis=0)
    # Unknown for a while at one place, always at another.
    drawn[5:20, 3, 4] = drawn[:, 7, 7] = np.nan
    expected[3, 4], expected[7, 7] = np.percentile(np.delete(drawn[:, 3, 4], range(5, 20)), 85), np.nan
    values = xr.DataArray(drawn, dims=("time", "lat", "lon")).chunk(time=1)
    for memory in (1e9, 40 * 24 * 8 * 5, 1.0):  # all rows, five rows, one row at a time
        np.testing.assert_allclose(heuristics.local_percentile(values, 85, memory=memory), expected)


@given(st.integers(1, 143))
def test_river_rules_turn_with_the_globe(shared, turn):
    fields = gfs(shared, "20110115").isel(time=0)
    turned = fields.roll(lon=turn).assign_coords(lon=fields.lon)
    for rule in (Rivers.kurth(24.0), Rivers.tempest()):
        expected = heuristics.label(fields, cyclones=None, rivers=rule).roll(lon=turn)
        np.testing.assert_array_equal(heuristics.label(turned, cyclones=None, rivers=rule), expected)


def test_presets_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match=r"presets for \[0.25, 0.5, 1.0, 2.5\] degrees"):
        Cyclones.teca(0.7)
    with pytest.raises(ValueError, match="there are has_warm_core, has_thickness"):
        Cyclones(flags=("has_eye",))
    with pytest.raises(ValueError, match="least, median and largest"):
        Ensemble(area=(3.0, 2.0, 1.0))
    with pytest.raises(ValueError, match="must be negative"):
        Ridge(laplacian=2e4)


def test_the_default_rule_misses_a_river_that_its_transport_shows(shared):
    # The page on limits says so. Above 21 kg/m2 the region is wider than 1000 km, above 24 it is not.
    fields = gfs(shared, "20110115")
    box = {"lat": slice(45, 22), "lon": slice(190, 225)}
    cells = [
        int((heuristics.label(fields, rivers=rule, cyclones=None).sel(box) == 2).sum())
        for rule in (Rivers.kurth(), Rivers.kurth(24.0), Rivers.ivt())
    ]
    assert cells[0] == 0
    assert min(cells[1:]) >= 30
