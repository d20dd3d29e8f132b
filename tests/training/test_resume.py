"""A training that goes on is the training that never stopped."""

import logging
import shutil
from dataclasses import replace

import pytest
import xarray as xr

from climlab_dl.climate import archive
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.parallel.allreduce import Exchange
from climlab_dl.training.checkpoint import load, save
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train
from climlab_dl.training.optimizers import SGD, Lamb, Larc
from climlab_dl.training.precision import Precision
from climlab_dl.training.run import Target
from climlab_dl.training.schedules import Cosine, Warmup

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


def test_a_folder_of_another_run_is_refused_but_a_longer_run_resumes(tiny, tmp_path):
    list(train(tiny(steps=2), tmp_path))
    with pytest.raises(ValueError, match=r"holds another run .it differs in optimizer"):
        list(train(tiny(steps=2, optimizer=SGD()), tmp_path))
    assert [report.step for report in train(tiny(steps=4), tmp_path)] == [4]


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


def other_times(source, path, times) -> str:
    with xr.open_dataset(source) as opened:
        archive.save(opened.isel(time=times).load(), path)
    return str(path)


@pytest.mark.parametrize(
    ("times", "now"),
    [(slice(0, 21), "training: 16 from .*; now 14 from"), (slice(3, 24), "held_out: 8 from .*; now 7 from")],
    ids=["shorter", "moved on"],
)
def test_samples_other_than_a_training_began_with_are_refused(tiny, tmp_path, labelled, times, now):
    source = tmp_path / "mine.nc"
    data = replace(tiny().data, source=other_times(labelled, source, slice(None)))
    list(train(tiny(data=data, steps=2), tmp_path / "run"))
    before = contents(tmp_path / "run" / "checkpoints")
    other_times(labelled, source, times)
    with pytest.raises(ValueError, match=rf"mine\.nc has not the samples that this training began with .*{now}"):
        list(train(tiny(data=data, steps=4), tmp_path / "run"))
    assert contents(tmp_path / "run" / "checkpoints") == before
    status = RunFolder(tmp_path / "run").status()
    assert (status["state"], status["step"]) == ("failed", 2)
    other_times(labelled, source, slice(None))
    assert list(train(tiny(data=data, steps=4), tmp_path / "run"))[-1].step == 4


def test_as_many_samples_of_another_time_are_other_samples(tiny, tmp_path, labelled):
    source = tmp_path / "mine.nc"
    data = replace(tiny().data, source=other_times(labelled, source, slice(0, 23)))
    list(train(tiny(data=data, steps=2), tmp_path / "run"))
    other_times(labelled, source, slice(1, 24))
    with pytest.raises(ValueError, match="has not the samples that this training began with"):
        list(train(tiny(data=data, steps=4), tmp_path / "run"))


def test_a_checkpoint_that_does_not_say_its_samples_is_resumed_from(tiny, tmp_path):
    list(train(tiny(steps=2), tmp_path))
    latest = RunFolder(tmp_path).latest()
    assert latest is not None
    state = load(latest)
    del state["statistics"]["samples"]
    save(latest, state)
    assert [report.step for report in train(tiny(steps=4), tmp_path)] == [4]


def test_a_checkpoint_of_another_network_is_refused(tiny, tmp_path):
    list(train(tiny(steps=2), tmp_path / "run"))
    list(train(tiny(steps=3, model=replace(tiny().model, growth=6)), tmp_path / "other"))
    latest = RunFolder(tmp_path / "other").latest()
    assert latest is not None
    shutil.copy(latest, tmp_path / "run" / "checkpoints")
    with pytest.raises(ValueError, match=r"step-00000003\.pt is of another network .*another folder"):
        list(train(tiny(steps=4), tmp_path / "run"))
    assert RunFolder(tmp_path / "run").status()["state"] == "failed"


def test_a_network_alone_is_no_training_to_resume(tiny, tmp_path):
    list(train(tiny(steps=2), tmp_path))
    best, later = RunFolder(tmp_path).best(), RunFolder(tmp_path).checkpoint(3)
    assert best is not None
    save(later, load(best) | {"step": 3})
    with pytest.raises(ValueError, match=r"step-00000003\.pt has no optimizer, .*Delete it"):
        list(train(tiny(steps=4), tmp_path))
    later.unlink()
    assert list(train(tiny(steps=4), tmp_path))[-1].step == 4


@pytest.mark.parametrize("part", ["ranks", "samples_per_step", "model", "optimizer"])
def test_a_checkpoint_that_lacks_something_is_named(tiny, tmp_path, part):
    list(train(tiny(steps=2), tmp_path))
    latest = RunFolder(tmp_path).latest()
    assert latest is not None
    state = load(latest)
    whole = state.pop(part)
    save(latest, state)
    with pytest.raises(ValueError, match=rf"step-00000002\.pt has no {part}"):
        list(train(tiny(steps=4), tmp_path))
    save(latest, state | {part: {} if isinstance(whole, dict) else whole})
    if isinstance(whole, dict):
        with pytest.raises(ValueError, match=r"step-00000002\.pt is of another network or optimiser"):
            list(train(tiny(steps=4), tmp_path))
