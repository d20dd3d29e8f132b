"""A training in hand: it returns at once, tells how far it is, stops, resumes, heals, and fails aloud."""

import os
import signal
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from climlab_dl.parallel import cluster
from climlab_dl.parallel.cluster.engines import Engines
from climlab_dl.parallel.cluster.training import Training
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.lock import locked

pytestmark = pytest.mark.mpi


def until(training: Training, step: int) -> None:
    """Wait until a training has reported a step."""
    deadline = time.monotonic() + 60
    while len(training.progress()) < step:
        assert training.active(), training
        assert time.monotonic() < deadline, training
        time.sleep(0.05)


def test_training_returns_at_once_and_fills_its_folder(engines: Engines, points: ModuleType, tmp_path: Path) -> None:
    training = engines.train(points.run(steps=20), tmp_path / "run")
    assert training.status()["state"] in ("starting", "running")
    with pytest.raises(RuntimeError, match=r"engines are training .*training\.stop\(\)"):
        engines.map(abs, [1])
    assert training.wait() is training
    progress = training.progress()
    assert list(progress["step"]) == list(range(1, 21))
    assert progress["iou_mean"].iloc[-1] > progress["baseline_iou_mean"].iloc[-1]
    assert training.status()["state"] == "finished"
    assert "finished" in repr(training)
    assert "step</th><td style='text-align:left'>20 of 20" in training._repr_html_()
    assert engines.map(abs, [-1]) == [1]


def test_stop_ends_all_ranks_at_one_step_and_resume_goes_on_from_there(
    engines: Engines, points: ModuleType, tmp_path: Path
) -> None:
    training = engines.train(points.run(steps=400, seconds=0.05), tmp_path / "run")
    until(training, 3)
    training.stop()
    status = training.status()
    assert status["state"] == "stopped"
    assert 3 <= status["step"] < 400
    latest = training.folder.latest()
    assert latest is not None
    assert latest.name == f"step-{status['step']:08d}.pt"
    training.resume()
    for handle in (training, cluster.attach(tmp_path / "run")):  # the other knows of no engines
        with pytest.raises(RuntimeError, match=r"still training: .*nothing to resume"):
            handle.resume()
    until(training, status["step"] + 2)
    assert cluster.attach(tmp_path / "run").stop().status()["state"] == "stopped"
    training.wait()
    attached = cluster.attach(tmp_path / "run")
    with pytest.raises(ValueError, match="allow="):
        attached.resume(engines)
    step = attached.resume(engines, allow=(points.Points, points.Pixelwise)).status()["step"]
    until(attached, step + 1)
    attached.stop().wait()
    assert list(training.progress()["step"]) == list(range(1, training.status()["step"] + 1))


def test_a_finished_training_that_is_asked_for_again_is_left_as_it_is(
    engines: Engines, points: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = points.run(steps=3)
    engines.train(run, tmp_path / "run").wait()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    again = engines.train(run, tmp_path / "run").wait()
    assert again.status()["state"] == "finished"
    assert "already has 3 of 3 steps; ask for more steps" in caplog.text
    with pytest.raises(ValueError, match="already has 3 steps, and 2 are asked for"):
        engines.train(points.run(steps=2), tmp_path / "run")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")} == before


def test_a_folder_of_another_run_is_refused_before_any_rank_is_asked(
    engines: Engines, points: ModuleType, tmp_path: Path
) -> None:
    engines.train(points.run(steps=5), tmp_path / "run").wait()
    with pytest.raises(ValueError, match=r"holds another run \(it differs in data\)"):
        engines.train(points.run(steps=5, seconds=0.001), tmp_path / "run")
    assert engines.map(abs, [-1]) == [1]


def test_a_folder_in_which_another_training_is_at_work_is_left_as_it_is(
    engines: Engines, points: ModuleType, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(points.run(steps=5).to_json(), steps=5)
    with locked(folder.path):
        folder.request_stop()
        before = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
        with pytest.raises(RuntimeError, match=r"is training in .*run: wait for it, stop it, or choose another"):
            engines.train(points.run(steps=7), folder.path)
        assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == before
    assert engines.map(abs, [-1]) == [1]


def test_an_exception_on_one_rank_arrives_as_itself_with_its_rank(
    engines: Engines, points: ModuleType, tmp_path: Path
) -> None:
    training = engines.train(points.run(broken=7), tmp_path / "run")
    with pytest.raises(OSError, match="sample 7 is damaged") as caught:
        training.wait()
    assert "Raised on rank 1" in "".join(caught.value.__notes__)
    assert "line" in "".join(caught.value.__notes__)
    status = training.status()
    assert status["state"] == "failed"
    assert status["message"] == "OSError: sample 7 is damaged"
    with pytest.raises(RuntimeError, match=r"failed at step .*sample 7 is damaged"):
        cluster.attach(tmp_path / "run").wait()


@pytest.mark.slow
def test_ranks_that_die_are_started_again_and_go_on_from_the_checkpoint(
    engines: Engines, points: ModuleType, tmp_path: Path
) -> None:
    run = points.run(steps=20, deadly_step=8, killed=str(tmp_path / "killed"))
    training = engines.train(run, tmp_path / "run", max_restarts=1)
    training.wait()
    assert training.restarts == 1
    assert (tmp_path / "killed").exists()
    # Step 5 was the checkpoint: what came after it was done again, and each step is reported once.
    assert list(training.progress()["step"]) == list(range(1, 21))


@pytest.mark.slow
def test_ranks_that_die_too_often_end_the_training(engines: Engines, points: ModuleType, tmp_path: Path) -> None:
    run = points.run(deadly_step=2, killed=str(tmp_path / "killed"))
    training = engines.train(run, tmp_path / "run", max_restarts=0)
    with pytest.raises(ChildProcessError, match="rank 1 died: killed"):
        training.wait()
    assert training.status()["state"] == "failed"
    assert engines.map(abs, [-1]) == [1]


@pytest.mark.slow
def test_closing_stops_what_is_training_at_its_next_step(points: ModuleType, tmp_path: Path) -> None:
    with cluster.start(ranks=2) as engines:
        training = engines.train(points.run(steps=500, seconds=0.05), tmp_path / "run")
        until(training, 2)
    assert training.status()["state"] == "stopped"
    assert training.folder.latest() is not None
    assert not [thread for thread in threading.enumerate() if thread.name == "training"]


def test_interrupting_the_wait_leaves_the_training_in_hand(
    engines: Engines, points: ModuleType, tmp_path: Path
) -> None:
    training = engines.train(points.run(steps=5000, seconds=0.05), tmp_path / "run")
    until(training, 2)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        training.wait()
    assert training.active()
    status = training.stop().status()
    assert status["state"] == "stopped"
    assert status["message"].startswith("stopped on request after step")


@pytest.mark.slow
def test_closing_that_cannot_wait_for_a_step_leaves_the_run_stopped(
    points: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("climlab_dl.parallel.cluster.engines._PATIENCE", 0.2)
    with cluster.start(ranks=1) as engines:
        training = engines.train(points.run(seconds=100.0), tmp_path / "run")
    status = training.status()
    assert status["state"] == "stopped"
    assert "engines were closed before its next step; it resumes from its beginning" in status["message"]
    assert training.wait() is training


def test_attaching_to_nothing_or_to_a_damaged_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no run\.json"):
        cluster.attach(tmp_path)
    (tmp_path / "run.json").write_text('{"class": "climl')
    with pytest.raises(ValueError, match=rf"{tmp_path}/run\.json is damaged .*: restore it from a copy"):
        cluster.attach(tmp_path)


def test_a_training_whose_process_is_gone_has_failed(tmp_path: Path) -> None:
    training = Training(tmp_path / "run")
    training.folder.begin("{}", steps=5)
    # A process number beyond the kernel's largest.
    text = (tmp_path / "run" / "status.json").read_text()
    pid = training.folder.status()["pid"]
    (tmp_path / "run" / "status.json").write_text(text.replace(f'"pid": {pid}', f'"pid": {2**22 + 1}'))
    assert training.status()["state"] == "failed"
    with pytest.raises(RuntimeError, match="that trained it is gone"):
        training.wait()
