import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from climlab_dl.climate import archive, synthetic
from climlab_dl.climate.fields import UNLABELLED
from climlab_dl.training.batches import Order, held_out_batches, training_batches
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.losses import WeightedCrossEntropy

CHANNELS = ("TMQ", "V850", "PSL")


def take(order: Order, batches: int) -> list[list[tuple[int, int]]]:
    return list(itertools.islice(order, batches))


def order(**changes: int) -> Order:
    settings = {"accumulate": 1, "seed": 0, "epoch": 1, "offset": 0} | changes
    return Order(10, 2, **settings)  # pyright: ignore[reportArgumentType]


def test_an_epoch_has_each_sample_once_in_an_order_of_its_own():
    first, second = take(order(), 5), take(order(epoch=2), 5)
    assert sorted(number for batch in first for _, number in batch) == list(range(10))
    assert first != second
    assert take(order(), 10) == first + second


def test_the_order_depends_on_the_seed():
    assert take(order(seed=1), 5) != take(order(), 5)
    assert take(order(), 5) == take(order(), 5)


def test_the_order_goes_on_from_the_middle_of_an_epoch():
    assert take(order(offset=4), 6) == take(order(), 8)[2:]


def test_an_epoch_of_accumulated_steps_is_as_many_as_are_whole():
    # Steps of 3 x 2 samples from 10: one an epoch.
    batches = take(order(accumulate=3), 6)
    assert [batch[0][0] for batch in batches] == [1, 1, 1, 2, 2, 2]


def test_snapshots_are_normalised_with_what_is_trained_on(labelled):
    data = ClimateArchive(source=str(labelled), channels=CHANNELS, roll=False).prepare(seed=0)
    x = torch.stack([data.training[1, number][0] for number in range(len(data.training))])
    assert x.shape == (16, 3, 16, 32)
    torch.testing.assert_close(x.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(x.std(dim=(0, 2, 3)), torch.ones(3), atol=1e-3, rtol=0)
    fields = archive.open(labelled)
    mean, std = data.facts["mean"][0], data.facts["std"][0]
    raw = torch.from_numpy(fields.TMQ.isel(time=16).values)
    torch.testing.assert_close(data.held_out[0, 0][0][0], ((raw - mean) / std).float(), atol=1e-5, rtol=1e-5)
    assert torch.equal(data.held_out[0, 0][1], torch.from_numpy(fields["mask"].isel(time=16).values).long())
    np.testing.assert_array_equal(data.facts["lat"], fields.lat)
    assert data.held_out.describe(0).startswith(str(fields.time.values[16])[:16])
    held_out = ClimateArchive(source=str(labelled), channels=CHANNELS).held_out_snapshots()
    assert held_out.time.equals(fields.time[16:])


def test_an_archive_read_snapshot_by_snapshot_gives_the_same_samples(labelled):
    kept, read = (
        ClimateArchive(source=str(labelled), channels=CHANNELS, memory_gigabytes=size, mirror=True).prepare(seed=5)
        for size in (1.0, 0.0)
    )
    assert kept.workers == 0
    assert read.workers == 2
    for key in ((1, 0), (1, 7), (3, 7)):
        assert all(torch.equal(a, b) for a, b in zip(kept.training[key], read.training[key], strict=True))


@pytest.mark.parametrize("workers", [1, 3])
def test_batches_read_ahead_by_threads_are_the_same(labelled, workers):
    kept = ClimateArchive(source=str(labelled), channels=CHANNELS).prepare(seed=5)
    data = replace(kept, workers=workers)
    cpu, shuffled = torch.device("cpu"), Order(16, 4, accumulate=1, seed=0, epoch=1, offset=0)
    pairs = [itertools.islice(training_batches(prepared, shuffled, cpu), 9) for prepared in (data, kept)]
    for ours, theirs in zip(*pairs, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    held_out = zip(held_out_batches(data, 3, cpu), held_out_batches(kept, 3, cpu), strict=True)
    numbers = []
    for ours, theirs in held_out:
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
        numbers += ours[2].tolist()
    assert numbers == list(range(8))


def test_rolling_moves_fields_and_mask_together_and_differs_by_epoch(labelled):
    data = ClimateArchive(source=str(labelled), channels=CHANNELS).prepare(seed=0)
    plain = ClimateArchive(source=str(labelled), channels=CHANNELS, roll=False).prepare(seed=0)
    x, mask, _ = plain.training[1, 3]
    shifts = []
    for epoch in range(1, 6):
        rolled, rolled_mask, _ = data.training[epoch, 3]
        shift = next(s for s in range(32) if torch.equal(rolled, x.roll(s, dims=2)))
        assert torch.equal(rolled_mask, mask.roll(shift, dims=1))
        shifts.append(shift)
    assert len(set(shifts)) > 1


def test_mirroring_swaps_hemispheres_and_turns_northward_winds(labelled):
    data = ClimateArchive(source=str(labelled), channels=CHANNELS, roll=False, mirror=True).prepare(seed=0)
    x, mask, _ = ClimateArchive(source=str(labelled), channels=CHANNELS, roll=False).prepare(seed=0).training[1, 3]
    sign = torch.tensor([1.0, -1.0, 1.0]).reshape(3, 1, 1)
    seen = set()
    for epoch in range(1, 12):
        varied, varied_mask, _ = data.training[epoch, 3]
        mirrored = not torch.equal(varied, x)
        assert torch.equal(varied, x.flip(1) * sign if mirrored else x)
        assert torch.equal(varied_mask, mask.flip(0) if mirrored else mask)
        seen.add(mirrored)
    assert seen == {True, False}


def test_an_archive_without_masks_says_how_to_label_it(tmp_path):
    path = archive.save(synthetic.atmosphere(times=3, shape=(16, 32)).drop_vars("mask"), tmp_path / "bare.nc")
    with pytest.raises(ValueError, match="no masks to learn from; label it"):
        ClimateArchive(source=path).prepare(seed=0)


def test_a_channel_that_is_missing_is_named(labelled):
    with pytest.raises(ValueError, match=r"no field 'IVT' \(found: .*TMQ.*computed from TUQ and TVQ"):
        ClimateArchive(source=labelled, channels=("TMQ", "IVT")).prepare(seed=0)


def test_a_channel_that_is_missing_can_be_left_out_as_the_error_says(labelled):
    data = ClimateArchive(source=labelled, channels=("TMQ", "IVT", "VORT850"))
    with pytest.raises(ValueError, match=r"Or train without it: ClimateArchive\(channels=\('TMQ', 'VORT850'\)\)\.$"):
        data.prepare(seed=0)
    assert replace(data, channels=("TMQ", "VORT850")).prepare(seed=0).channels == ("TMQ", "VORT850")
    # Where none is there, it is another archive that is needed.
    with pytest.raises(ValueError, match="no field 'IVT'") as lacks:
        replace(data, channels=("IVT",)).prepare(seed=0)
    assert "without it" not in str(lacks.value)


@pytest.mark.parametrize(("held_out", "says"), [(1 / 3, True), (1 / 6, False)])
def test_so_few_snapshots_that_they_teach_little_are_said(labelled, caplog, held_out, says):
    # Of 24 snapshots 16 or 20 are trained on.
    ClimateArchive(source=labelled, channels=CHANNELS, held_out=held_out).prepare(seed=0)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text[:42] for text in said] == (["training on 16 snapshots, holding out 8: en"[:42]] if says else [])


def test_channels_that_follow_from_others_are_computed(labelled):
    prepared = ClimateArchive(source=labelled, channels=("TMQ", "VORT850", "ABSLAT"), roll=False).prepare(seed=0)
    mean, std = prepared.statistics.mean, prepared.statistics.std
    fields = archive.open(labelled)
    # Sixteen equal bands from pole to pole, so the distances from the equator have the mean of theirs.
    distance = np.abs(fields.lat.values)
    assert mean[2] == pytest.approx(distance.mean())
    assert std[2] == pytest.approx(distance.std())
    assert 1e-7 < std[1] < 1e-3  # 1/s


def test_a_pixel_that_nobody_labelled_counts_for_no_class(tmp_path):
    fields = synthetic.atmosphere(times=4, shape=(16, 32))
    fields["mask"][0, 3, 4] = UNLABELLED
    path = archive.save(fields, tmp_path / "partly.nc")
    data = ClimateArchive(source=path, channels=CHANNELS).prepare(seed=0)
    assert data.statistics.class_counts.sum() == 3 * 16 * 32 - 1


@pytest.mark.parametrize("memory_gigabytes", [0.0, 1.0])
def test_gaps_stay_out_of_statistics_and_loss(tmp_path, memory_gigabytes):
    fields = synthetic.atmosphere(times=6, shape=(16, 32), seed=2)
    fields["PSL"][1, 2:5, 7:9] = np.nan
    path = archive.save(fields, tmp_path / "gaps.nc")
    data = ClimateArchive(source=path, channels=CHANNELS, roll=False, memory_gigabytes=memory_gigabytes).prepare(seed=0)
    known = fields.isel(time=slice(4)).where(fields.PSL.notnull())
    for number, name in enumerate(CHANNELS):
        assert data.statistics.mean[number] == pytest.approx(float(known[name].mean()), rel=1e-5, abs=1e-5)
        assert data.statistics.std[number] == pytest.approx(float(known[name].std()), rel=1e-5)
    assert data.statistics.count == data.statistics.class_counts.sum() == 4 * 16 * 32 - 6
    x, mask, _ = data.training[1, 1]
    assert (x[2, 2:5, 7:9] == 0).all()
    assert (mask[2:5, 7:9] == UNLABELLED).all()
    assert torch.isfinite(x).all()
    assert (mask == UNLABELLED).sum() == 6
    loss = WeightedCrossEntropy().prepare(data.statistics)
    logits = torch.zeros(1, 3, 16, 32, requires_grad=True)
    loss(logits, mask[None]).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[0, :, 2:5, 7:9] == 0).all()


def test_a_snapshot_that_lacks_a_field_is_refused_naming_both(tmp_path):
    fields = synthetic.atmosphere(times=4, shape=(16, 32))
    fields["PSL"][1] = np.nan
    path = archive.save(fields, tmp_path / "holes.nc")
    with pytest.raises(ValueError, match=f"PSL at {str(fields.time.values[1])[:16]} in .*holes.nc has no value at all"):
        ClimateArchive(source=path, channels=CHANNELS).prepare(seed=0)
