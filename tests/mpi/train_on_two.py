"""Proofs on two ranks, in one start: ``mpiexec -n 2 python tests/mpi/train_on_two.py ARCHIVE FOLDER``."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from runs import CHANNELS, Fault, assert_same, tiny

from climlab_dl.climate.archive import open as open_archive
from climlab_dl.climate.archive import save
from climlab_dl.cosmology import volumes
from climlab_dl.cosmology.volumes import Volume
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.parallel import ranks
from climlab_dl.parallel.allreduce import Exchange
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import Stopped, train
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.metrics import Parameters, Segmentation
from climlab_dl.training.precision import Precision
from climlab_dl.training.run import Run
from climlab_dl.training.statistics import Statistics
from climlab_dl.training.universes import Universes

archive, out = sys.argv[1], Path(sys.argv[2])


def two_ranks_with_batches_of_4_train_for_the_caller_to_compare_with_one_of_8() -> None:
    # A mean over pixels and samples, unlike the Jaccard loss, is a mean of means.
    list(train(tiny(archive, batch_size=4, loss=WeightedCrossEntropy()), out / "two ranks"))


def a_stopped_training_resumes_bit_by_bit_with_dropout_norm_lag_and_fp16() -> None:
    run = tiny(
        archive, steps=7, exchange=Exchange(lag=1, compression="bf16"), evaluate_every=3,
        model=Tiramisu(blocks=(1, 1), growth=4, kernel=3, stem=4, dropout=0.3, norm="batch"),
        precision=Precision(kind="fp16", on_cpu=True, initial_scale=2.0**12, growth_interval=2),
    )  # fmt: skip
    list(train(run, out / "whole"))
    folder = RunFolder(out / "halves")
    for report in train(run, folder.path):
        if report.step == 2 and ranks.rank() == 0:
            folder.request_stop()
    assert folder.latest() == folder.checkpoint(3), folder.latest()
    list(train(run, folder.path))
    ranks.barrier("rank 0 has written the folders")
    assert_same(out / "whole", out / "halves")


def the_same_training_twice_gives_the_same_bits() -> None:
    for name in ("once", "twice"):
        list(train(tiny(archive, steps=2), out / name))
    ranks.barrier("rank 0 has written the folders")
    assert_same(out / "once", out / "twice")


def failure_of(fault: Fault, folder: str) -> tuple[BaseException, float]:
    began = 0.0
    try:
        for _ in train(tiny(archive, loss=fault, steps=6), out / folder):
            began = time.monotonic()
    except (ArithmeticError, RuntimeError) as error:
        return error, time.monotonic() - began
    raise AssertionError("nothing failed")


def an_exception_on_one_rank_ends_both_with_its_own_traceback() -> None:
    error, seconds = failure_of(Fault(rank=1, call=3, how="raise"), "raised")
    if ranks.rank() == 1:
        assert isinstance(error, ArithmeticError), error
    else:
        assert "rank 1 failed in 'step 3'" in str(error), error
        assert "ArithmeticError: planted" in str(error), error
        assert RunFolder(out / "raised").status()["state"] == "failed"
        print(f"rank 0 heard within {seconds:.2f} s of the step before")


def a_loss_that_is_not_finite_names_its_rank_and_samples_everywhere() -> None:
    error, _ = failure_of(Fault(rank=1, call=2, how="nan"), "nan")
    assert "step 2, rank 1: the loss is nan for 2" in str(error), error
    assert archive in str(error), error


def an_overflow_on_one_rank_skips_the_step_on_both() -> None:
    run = tiny(
        archive, steps=2, loss=Fault(rank=1, call=2, how="overflow"),
        precision=Precision(kind="fp16", on_cpu=True, initial_scale=1024.0),
    )  # fmt: skip
    list(train(run, out / "overflow"))
    list(train(tiny(archive, steps=1, precision=run.precision), out / "before overflow"))
    ranks.barrier("rank 0 has written the folders")
    assert_same(out / "overflow", out / "before overflow")


def a_signal_to_one_rank_ends_both_on_the_same_step() -> None:
    steps, told = [], ""
    try:
        steps.extend(
            report.step
            for report in train(tiny(archive, steps=50, loss=Fault(rank=1, call=3, how="terminate")), out / "signal")
        )
    except Stopped as stopped:
        told = str(stopped)
    assert "stopped by SIGTERM after step 3" in told, told
    assert steps == [1, 2, 3]
    ranks.barrier("rank 0 has written the folder")
    status = RunFolder(out / "signal").status()
    assert status["state"] == "stopped"
    assert "stopped by SIGTERM after step 3" in status["message"], status
    assert RunFolder(out / "signal").latest() == RunFolder(out / "signal").checkpoint(3)


def a_file_that_is_cut_short_ends_all_ranks_naming_it() -> None:
    folder = out / "snapshots"
    with ranks.together("writing snapshots"):
        if ranks.rank() == 0:
            save(open_archive(archive), folder, layout="deepcam")
    files = sorted(folder.glob("data*.h5"))
    data = ClimateArchive(source=str(folder), channels=CHANNELS, held_out=0.3, memory_gigabytes=0, workers=1)

    # Before the training: no step is taken.
    whole = files[3].read_bytes()
    ranks.barrier("all have seen the files")
    if ranks.rank() == 0:
        files[3].write_bytes(whole[: len(whole) // 2])
    ranks.barrier("a file is cut short")
    error = error_of(tiny(archive, data=data), out / "cut")
    assert f"{files[3].name} cannot be read: it is truncated or damaged" in str(error), error
    assert not RunFolder(out / "cut").latest()

    # In the midst of it: the rank that was to read the file says so, and the other hears it.
    ranks.barrier("both have failed")
    if ranks.rank() == 0:
        files[3].write_bytes(whole)
    ranks.barrier("the file is whole")
    error = error_of(tiny(archive, data=data, steps=20, evaluate_every=20), out / "cut later", cut=files[:17])
    assert "was replaced or changed since it was opened" in str(error) or "cannot be read" in str(error), error
    assert str(folder) in str(error), error


def error_of(run: Run, folder: Path, cut: Sequence[Path] = ()) -> BaseException:
    try:
        for _ in train(run, folder):
            for file in cut if ranks.rank() == 0 else ():
                os.truncate(file, 1000)
    except (OSError, RuntimeError) as error:
        return error
    raise AssertionError("nothing failed")


def statistics_are_those_of_the_whole_archive() -> None:
    data = ClimateArchive(source=archive, channels=CHANNELS, held_out=0.3)
    shared = data.prepare(seed=0).statistics
    fields = data.held_out_snapshots()
    assert fields.sizes["time"] == 7
    whole = data.prepare(seed=0, known=shared.facts())
    x = np.stack([whole.training[0, number][0].numpy() for number in range(len(whole.training))]).astype(np.float64)
    # Normalised with the merged statistics, each channel has mean 0 and spread 1 to float32 rounding.
    np.testing.assert_allclose(x.mean(axis=(0, 2, 3)), 0, atol=1e-4)
    np.testing.assert_allclose(x.std(axis=(0, 2, 3)), 1, atol=1e-4)
    parts = [Statistics.of(np.random.default_rng(r).normal(1e5, 1, (1, 999)), ("PSL",)) for r in range(ranks.size())]
    merged = parts[ranks.rank()].over_ranks()
    both = np.concatenate([np.random.default_rng(r).normal(1e5, 1, 999) for r in range(ranks.size())])
    np.testing.assert_allclose([merged.mean[0], merged.std[0]], [both.mean(), both.std()], rtol=1e-12)


def scores_count_each_sample_once() -> None:
    torch.manual_seed(0)
    logits, mask = torch.randn(7, 3, 4, 5), torch.randint(3, (7, 4, 5))
    mine, whole = Segmentation(("a", "b", "c")), Segmentation(("a", "b", "c"))
    whole.update(logits, mask)
    mine.update(logits[ranks.rank() :: ranks.size()], mask[ranks.rank() :: ranks.size()])
    mine.over_ranks()
    assert mine.samples == 7
    np.testing.assert_array_equal(mine.confusion, whole.confusion)
    np.testing.assert_allclose(mine.scores()["iou_per_sample"], whole.scores()["iou_per_sample"], rtol=1e-14)
    # Estimates and truths of 5 universes: rank 0 has three, rank 1 two; together they are in their order again.
    share, (estimate, target) = slice(ranks.rank(), None, ranks.size()), torch.randn(2, 5, 2)
    one, all_five = (Parameters(("a", "b"), np.array([1.0, 2.0]), np.array([0.5, 3.0])) for _ in range(2))
    all_five.update(estimate, target)
    one.update(estimate[share], target[share])
    one.over_ranks()
    assert one.seen().identical(all_five.seen())
    assert one.scores() == all_five.scores()


def a_staged_archive_trains_to_the_same_bits() -> None:
    run = tiny(archive, steps=3)
    list(train(run, out / "read"))
    staged = replace(run.data, stage_to=str(out / "disk"))
    list(train(replace(run, data=staged), out / "staged"))
    ranks.barrier("rank 0 has written the folders")
    assert_same(out / "read", out / "staged")
    # Half of the 17 snapshots, rounded up, on this one node; two ranks take 2 each a step: 2 steps an epoch.
    half = replace(staged, stage_to=str(out / "half"), stage_share=0.5, stage_as="float16")
    reports = list(train(replace(run, data=half), out / "half staged"))
    assert [report.epoch for report in reports] == [1, 1, 2]


def universes_have_the_statistics_of_all_that_is_trained_on() -> None:
    random = np.random.default_rng(5)
    cubes = random.poisson(3.0, (5, 4, 4, 4, 1)).astype(np.int16)
    unit = random.uniform(-1, 1, (5, 1))
    with ranks.together("writing universes"):
        for number in range(5) if ranks.rank() == 0 else ():
            volume = Volume(
                counts=cubes[number],
                source=out,
                names=("Omega_m",),
                unit=unit[number],
                physical=0.3 + 0.1 * unit[number],
            )
            volumes.save(volume, out / "universes" / f"universe_{number}.h5")
    facts = Universes(source=str(out / "universes"), held_out=0.2).prepare(seed=0).facts
    logs = np.log1p(cubes[:4].astype(np.float64))
    np.testing.assert_allclose([facts["mean"][0], facts["std"][0]], [logs.mean(), logs.std()], rtol=1e-7)
    np.testing.assert_allclose(facts["target_mean"], (0.3 + 0.1 * unit[:4]).mean(), rtol=1e-12)
    np.testing.assert_allclose(facts["target_std"], (0.1 * unit[:4]).std(), rtol=1e-12)


PROOFS: list[Callable[[], None]] = [
    two_ranks_with_batches_of_4_train_for_the_caller_to_compare_with_one_of_8,
    a_stopped_training_resumes_bit_by_bit_with_dropout_norm_lag_and_fp16,
    the_same_training_twice_gives_the_same_bits,
    an_exception_on_one_rank_ends_both_with_its_own_traceback,
    a_loss_that_is_not_finite_names_its_rank_and_samples_everywhere,
    an_overflow_on_one_rank_skips_the_step_on_both,
    a_signal_to_one_rank_ends_both_on_the_same_step,
    a_staged_archive_trains_to_the_same_bits,
    a_file_that_is_cut_short_ends_all_ranks_naming_it,
    statistics_are_those_of_the_whole_archive,
    universes_have_the_statistics_of_all_that_is_trained_on,
    scores_count_each_sample_once,
]

if __name__ == "__main__":
    with ranks.joined(timeout=60):
        for proof in PROOFS:
            with ranks.together(proof.__name__):
                proof()
            if ranks.rank() == 0:
                print("proven:", proof.__name__, flush=True)
