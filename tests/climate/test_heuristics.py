"""Cyclones and rivers by rule, on planted storms, on real analyses and under the symmetries of the sphere."""

import logging
import threading

import dask.config
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from dask.callbacks import Callback
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.climate import archive, heuristics, sphere, synthetic
from climlab_dl.climate.heuristics import Cyclones


@pytest.fixture(scope="module")
def planted() -> xr.Dataset:
    return synthetic.atmosphere(times=2, shape=(90, 180), seed=5).load()


def gfs(shared, date):
    return xr.open_dataset(next((shared / "climate").glob(f"gfs_*{date}*.nc"))).load()


def overlap(found, truth):
    return float((found & truth).sum() / (found | truth).sum())


def test_every_planted_cyclone_is_found_within_a_cell(planted):
    snapshot = planted.isel(time=0)
    regions, count = sphere.connected(snapshot["mask"].values == 1)
    found = heuristics.cyclone_candidates(snapshot, Cyclones.kurth())
    found = found.loc[found["has_warm_core"]]
    assert len(found) == count == 5
    for lat, lon in found[["lat", "lon"]].values:
        region = regions == regions[np.abs(snapshot.lat.values - lat).argmin(), int(lon / 2)]
        lats, lons = np.nonzero(region)
        middle = sphere.centroid(snapshot.lat.values[lats], snapshot.lon.values[lons])
        assert sphere.great_circle_km(*middle, lat, lon) < 250  # a cell is 222 km


def test_masks_overlap_the_planted_storms_and_nothing_else(planted):
    mask = heuristics.label(planted)
    for value in (1, 2):
        found, truth = mask == value, planted["mask"] == value
        assert overlap(found, truth) > 0.4
        # Every event found touches a planted one, and the other way round.
        for a, b in ((found, truth), (truth, found)):
            regions, count = sphere.connected(a.values[0])
            assert set(np.unique(regions[b.values[0]])) - {0} == set(range(1, count + 1))


def test_the_mask_has_cf_flags_and_the_fields_coordinates(planted):
    mask = heuristics.label(planted)
    assert mask.name == "mask"
    assert mask.dtype == np.int8
    assert mask.dims == ("time", "lat", "lon")
    assert mask.attrs["flag_meanings"] == "background cyclone river"
    np.testing.assert_array_equal(mask.attrs["flag_values"], [0, 1, 2])
    xr.testing.assert_equal(mask.coords.to_dataset(), planted.coords.to_dataset())


def test_a_lazy_archive_gives_the_same_mask_lazily(planted):
    lazy = heuristics.label(planted.chunk(time=1))
    assert lazy.chunks is not None
    xr.testing.assert_identical(lazy.compute(), heuristics.label(planted))


def test_chunks_that_cut_a_snapshot_are_joined(planted):
    tiles = planted.chunk(time=2, lat=30, lon=50)
    xr.testing.assert_equal(heuristics.label(tiles).compute(), heuristics.label(planted))
    mixed = planted.chunk(time=1).assign(TMQ=planted["TMQ"])  # one field in memory, the others not
    xr.testing.assert_equal(heuristics.label(mixed).compute(), heuristics.label(planted))


def test_candidates_of_a_lazy_archive_are_the_same(planted: xr.Dataset):
    calm = (planted.isel(time=[1]) * 0).assign_coords(time=planted.time[1:] + np.timedelta64(6, "h"))
    quiet = xr.concat([planted, calm], "time")
    for rule in (Cyclones.teca(1.0), Cyclones.tempest()):
        found = heuristics.cyclone_candidates(quiet, rule)
        assert set(found["time"]) == set(planted["time"].values)
        pd.testing.assert_frame_equal(heuristics.cyclone_candidates(quiet.chunk(time=1), rule), found)
        none = heuristics.cyclone_candidates(quiet.isel(time=[2]), rule)
        assert len(none) == 0
        assert list(none.columns) == list(found.columns)


def test_a_single_snapshot_needs_no_time(planted):
    whole = heuristics.label(planted)
    xr.testing.assert_equal(heuristics.label(planted.isel(time=1)), whole.isel(time=1))
    assert len(heuristics.cyclone_candidates(planted.isel(time=1, drop=True))) == 5


def test_snapshots_in_another_order_or_in_pieces_give_the_same_masks(planted):
    mask = heuristics.label(planted)
    xr.testing.assert_equal(heuristics.label(planted.isel(time=[1, 0])), mask.isel(time=[1, 0]))
    pieces = [heuristics.label(planted.isel(time=[i])) for i in (0, 1)]
    xr.testing.assert_equal(xr.concat(pieces, "time"), mask)


def test_the_calendar_changes_no_mask_and_the_candidates_keep_its_dates(planted):
    noleap = planted.convert_calendar("noleap")
    np.testing.assert_array_equal(heuristics.label(noleap), heuristics.label(planted))
    found = heuristics.cyclone_candidates(noleap)
    assert found["time"].iloc[0] == noleap["time"].values[0]
    marked = heuristics.label(noleap, centres=found.loc[found["has_warm_core"]])
    np.testing.assert_array_equal(marked, heuristics.label(noleap))


def test_runs_are_labelled_together_but_tracked_one_by_one(planted: xr.Dataset):
    runs = xr.concat([planted, planted.isel(lon=slice(None, None, -1)).assign_coords(lon=planted.lon)], "run")
    mask = heuristics.label(runs.chunk(run=1, time=1))
    assert mask.dims == ("run", "time", "lat", "lon")
    np.testing.assert_array_equal(mask.isel(run=0), heuristics.label(planted))
    with pytest.raises(ValueError, match=r"take fields.isel\(run=0\)"):
        heuristics.cyclone_candidates(runs)


@given(st.integers(1, 179))
def test_rolling_in_longitude_rolls_the_mask(planted, turn):
    snapshot = planted.isel(time=0)
    rolled = snapshot.roll(lon=turn).assign_coords(lon=snapshot.lon)
    expected = heuristics.label(snapshot).roll(lon=turn)
    np.testing.assert_array_equal(heuristics.label(rolled), expected)


def test_descending_latitude_gives_the_same_mask(planted):
    flipped = heuristics.label(planted.isel(lat=slice(None, None, -1)))
    np.testing.assert_array_equal(flipped.isel(lat=slice(None, None, -1)), heuristics.label(planted))


def test_longitudes_from_minus_180_give_the_same_mask(planted):
    west = planted.assign_coords(lon=(planted.lon + 180) % 360 - 180).sortby("lon")
    found = heuristics.label(west)
    back = found.assign_coords(lon=found.lon % 360).sortby("lon")
    np.testing.assert_array_equal(back, heuristics.label(planted))


def test_the_mirrored_planet_has_the_mirrored_cyclones(planted):
    # Exchange the hemispheres: meridional wind changes sign, cyclonic stays cyclonic.
    snapshot = planted.isel(time=0)
    mirrored = snapshot.isel(lat=slice(None, None, -1)).assign_coords(lat=snapshot.lat)
    for name in ("V850", "VBOT"):
        mirrored[name] = -mirrored[name]
    here, there = heuristics.cyclone_candidates(snapshot), heuristics.cyclone_candidates(mirrored)
    there = there.assign(lat=-there.lat).sort_values(["lat", "lon"], ignore_index=True)
    np.testing.assert_allclose(there[["lat", "lon", "psl"]], here[["lat", "lon", "psl"]])
    np.testing.assert_allclose(there["vorticity"], here["vorticity"], rtol=1e-5)


def moist(at: np.ndarray) -> xr.Dataset:
    """A dry planet of one degree with 40 kg/m2 where ``at``."""
    coords = {"lat": np.arange(-89.5, 90), "lon": np.arange(360.0)}
    return xr.Dataset({"TMQ": (("lat", "lon"), np.where(at, 40.0, 1.0))}, coords)


def test_without_wrapping_the_seam_cuts_a_river():
    # A diagonal band of 20 x 20 degrees at 45N has a box with a diagonal of about 2,650 km; cut at longitude 0 each
    # half's is about 1,330 km, below the 1,500 km that a river needs.
    lat, lon = np.arange(-89.5, 90)[:, None], (np.arange(360.0)[None] + 180) % 360 - 180
    band = (np.abs(lat - 45 - lon) <= 2) & (np.abs(lat - 45) <= 10)
    assert (heuristics.label(moist(band)) == 2).sum() == band.sum()
    assert (heuristics.label(moist(band), wrap=False) == 2).sum() == 0


def test_a_river_is_long_and_narrow():
    # Same area per degree of latitude, 222 km x cos(45): narrow. A square of 20 degrees: 1,572 km wide, no river.
    # A strip along the parallel, 2 x 40 degrees: area / height = 3,145 km, no river either. A short one: 1,111 km.
    lat, lon = np.arange(-89.5, 90)[:, None], np.arange(360.0)[None]
    box = (np.abs(lat - 45) <= 10) & (np.abs(lon - 100) <= 1)
    square = (np.abs(lat - 45) <= 10) & (np.abs(lon - 100) <= 10)
    strip = (np.abs(lat - 45) <= 1) & (np.abs(lon - 100) <= 20)
    short = (np.abs(lat - 45) <= 5) & (np.abs(lon - 100) <= 1)
    rivers = [bool((heuristics.label(moist(at)) == 2).any()) for at in (box, square, strip, short)]
    assert rivers == [True, False, False, False]


def test_rivers_do_not_cross_the_poles():
    # Bands of 8 degrees that end at the north pole on opposite meridians: joined they would be long enough.
    lat, lon = np.arange(-89.5, 90)[:, None], np.arange(360.0)[None]
    bands = (lat > 81) & ((np.abs(lon - 90) <= 1) | (np.abs(lon - 270) <= 1))
    assert not (heuristics.label(moist(bands)) == 2).any()


def test_unknown_values_are_no_storm(planted):
    hole = planted.isel(time=0).copy(deep=True)
    for name in hole.data_vars:
        if name != "mask":
            hole[name][20:30, 60:100] = np.nan
    mask = heuristics.label(hole)
    assert (mask[20:30, 60:100] == 0).all()
    np.testing.assert_array_equal(mask[60:], heuristics.label(planted.isel(time=0))[60:])


def test_a_missing_field_leaves_its_class_out_with_a_warning(planted, caplog):
    with caplog.at_level(logging.WARNING):
        mask = heuristics.label(planted[["TMQ"]])
    assert set(np.unique(mask)) == {0, 2}
    assert "cyclones are left out" in caplog.text
    assert "PSL" in caplog.text
    assert mask.attrs["flag_meanings"] == "background river"
    assert mask.attrs["flag_values"].tolist() == [0, 2]
    with pytest.raises(ValueError, match="no rule can be applied"):
        heuristics.label(planted[["TS"]])


def test_a_field_of_another_name_is_suggested(planted):
    with pytest.raises(ValueError, match=r"no field 'TMQ' \(found: TMQQ\)"):
        heuristics.label(planted[["TMQ"]].rename(TMQ="TMQQ"))
    with pytest.raises(ValueError, match=r"for IVT alone there is Rivers\.ivt\(\), in the shell --rivers ivt"):
        heuristics.label(planted[["TMQ"]].rename(TMQ="IVT"))


def test_a_snapshot_without_a_number_is_named_when_it_is_labelled(planted, caplog):
    blank = planted.assign(PSL=planted.PSL.where(planted.time != planted.time[1]))
    mask = heuristics.label(blank)
    assert [record.getMessage() for record in caplog.records] == [
        f"no cyclones are marked at {planted.time.values[1]}: PSL has no number there"
    ]
    assert not (mask[1] == 1).any()
    assert (mask[0] == 1).any()


@pytest.mark.parametrize("name", ["TMQ", "PSL", "U850", "T200"])
def test_no_class_is_found_where_a_field_that_it_needs_has_no_value(planted, name):
    # ClimateGlobalChange/tempestextremes#92, LBL-EESA/TECA#652: gaps are not skipped.
    mask = heuristics.label(planted)
    gap = mask == 1
    if name == "TMQ":
        gap = mask > 0
    assert gap.any()
    again = heuristics.label(planted.assign({name: planted[name].where(~gap)}))
    assert not (again.where(gap, 0) == 1).any()
    if name == "TMQ":
        assert not (again.where(gap, 0) == 2).any()


def test_fields_without_axes_are_refused(planted):
    with pytest.raises(ValueError, match="no axis 'lat' of their own"):
        heuristics.label(planted.rename(lat="latitude"))
    timeless, centres = planted.isel(time=0, drop=True), heuristics.cyclone_candidates(planted)
    with pytest.raises(ValueError, match="the fields have none"):
        heuristics.label(timeless, centres=centres)


@pytest.mark.slow
def test_worker_processes_give_the_same_mask(planted):
    with dask.config.set(scheduler="processes", num_workers=2):
        mask = heuristics.label(planted.chunk(time=1)).compute()
    xr.testing.assert_identical(mask, heuristics.label(planted))


def test_no_more_snapshots_are_read_than_there_are_workers(planted):
    # Every read is counted until its mask is done: two workers hold two snapshots at most.
    alive, most, lock = 0, 0, threading.Lock()

    def read(block):
        nonlocal alive, most
        with lock:
            alive += 1
            most = max(most, alive)
        return block + 0

    class Done(Callback):
        def _posttask(self, key, result, dsk, state, worker_id):
            nonlocal alive
            if getattr(result, "dtype", None) == np.int8:
                with lock:
                    alive -= 1

    long = xr.concat([planted[["TMQ"]].isel(time=0)] * 20, "time").chunk(time=1)
    counted = xr.Dataset({"TMQ": (long["TMQ"].dims, long["TMQ"].data.map_blocks(read, dtype="f4"))}, long.coords)
    with Done(), dask.config.set(scheduler="threads", num_workers=2):
        heuristics.label(counted, cyclones=None).compute()
    assert 1 <= most <= 3


def test_a_threshold_without_meaning_is_refused():
    with pytest.raises(ValueError, match="vorticity=0 must be positive"):
        heuristics.VorticityCriteria(vorticity=0)


def test_both_hurricanes_of_2011_10_11_are_cyclones(shared):
    # Jova (17.5N 255E) and Irwin (17.5N 242.5E), both on grid points of the 2.5 degree forecast.
    mask = heuristics.label(gfs(shared, "20111011")).isel(time=0)
    for lon in (255.0, 242.5):
        assert (mask.sel(lat=slice(22.5, 12.5), lon=slice(lon - 5, lon + 5)) == 1).any()


def test_the_sample_archive_shows_both_classes_in_most_snapshots(sample):
    mask = heuristics.label(archive.open(sample).isel(time=slice(None, None, 3))).compute()
    for value, share in ((1, 0.8), (2, 1.0)):
        assert (mask == value).any(["lat", "lon"]).mean() >= share
    # Area of rivers: the rule marks 0.7-0.9 % of this globe on average.
    weights = np.cos(np.radians(mask.lat))
    assert 0.005 < float((mask == 2).weighted(weights).mean()) < 0.012
