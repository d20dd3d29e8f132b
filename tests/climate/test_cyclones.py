"""Cyclone criteria on real analyses, planted storms and formulas."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl.climate import heuristics, synthetic
from climlab_dl.climate.heuristics import Cyclones
from climlab_dl.climate.mesh import mesh_of

LAT, LON = np.arange(-89.5, 90), np.arange(360.0)


def gfs(shared, date):
    return xr.open_dataset(next((shared / "climate").glob(f"gfs_*{date}*.nc"))).load()


@pytest.mark.parametrize("rule", [Cyclones.teca(2.5), Cyclones.tempest()], ids=["teca", "tempest"])
def test_jova_and_irwin_are_found_and_at_most_one_more_in_the_tropics(shared, rule):
    # Jova 17.5N 255E 990 hPa, Irwin 17.5N 242.5E 996 hPa; TECA's criteria also list 10N 130E, which became tropical
    # storm Banyan, without its flags.
    found = heuristics.cyclone_candidates(gfs(shared, "20111011"), rule)
    tropics = found[found["lat"].abs() <= 30]
    assert len(tropics) <= 3
    flagged = tropics.loc[tropics["has_warm_core"] & tropics["has_thickness"]]
    assert flagged[["lat", "lon"]].values.tolist() == [[17.5, 242.5], [17.5, 255.0]]
    np.testing.assert_allclose(flagged["psl"], [99615, 99015], atol=1)
    assert flagged["wind"].min() > 17


@pytest.mark.parametrize("rule", [Cyclones.teca(2.5), Cyclones.tempest()], ids=["teca", "tempest"])
@pytest.mark.parametrize("turn", [1, 43, 100])
def test_hurricanes_are_found_wherever_the_seam_lies_and_whichever_way_is_north(shared, rule, turn):
    fields = gfs(shared, "20111011").isel(time=0)
    expected = heuristics.cyclone_candidates(fields, rule)
    turned = fields.roll(lon=turn).assign_coords(lon=fields.lon).sortby("lat")
    found = heuristics.cyclone_candidates(turned, rule)
    found["lon"] = (found["lon"] - turn * 2.5) % 360
    found = found.sort_values(["lat", "lon"], ignore_index=True)
    pd.testing.assert_frame_equal(found, expected, check_exact=False, rtol=1e-4, atol=1e-9)


def test_a_storm_at_the_dateline_sees_the_wind_on_the_other_side():
    # Longitudes -180..179 with a storm centred at 179: its strongest wind lies at -179, two columns over the seam.
    made = synthetic.atmosphere(times=1, shape=(180, 360), seed=5).isel(time=0).load()
    turn = 179 - 1  # the first planted cyclone is centred at longitude 1
    west = made.roll(lon=turn).assign_coords(lon=LON).assign_coords(lon=(LON + 180) % 360 - 180).sortby("lon")
    here = heuristics.cyclone_candidates(made).sort_values(["lat", "psl"], ignore_index=True)
    there = heuristics.cyclone_candidates(west).sort_values(["lat", "psl"], ignore_index=True)
    assert 179 in there["lon"].to_numpy()
    columns = ["lat", "psl", "wind", "vorticity", "warm_core", "thickness"]
    np.testing.assert_allclose(there[columns], here[columns], rtol=1e-5)


@pytest.mark.parametrize("spacing", [pytest.param(0.25, marks=pytest.mark.slow), 0.5, 1.0, 2.5])
@pytest.mark.parametrize("preset", ["teca", "tempest"])
def test_planted_storms_satisfy_the_preset_of_their_grid(spacing, preset):
    made = synthetic.atmosphere(times=1, shape=(round(180 / spacing), round(360 / spacing)), seed=2).isel(time=0)
    rule = Cyclones.teca(spacing) if preset == "teca" else Cyclones.tempest()
    found = heuristics.cyclone_candidates(made, rule)
    found = found[found["has_warm_core"] & found["has_thickness"]]
    truth = made["mask"].values == 1
    rows = np.abs(made.lat.values[:, None] - np.array(found["lat"])).argmin(axis=0)
    columns = (np.array(found["lon"]) / spacing).round().astype(int)
    assert len(found) == 5
    assert truth[rows, columns].all()


def test_an_open_contour_is_no_cyclone():
    # Pressure that falls westward everywhere: no contour closes.
    fields = synthetic.atmosphere(times=1, shape=(90, 180), seed=2).isel(time=0).load()
    closed = heuristics.cyclone_candidates(fields, Cyclones.tempest())
    region = fields.sel(lon=slice(100, 200))
    assert len(closed) == 5
    steep = region.assign(PSL=region["PSL"] * 0 + 1e5 + 100 * region["lon"])
    assert heuristics.cyclone_candidates(steep, Cyclones.tempest()).empty


def test_the_thickness_layer_does_not_change_which_storms_are_warm():
    # Z300 - Z500 and Z200 - Z500 of the same warming as Z200 - Z1000: 6 m of the first are 0.40 K of each.
    fields = synthetic.atmosphere(times=1, shape=(90, 180), seed=2).isel(time=0).load()
    kelvin = (fields["Z200"] - fields["Z1000"]) / (29.27 * np.log(5))
    upper = fields.assign(Z500=5500 + 0 * kelvin, Z300=5500 + 29.27 * np.log(5 / 3) * kelvin)
    expected = heuristics.cyclone_candidates(fields, Cyclones.tempest())
    found = heuristics.cyclone_candidates(upper, Cyclones.tempest())
    np.testing.assert_array_equal(found[["lat", "lon"]], expected[["lat", "lon"]])
    with pytest.raises(ValueError, match="needs Z300, Z500"):
        heuristics.cyclone_candidates(fields.drop_vars("Z1000"), Cyclones.tempest())


def test_a_rule_for_another_grid_is_refused_and_the_right_one_named(shared):
    # Irwin's vorticity on this grid of 2.5 degrees is 1.0e-4 1/s: the preset for 0.25 degrees (1.6e-4) would miss it.
    fields = gfs(shared, "20111011")
    message = r"for a grid of 0\.25 degrees, and the fields have 2\.5, .*here the same as Cyclones\.teca\(2\.5\)"
    for rule in (Cyclones.teca(), Cyclones()):
        with pytest.raises(ValueError, match=message):
            heuristics.label(fields, cyclones=rule)
        with pytest.raises(ValueError, match=message):
            heuristics.cyclone_candidates(fields, rule)
    assert Cyclones.teca_for(fields) == Cyclones.teca(2.5)
    own = Cyclones(centres=heuristics.VorticityCriteria(vorticity=5e-5, pressure_rise=300.0, spacing=None))
    assert heuristics.label(fields, cyclones=own).equals(heuristics.label(fields, cyclones=Cyclones.teca_for(fields)))


@pytest.mark.parametrize(("step", "preset", "how_many"), [(6.0, 2.5, "fewer"), (0.1, 0.25, "more")])
def test_a_grid_beyond_all_presets_takes_the_nearest_with_a_notice(step, preset, how_many, caplog):
    lat = np.arange(-1, 2) * step
    fields = xr.Dataset(coords={"lat": lat, "lon": lat + 10})
    rule = Cyclones.teca_for(fields)
    assert rule == Cyclones.teca(preset)
    rule.refuse_other_grids(mesh_of(lat, lat + 10))
    assert f"finds {how_many} centres than it should" in caplog.text
