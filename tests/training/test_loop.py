import json
import logging
import math
import os
import shutil
import signal
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from climlab_dl import reporting
from climlab_dl.inference.detect import Detector, detect
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.parallel import memory
from climlab_dl.parallel.allreduce import Exchange
from climlab_dl.training import loop
from climlab_dl.training.batches import Prepared
from climlab_dl.training.checkpoint import load
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train
from climlab_dl.training.losses import SoftJaccard
from climlab_dl.training.optimizers import SGD, Adam, Lamb, Larc
from climlab_dl.training.precision import Precision
from climlab_dl.training.run import Run, Target
from climlab_dl.training.schedules import Cosine, Warmup
from climlab_dl.training.summary import Summary


def test_a_training_learns_reports_scores_and_leaves_a_complete_folder(tiny, tmp_path):
    run = tiny(steps=40, optimizer=Adam(learning_rate=0.01), report_every=10, evaluate_every=20)
    reports = list(train(run, tmp_path))
    assert [report.step for report in reports] == [10, 20, 30, 40]
    # 16 snapshots in steps of 2: 8 steps an epoch, so step 40 is the last of epoch 5.
    assert [report.epoch for report in reports] == [2, 3, 4, 5]
    assert reports[-1].loss < 0.7 * reports[0].loss
    assert "iou_mean" in reports[1].metrics
    assert reports[0].metrics == {}
    folder = RunFolder(tmp_path)
    assert folder.status()["state"] == "finished"
    assert folder.status()["step"] == 40
    assert folder.progress().step.tolist() == [10, 20, 30, 40]
    assert folder.progress().loss.tolist() == [report.loss for report in reports]
    assert folder.environment()["ranks"] == 1
    assert not (tmp_path / "lock").exists()
    saved = load(folder.best() or "")
    assert saved["statistics"]["channels"] == ["TMQ", "U850", "V850", "PSL"]
    assert saved["statistics"]["classes"] == ["background", "cyclone", "river"]
    # What is there to be watched: the first held-out snapshot, as the network of the last evaluation sees it.
    seen, first = folder.held_out(), run.data.held_out_snapshots().isel(time=[0])
    assert seen is not None
    assert seen.attrs["step"] == 40
    assert seen.attrs["sample"].startswith(str(first.time.values[0])[:16])
    np.testing.assert_array_equal(seen.truth, first.mask[0])
    np.testing.assert_array_equal(seen.mask, detect(Detector.load(folder.latest() or ""), first).mask[0])
    np.testing.assert_array_equal(seen.lat, first.lat)


@dataclass(frozen=True, kw_only=True)
class Slow(ClimateArchive):
    """An archive of which a snapshot takes a tenth of a second."""

    def prepare(self, seed: int, known: dict[str, Any] | None = None) -> Prepared:
        prepared = super().prepare(seed, known)
        reader: Any = prepared.training.reader
        read = reader.read

        def slowly(index: int, out: np.ndarray) -> np.ndarray:
            time.sleep(0.1)
            return read(index, out)

        reader.read = slowly
        return prepared


def test_the_share_of_the_time_that_is_spent_waiting_for_samples_is_told(tiny, tmp_path):
    run = tiny(steps=4)
    run = replace(run, data=Slow(source=run.data.source, channels=run.data.channels))
    (report,) = list(train(run, tmp_path))
    # Two snapshots a step, and nothing reads ahead: 0.8 s of waiting in the time of four steps.
    busy = 4 * 2 / report.rate
    assert 0.8 / busy <= report.waiting < 1
    folder = RunFolder(tmp_path)
    assert folder.progress().waiting.tolist() == [report.waiting]
    said = str(Summary.of(folder.status(), folder.progress()))
    assert f"samples/s · waiting for input {100 * report.waiting:.1f} %" in said


@pytest.mark.parametrize(("again", "expected"), [(True, 3), (False, 0)])
def test_a_training_that_recomputes_gives_kept_memory_back_before_each_step(
    tiny, tmp_path, monkeypatch, again, expected
):
    given: list[bool] = []
    monkeypatch.setattr(loop, "give_back", lambda: given.append(memory.give_back()))
    model = DeepLab(backbone="resnet14", width=4, depth=4, low_level=4, rates=(1,), norm="batch", recompute=again)
    list(train(tiny(model=model, steps=3), tmp_path))
    assert len(given) == expected


def test_the_same_seed_gives_the_same_bits_and_another_does_not(tiny, tmp_path, assert_same):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        list(train(tiny(steps=3, seed=seed), tmp_path / name))
    assert_same(tmp_path / "a", tmp_path / "b")
    with pytest.raises(AssertionError):
        assert_same(tmp_path / "a", tmp_path / "c")


VARIATIONS = {
    "plain": {},
    "dropout": {"model": Tiramisu(blocks=(1, 1), growth=4, kernel=3, stem=4, dropout=0.3, norm="batch")},
    "lag": {"exchange": Exchange(lag=1), "optimizer": SGD(learning_rate=0.1)},
    "fp16": {"precision": Precision(kind="fp16", on_cpu=True, growth_interval=3, initial_scale=2.0**14)},
    "lamb and larc": {"optimizer": Larc(optimizer=Lamb(), placement="update"), "clip_norm": 0.5},
    "accumulated": {"accumulate": 2, "schedule": Warmup(steps=3, then=Cosine())},
    "epochs": {"steps": None, "epochs": 2},
}


@pytest.mark.parametrize("variation", VARIATIONS)
def test_a_training_stopped_at_any_step_and_resumed_ends_with_the_same_bits(tiny, tmp_path, assert_same, variation):
    run = tiny(**{"steps": 12, "report_every": 1, "evaluate_every": 5, **VARIATIONS[variation]})
    list(train(run, tmp_path / "whole"))
    for stop_after in (1, 5):
        folder = RunFolder(tmp_path / f"stopped after {stop_after}")
        folder.begin(run.to_json())
        if stop_after == 1:
            folder.request_stop()
        for report in train(run, folder.path):
            if report.step == stop_after - 1:
                folder.request_stop()
        assert folder.latest() == folder.checkpoint(stop_after)
        list(train(run, folder.path))
        assert_same(tmp_path / "whole", folder.path)
        measured = ["step", "steps", "epoch", "loss", "learning_rate", "iou_mean"]
        assert folder.progress()[measured].equals(RunFolder(tmp_path / "whole").progress()[measured])
        assert folder.status()["state"] == "finished"


def test_a_stop_says_so_and_how_to_go_on(tiny, tmp_path):
    folder = RunFolder(tmp_path)
    for report in train(tiny(steps=100, report_every=1), tmp_path):
        if report.step == 3:
            folder.request_stop()
    assert folder.status()["state"] == "stopped"
    assert folder.status()["message"] == "stopped on request after step 4; train again with the same folder to resume"
    assert not folder.stop_requested()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_ends_the_training_with_a_checkpoint(tiny, tmp_path, number):
    before = signal.getsignal(number)
    for report in train(tiny(steps=100, report_every=1), tmp_path):
        if report.step == 2:
            os.kill(os.getpid(), number)
    assert RunFolder(tmp_path).latest() == RunFolder(tmp_path).checkpoint(3)
    assert f"stopped by {number.name}" in RunFolder(tmp_path).status()["message"]
    assert signal.getsignal(number) is before


def test_a_folder_of_another_run_is_refused_but_a_longer_run_resumes(tiny, tmp_path):
    list(train(tiny(steps=2), tmp_path))
    with pytest.raises(ValueError, match=r"holds another run .it differs in optimizer"):
        list(train(tiny(steps=2, optimizer=SGD()), tmp_path))
    assert [report.step for report in train(tiny(steps=4), tmp_path)] == [4]


def test_an_epoch_is_as_many_whole_steps_as_there_are_samples_for(tiny, tmp_path):
    # 16 snapshots in steps of 5 are 3 steps an epoch; one snapshot waits for the next shuffle.
    reports = list(train(tiny(steps=None, epochs=2, batch_size=5, report_every=1), tmp_path))
    assert [(report.step, report.steps, report.epoch) for report in reports] == [
        (1, 6, 1), (2, 6, 1), (3, 6, 1), (4, 6, 2), (5, 6, 2), (6, 6, 2),
    ]  # fmt: skip


def test_too_few_samples_for_one_step_are_refused_before_work_starts(tiny, tmp_path):
    with pytest.raises(ValueError, match=r"a step takes 17 samples .* there are 16 to train on; lower batch_size"):
        list(train(tiny(batch_size=17), tmp_path))
    assert RunFolder(tmp_path).status()["state"] == "failed"


def test_a_target_reached_ends_the_training(tiny, tmp_path):
    run = tiny(steps=100, evaluate_every=2, target=Target(metric="iou_background", at_least=0.0))
    assert [report.step for report in train(run, tmp_path)] == [2]
    assert RunFolder(tmp_path).status()["message"].startswith("reached iou_background")
    assert RunFolder(tmp_path).status()["state"] == "finished"


def test_a_target_that_nothing_measures_is_an_error_that_lists_what_is(tiny, tmp_path):
    with pytest.raises(ValueError, match=r"'iou_rivers' is not measured; there are .*iou_river"):
        list(train(tiny(target=Target(metric="iou_rivers", at_least=0.5)), tmp_path))


def test_no_better_score_in_a_while_ends_the_training(tiny, tmp_path):
    # A rate of 1e-12 changes no score: the first evaluation is the best, two more are waited for.
    run = tiny(steps=100, evaluate_every=2, patience=2, optimizer=SGD(learning_rate=1e-12))
    assert [report.step for report in train(run, tmp_path)][-1] == 6
    assert "no better score in 2 evaluations" in RunFolder(tmp_path).status()["message"]


@dataclass(frozen=True, kw_only=True)
class BreaksAt:
    """A loss that is NaN (or raises) at one step."""

    step: int
    value: float = math.nan

    def prepare(self, statistics):
        good, calls = SoftJaccard().prepare(statistics), iter(range(1, 1000))

        def loss(logits, mask):
            return good(logits, mask) * (self.value if next(calls) == self.step else 1.0)

        return loss


def test_a_loss_that_is_not_finite_stops_the_run_naming_step_rank_and_snapshots(tiny, tmp_path):
    with pytest.raises(
        FloatingPointError, match=r"step 3, rank 0: the loss is nan for \d{4}-\d\d-\d\dT.* of .*labelled"
    ):
        list(train(tiny(loss=BreaksAt(step=3)), tmp_path))
    status = RunFolder(tmp_path).status()
    assert status["state"] == "failed"
    assert "step 3, rank 0" in status["message"]


def test_gradients_that_are_not_finite_stop_a_run_in_float32(tiny, tmp_path):
    # 1e38 is a finite factor on the loss, but the gradient of a sum over pixels overflows.
    @dataclass(frozen=True, kw_only=True)
    class Huge:
        def prepare(self, statistics):
            del statistics
            return lambda logits, mask: (
                (logits * 1e38).clamp(-1, 1).sum() * 0
                + (logits.sum() * 0 + 1).sqrt()
                - 1
                + (logits.flatten()[0] * 0).abs().sqrt()
            )

    with pytest.raises(FloatingPointError, match="step 1, rank 0: gradients are not finite, the loss is 0"):
        list(train(tiny(loss=Huge()), tmp_path))


def test_an_overflow_in_fp16_skips_the_step_and_halves_the_scale(tiny, tmp_path):
    # At a scale of 2^30 the loss's gradients exceed fp16's 65504, until enough halvings have passed.
    run = tiny(precision=Precision(kind="fp16", on_cpu=True, initial_scale=2.0**30), steps=1)
    list(train(run, tmp_path / "one"))
    torch.manual_seed(run.seed)
    untouched = run.model.build(4, 3).state_dict()
    saved = load(RunFolder(tmp_path / "one").latest() or "")
    assert saved["scaler"]["scale"] == 2.0**29
    assert all(torch.equal(saved["model"][name], untouched[name]) for name in untouched)
    reports = list(train(replace(run, steps=30), tmp_path / "one"))
    assert load(RunFolder(tmp_path / "one").latest() or "")["scaler"]["scale"] < 2.0**26
    assert reports[-1].loss < reports[0].loss


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_half_precision_reaches_the_loss_of_float32_within_two_percent(tiny, tmp_path, kind):
    settings = {"steps": 40, "report_every": 40, "evaluate_every": 40, "optimizer": Adam(learning_rate=0.01)}
    (full,) = train(tiny(**settings), tmp_path / "full")
    (half,) = train(tiny(precision=Precision(kind=kind, on_cpu=True), **settings), tmp_path / "half")
    assert half.loss == pytest.approx(full.loss, rel=0.02)
    assert half.loss != full.loss


def test_half_precision_on_a_cpu_without_it_becomes_float32_and_says_so(caplog):
    cpu = torch.device("cpu")
    native = bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    found = Precision(kind="fp16").usable(cpu)
    assert found.kind == ("fp16" if native else "fp32")
    assert native or "no native fp16 arithmetic" in caplog.text
    assert Precision(kind="fp16", on_cpu=True).usable(cpu).kind == "fp16"


def test_accumulated_batches_give_the_gradient_of_the_whole_batch(tiny, tmp_path):
    settings = {"steps": 4, "optimizer": SGD(learning_rate=0.1)}
    for name, sizes in (("whole", {"batch_size": 8}), ("parts", {"batch_size": 2, "accumulate": 4})):
        list(train(tiny(**settings, **sizes), tmp_path / name))
    ours, theirs = (load(RunFolder(tmp_path / name).latest() or "")["model"] for name in ("whole", "parts"))
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-6)


def test_lag_applies_the_gradient_of_the_step_before(tiny, tmp_path):
    # The first step changes nothing. With one batch for the whole archive and no momentum, the second applies the
    # first's gradient, taken at the same weights: what a run without lag has after one step.
    settings = {"batch_size": 16, "optimizer": SGD(learning_rate=0.1, momentum=0.0)}
    settings["data"] = replace(tiny().data, roll=False)
    lagged = {"exchange": Exchange(lag=1)}
    for name, changes in (("first", lagged | {"steps": 1}), ("second", lagged | {"steps": 2}), ("none", {"steps": 1})):
        list(train(tiny(**settings, **changes), tmp_path / name))
    torch.manual_seed(0)
    untouched = tiny().model.build(4, 3).state_dict()
    found = {name: load(RunFolder(tmp_path / name).latest() or "")["model"] for name in ("first", "second", "none")}
    assert all(torch.equal(found["first"][name], untouched[name]) for name in untouched)
    for name in untouched:
        torch.testing.assert_close(found["second"][name], found["none"][name], rtol=1e-5, atol=1e-7)


def test_a_caller_that_stops_taking_steps_leaves_a_stopped_run(tiny, tmp_path):
    steps = train(tiny(report_every=1), tmp_path)
    next(steps)
    steps.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert RunFolder(tmp_path).status()["state"] == "stopped"
    assert time.time() - RunFolder(tmp_path).status()["time"] < 60


def contents(folder) -> dict:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("unit", ["steps", "epochs"])
def test_a_finished_training_is_left_as_it_is_unless_more_is_asked_for(tiny, tmp_path, caplog, unit):
    run = tiny(**{"steps": None, unit: 2})
    list(train(run, tmp_path))
    before = contents(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert list(train(run, tmp_path)) == []
    assert f"{tmp_path} already has 2 of 2 {unit}; ask for more {unit}" in caplog.text
    with pytest.raises(ValueError, match=rf"already has 2 {unit}, and 1 are asked for; ask for more than 2 {unit}"):
        list(train(replace(run, **{unit: 1}), tmp_path))
    assert contents(tmp_path) == before
    assert list(train(replace(run, **{unit: 3}), tmp_path))
    assert RunFolder(tmp_path).status()["state"] == "finished"


def test_a_training_that_its_target_ended_goes_on_when_asked_again(tiny, tmp_path):
    run = tiny(steps=3, evaluate_every=1, target=Target(metric="iou_mean", at_least=0.0))
    assert [report.step for report in train(run, tmp_path)] == [1]
    assert [report.step for report in train(replace(run, target=None), tmp_path)] == [2, 3]


@dataclass(frozen=True, kw_only=True)
class Signalled(ClimateArchive):
    """An archive whose preparation is interrupted by a signal."""

    number: int = 0

    def prepare(self, seed: int, known: dict[str, Any] | None = None) -> Prepared:
        os.kill(os.getpid(), self.number)
        time.sleep(5)
        raise AssertionError("the signal did nothing")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_before_the_first_step_says_where_it_came(tiny, tmp_path, number):
    before = signal.getsignal(number)
    run = tiny()
    run = replace(run, data=Signalled(source=run.data.source, channels=run.data.channels, number=number))
    said = f"stopped by {number.name}, which came to rank 0 of 1, before the first step; train again"
    with pytest.raises(KeyboardInterrupt, match=said):
        next(train(run, tmp_path))
    status = RunFolder(tmp_path).status()
    assert (status["state"], status["message"].startswith(said)) == ("stopped", True)
    assert signal.getsignal(number) is before
    assert not (tmp_path / "lock").exists()


def test_a_run_told_by_a_relative_path_is_found_from_any_folder(tiny, labelled, tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    shutil.copy(labelled, tmp_path / "project" / "labelled.nc")
    monkeypatch.chdir(tmp_path / "project")
    run = tiny(steps=2)
    run = replace(run, data=replace(run.data, source="labelled.nc"))
    list(train(run, "runs/a"))
    monkeypatch.chdir("/")
    folder = RunFolder(tmp_path / "project" / "runs" / "a")
    again = Run.from_json(folder.described())
    assert isinstance(again.data, ClimateArchive)
    assert again.data.held_out_snapshots().sizes["time"] == 8
    list(train(replace(again, steps=3), folder.path))
    reporting.report(folder.path, snapshots=1)
    # Told anew, from where it was started; and where the whole project was moved to.
    monkeypatch.chdir(tmp_path / "project")
    list(train(replace(run, steps=4), "runs/a"))
    (tmp_path / "project").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    list(train(replace(run, steps=5), "runs/a"))
    assert RunFolder("runs/a").status()["step"] == 5
    assert json.loads(RunFolder("runs/a").described())["data"]["source"] == "labelled.nc"
