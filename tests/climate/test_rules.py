"""Published criteria on real analyses, and shapes with known sizes."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.climate import heuristics, synthetic
from climlab_dl.climate.heuristics import Cyclones, Ensemble, Rivers
from climlab_dl.climate.mesh import mesh_of
from climlab_dl.climate.river_shapes import AxisShape, boxes, principal_axis, regions_of
from climlab_dl.climate.rivers import Above, AbovePercentile, Ridge, damped

LAT, LON = np.arange(-89.5, 90), np.arange(360.0)
GLOBE = {"lat": LAT, "lon": LON}


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


@pytest.mark.parametrize("spacing", [0.5, 1.0, 2.5])
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


def test_the_river_of_2011_01_15_is_found_by_every_kind_of_rule(shared):
    fields = gfs(shared, "20110115")
    box = {"lat": slice(45, 22), "lon": slice(190, 225)}
    core = fields["IVT"].isel(time=0).sel(box) > 800
    assert core.sum() > 10
    for rule in (Rivers.kurth(24.0), Rivers.ivt(), Rivers.tempest()):
        river = heuristics.label(fields, cyclones=None, rivers=rule).isel(time=0).sel(box) == 2
        assert (river & core).sum() >= 0.8 * core.sum(), rule
    assert heuristics.river_probability(fields).isel(time=0).sel(box).where(core).mean() > 0.5


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


def test_a_limit_of_another_grid_is_refused():
    fields = moist(np.zeros((180, 360), dtype=bool)).assign(TUQ=0.0, TVQ=0.0)
    fields = fields.assign(TUQ=fields["IVT"], TVQ=fields["IVT"])
    limit = xr.DataArray(np.zeros((3, 4)), {"lat": [-60.0, 0, 60], "lon": [0.0, 90, 180, 270]}, ("lat", "lon"))
    with pytest.raises(ValueError, match="does not have the fields' grid"):
        heuristics.label(fields, cyclones=None, rivers=Rivers.guan_waliser(limit))


def test_local_percentile_in_bands_is_the_percentile_over_time():
    rng = np.random.default_rng(0)
    values = xr.DataArray(rng.gamma(2, 100, (40, 12, 24)), dims=("time", "lat", "lon")).chunk(time=1)
    expected = np.percentile(values.values, 85, axis=0)
    for memory in (1e9, 40 * 24 * 8 * 5, 1.0):  # all rows, five rows, one row at a time
        np.testing.assert_allclose(heuristics.local_percentile(values, 85, memory=memory), expected)


def test_the_percentile_rule_marks_its_share_of_the_known_cells():
    values = np.random.default_rng(0).normal(size=(180, 360))
    values[:20] = np.nan
    cells = AbovePercentile(percentile=90.0, damping=0.0).cells({"IVT": values}, mesh_of(LAT, LON))
    assert cells.sum() == pytest.approx(0.1 * 160 * 360, abs=2)
    assert not cells[:20].any()


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
