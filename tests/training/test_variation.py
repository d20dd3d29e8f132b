"""Snapshots that are moistened at random and labelled anew."""

import numpy as np
import pytest
import torch
import xarray as xr

from climlab_dl.climate import archive, heuristics, synthetic
from climlab_dl.climate.fields import CAM5
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.variation import Variation


@pytest.fixture(scope="module")
def by_rule(tmp_path_factory) -> str:
    """Six synthetic snapshots, labelled by the default rules."""
    fields = synthetic.atmosphere(times=6, shape=(48, 96), seed=1)
    fields["mask"] = heuristics.label(fields.drop_vars("mask"))
    return str(archive.save(fields, tmp_path_factory.mktemp("by_rule") / "labelled.nc"))


def physical(data, values: torch.Tensor, source: str, channels=CAM5) -> xr.Dataset:
    """The fields that a network sees, in SI units again."""
    mean, std = (torch.as_tensor(data.facts[name], dtype=torch.float32)[:, None, None] for name in ("mean", "std"))
    named = {name: (("lat", "lon"), field) for name, field in zip(channels, (values * std + mean).numpy(), strict=True)}
    return xr.Dataset(named, coords=archive.open(source)[["lat", "lon"]].coords)


def test_a_moistened_snapshot_has_the_mask_that_the_rules_give_it(by_rule):
    data = ClimateArchive(source=by_rule, moisture=0.15, mirror=True, roll=False).prepare(seed=0)
    plain = ClimateArchive(source=by_rule, roll=False).prepare(seed=0)
    changed = []
    for epoch in range(1, 5):
        values, mask, _ = data.training[epoch, 2]
        np.testing.assert_array_equal(mask, heuristics.label(physical(data, values, by_rule)))
        before, mask_before, _ = plain.training[1, 2]
        if torch.equal(values[7], before[7]):  # sea level pressure: not mirrored
            assert torch.equal(values[1:], before[1:])
            changed.append((mask != mask_before).any().item())
    assert any(changed)


def test_a_share_of_the_snapshots_keeps_its_own_vapour(by_rule):
    data = ClimateArchive(source=by_rule, moisture=0.15, moistened=0.5, roll=False).prepare(seed=0)
    plain = ClimateArchive(source=by_rule, roll=False).prepare(seed=0)
    kept = 0
    for epoch in range(1, 41):
        (values, mask, _), (before, mask_before, _) = data.training[epoch, 2], plain.training[1, 2]
        if same := torch.allclose(values, before, atol=1e-4):
            assert torch.equal(mask, mask_before)
        kept += same
    assert 10 <= kept <= 30  # of 40 draws of one half: beyond 3 standard deviations
    with pytest.raises(ValueError, match=r"moistened=0 must be a share above 0"):
        ClimateArchive(source=by_rule, moistened=0)


def test_what_follows_from_water_vapour_is_moistened_with_it(by_rule):
    channels = (*CAM5, "TMQDAMPED", "TMQEXCESS5", "PSLRISE40")
    data = ClimateArchive(source=by_rule, channels=channels, moisture=0.15, mirror=True).prepare(seed=0)
    for epoch in range(1, 4):
        found = physical(data, data.training[epoch, 0][0], by_rule, channels)
        anew = archive.require(found[list(CAM5)], channels)
        for name in channels[len(CAM5) :]:
            np.testing.assert_allclose(found[name], anew[name], atol=2e-3)


def test_a_warped_snapshot_has_the_mask_that_the_rules_give_it_and_what_follows_is_computed_anew(by_rule):
    channels = (*CAM5, "VORT850", "ABSLAT", "WARMCORE04")
    data = ClimateArchive(source=by_rule, channels=channels, warp=4.0, roll=False).prepare(seed=0)
    before = ClimateArchive(source=by_rule, channels=channels, roll=False).prepare(seed=0).training[1, 2][0]
    for epoch in range(1, 4):
        values, mask, _ = data.training[epoch, 2]
        found = physical(data, values, by_rule, channels)
        np.testing.assert_array_equal(mask, heuristics.label(found))
        anew = archive.require(found[list(CAM5)], channels)
        np.testing.assert_allclose(found["VORT850"], anew["VORT850"], atol=1e-8)
        np.testing.assert_allclose(found["WARMCORE04"], anew["WARMCORE04"], atol=2e-3)
        np.testing.assert_allclose(found["ABSLAT"], anew["ABSLAT"], atol=1e-4)
        # Values come from nearby: none is beyond what was there, and most are no longer in their place.
        assert (values[:16].amax((1, 2)) <= before[:16].amax((1, 2)) + 1e-3).all()
        assert (values[:16] != before[:16]).float().mean() > 0.7


def test_a_warp_takes_all_fields_from_the_same_place(by_rule):
    fields = archive.open(by_rule)
    twin = fields.assign(TMQ=fields.PSL / 5000)  # water vapour with the pattern of pressure
    vary = Variation(
        channels=("TMQ", "PSL", *[name for name in CAM5 if name not in ("TMQ", "PSL")]),
        mean=np.zeros((16, 1, 1)), std=np.ones((16, 1, 1)), lat=fields.lat.values, lon=fields.lon.values,
        roll=False, mirror=False, warp=5.0, moisture=0.0,
    )  # fmt: skip
    given = np.stack([twin[name].isel(time=0).values for name in vary.channels])
    out = np.empty_like(given)
    vary(given, np.zeros(given.shape[1:], np.int8), np.random.default_rng(3), out)
    np.testing.assert_allclose(out[0], out[1] / 5000, rtol=1e-5)
    assert not np.allclose(out[0], given[0], rtol=1e-3)


def test_water_vapour_is_of_two_copies_times_factors_that_spread_as_asked_and_change_over_degrees():
    lat, lon = np.linspace(-88.125, 88.125, 48), np.arange(0, 360, 3.75)
    vary = Variation(
        channels=CAM5, mean=np.zeros((16, 1, 1)), std=np.ones((16, 1, 1)), lat=lat, lon=lon,
        roll=False, mirror=False, warp=0.0, moisture=0.15,
    )  # fmt: skip
    random = np.random.default_rng(0)
    # Of a field of one number the copies are that number, and what is left are the factors.
    factor = np.log(vary._moistened(np.full((48, 96), 20.0), random) / 20.0)
    assert factor.std() == pytest.approx(0.15, rel=1e-3)
    # Cells of 3.75 degrees, less than the distance over which the factors change: neighbours have nearly the same.
    assert np.abs(np.diff(factor, axis=1)).mean() < 0.5 * factor.std()
    assert np.abs(factor[:, 0] - factor[:, -1]).mean() < 0.5 * factor.std()
    # Of a field that is 1 in one place, both copies hold it, each somewhere on its own latitude or the opposite one.
    vary.moisture, field = 0.0, np.zeros((48, 96))
    field[10, 3] = 1.0
    rows = set()
    for _ in range(40):
        found = vary._moistened(field, random)
        assert found.max() <= 1.0
        assert found.sum() <= 2.0
        rows |= set(np.nonzero(found > 1e-6)[0])
    assert rows == {10, 37}


def test_the_order_of_epochs_and_samples_alone_decides_how_a_snapshot_is_varied(by_rule):
    one, other = (ClimateArchive(source=by_rule, moisture=0.1, memory_gigabytes=size).prepare(3) for size in (0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.training[2, 1], other.training[2, 1], strict=True))
    assert not torch.equal(one.training[2, 1][0], one.training[3, 1][0])


def test_what_is_held_out_is_not_varied(by_rule):
    data = ClimateArchive(source=by_rule, moisture=0.2).prepare(seed=0)
    fields = archive.open(by_rule)
    np.testing.assert_array_equal(data.held_out[0, 0][1], fields["mask"].isel(time=4))


def test_masks_by_other_rules_or_by_hand_are_not_labelled_anew(tmp_path, by_rule):
    path = archive.save(synthetic.atmosphere(times=4, shape=(16, 32)), tmp_path / "planted.nc")
    with pytest.raises(ValueError, match=r"planted\.nc are not by them"):
        ClimateArchive(source=path, moisture=0.1).prepare(seed=0)
    fields = archive.open(by_rule)
    fields["mask"] = heuristics.label(fields.drop_vars("mask"), rivers=heuristics.Rivers.kurth(threshold=24.0))
    path = archive.save(fields, tmp_path / "dry.nc")
    with pytest.raises(ValueError, match=r"dry\.nc are not by them"):
        ClimateArchive(source=path, moisture=0.1).prepare(seed=0)


def test_channels_without_what_the_rules_look_at_are_refused(by_rule):
    with pytest.raises(ValueError, match=r"moisture=0\.1 needs the fields.*add .*PS, PSL.*or choose 0"):
        ClimateArchive(source=by_rule, channels=("TMQ", "U850", "V850"), moisture=0.1).prepare(seed=0)
    with pytest.raises(ValueError, match="warp=-1"):
        ClimateArchive(source=by_rule, warp=-1)
    with pytest.raises(ValueError, match="moisture=-1"):
        ClimateArchive(source=by_rule, moisture=-1)


def test_mirroring_turns_vorticity_round(by_rule):
    channels = ("TMQ", "VORT850")
    data = ClimateArchive(source=by_rule, channels=channels, roll=False, mirror=True).prepare(seed=0)
    x = ClimateArchive(source=by_rule, channels=channels, roll=False).prepare(seed=0).training[1, 0][0]
    mirrored = next(y for epoch in range(1, 20) if not torch.equal(y := data.training[epoch, 0][0], x))
    assert torch.equal(mirrored, x.flip(1) * torch.tensor([1.0, -1.0]).reshape(2, 1, 1))
