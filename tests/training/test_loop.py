"""The loop: what it yields, what it leaves, and how it is stopped."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from climlab_dl.inference.detect import Detector, detect
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.parallel import memory
from climlab_dl.training import loop
from climlab_dl.training.batches import Prepared
from climlab_dl.training.checkpoint import load
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train
from climlab_dl.training.optimizers import Adam
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


def test_a_stop_says_so_and_how_to_go_on(tiny, tmp_path):
    folder = RunFolder(tmp_path)
    for report in train(tiny(steps=100, report_every=1), tmp_path):
        if report.step == 3:
            folder.request_stop()
    assert folder.status()["state"] == "stopped"
    assert folder.status()["message"] == "stopped on request after step 4; train again with the same folder to resume"
    assert not folder.stop_requested()


def test_a_caller_that_stops_taking_steps_leaves_a_stopped_run(tiny, tmp_path):
    steps = train(tiny(report_every=1), tmp_path)
    next(steps)
    steps.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert RunFolder(tmp_path).status()["state"] == "stopped"
    assert time.time() - RunFolder(tmp_path).status()["time"] < 60
