import math
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl.files import hidden
from climlab_dl.training.folder import RunFolder, checkpoint_of
from climlab_dl.training.loop import train


def report(step: int, **metrics: float) -> dict:
    return {
        "step": step, "steps": 10, "epoch": 1, "loss": 0.5, "learning_rate": 1e-3, "rate": 2.0, "seconds": 1.0 * step,
        "metrics": metrics,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.begin("{}", steps=10)
    return folder


def test_reading_a_folder_needs_no_torch():
    code = "import sys, climlab_dl.training.folder; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_folder_that_is_not_there_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        RunFolder(tmp_path / "nowhere").status()


def test_progress_is_empty_but_has_its_columns_before_the_first_report(folder):
    assert folder.progress().empty
    assert list(folder.progress().columns)[:4] == ["step", "steps", "epoch", "loss"]


def test_reports_become_rows_with_metrics_as_columns(folder):
    folder.append_progress(report(1))
    folder.append_progress(report(2, iou_river=0.25, iou_cyclone=math.nan))
    table = folder.progress()
    assert table.step.tolist() == [1, 2]
    assert math.isnan(table.iou_river[0])
    assert table.iou_river[1] == 0.25
    assert math.isnan(table.iou_cyclone[1])


def test_a_report_cut_short_by_a_kill_is_left_out(folder):
    folder.append_progress(report(1))
    with (folder.path / "progress.jsonl").open("a") as file:
        file.write('{"step": 2, "lo')
    assert folder.progress().step.tolist() == [1]
    folder.rewind(1)
    folder.append_progress(report(2))
    assert folder.progress().step.tolist() == [1, 2]


def test_rewinding_drops_what_a_resumed_training_will_write_again(folder):
    for step in range(1, 6):
        folder.append_progress(report(step))
    folder.rewind(3)
    assert folder.progress().step.tolist() == [1, 2, 3]


def test_the_latest_checkpoint_is_that_of_the_highest_step_and_pruning_keeps_the_best(folder):
    assert folder.latest() is None
    for step in (5, 40, 120):
        folder.checkpoint(step).touch()
    (folder.checkpoints / "best.pt").touch()
    assert folder.latest() == folder.checkpoint(120)
    folder.prune(keep=2)
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == [
        "best.pt", "step-00000040.pt", "step-00000120.pt",
    ]  # fmt: skip


def test_a_stop_asked_for_while_starting_is_kept_and_an_old_one_is_forgotten(folder):
    folder.request_stop()
    folder.begin("{}")
    assert folder.stop_requested()
    folder.write_status("failed", step=3, steps=10)
    folder.begin("{}")
    assert not folder.stop_requested()


def test_an_unknown_state_is_refused(folder):
    with pytest.raises(ValueError, match="'done' is none of starting"):
        folder.write_status("done", step=1, steps=1)  # pyright: ignore[reportArgumentType]


def test_what_was_held_out_is_read_as_it_was_last_written(folder):
    assert folder.held_out() is None
    for step in (1, 2):
        seen = xr.Dataset({"mask": (("lat", "lon"), np.full((2, 3), step, np.int8))}, {"lat": [0.0, 1.0]})
        folder.write_held_out(seen.assign_attrs(step=step, sample="a time"))
        read = folder.held_out()
        assert read is not None
        assert read.identical(seen.assign_attrs(step=step, sample="a time"))
        assert read.mask.dtype == np.int8
    assert not [path for path in folder.path.iterdir() if path.name.startswith(".held_out")]


def test_a_damaged_file_of_a_folder_is_named(folder):
    folder.run_json.write_text('{"class": ')
    with pytest.raises(ValueError, match=r"run\.json is damaged .*restore it from a copy"):
        folder.described()
    (folder.path / "status.json").write_bytes(b"\x80")
    with pytest.raises(ValueError, match=r"status\.json is damaged .*delete it"):
        folder.status()
    folder.run_json.unlink()
    with pytest.raises(FileNotFoundError, match=r"has no run\.json"):
        folder.described()


def test_a_folder_in_which_runs_lie_names_them(tmp_path):
    for name in ("runs/a", "runs/b", "runs/study/c"):
        RunFolder(tmp_path / name).begin("{}")
    said = rf"{tmp_path}/runs is no run's folder, but one in which runs lie; name one of them: .*runs/a, .*b, .*study/c"
    for ask in (lambda: RunFolder(tmp_path / "runs").status(), lambda: RunFolder(tmp_path / "runs").described(),
                lambda: checkpoint_of(tmp_path / "runs")):  # fmt: skip
        with pytest.raises(FileNotFoundError, match=said):
            ask()
    with pytest.raises(FileNotFoundError, match="a has no checkpoint yet"):
        checkpoint_of(tmp_path / "runs" / "a")
    with pytest.raises(TypeError, match="expected the path of a run's folder or of a checkpoint; found a int"):
        checkpoint_of(3)  # pyright: ignore[reportArgumentType]


def test_a_reader_that_follows_a_file_sees_what_one_sees_that_comes_late(folder):
    for step in range(1, 8):
        # Metrics come and go, a line is caught half written, and a training resumes from step 3.
        folder.append_progress(report(step, **({"iou_river": 0.1 * step} if step % 2 else {"mae": 1.0})))
        pd.testing.assert_frame_equal(folder.progress(), RunFolder(folder.path).progress())
        with (folder.path / "progress.jsonl").open("a") as file:
            file.write('{"step": ')
            file.flush()
            assert len(folder.progress()) == len(RunFolder(folder.path).progress())
        folder.rewind(3 if step == 5 else step)
        pd.testing.assert_frame_equal(folder.progress(), RunFolder(folder.path).progress())
    assert folder.progress().step.tolist() == [1, 2, 3, 6, 7]
    assert folder.progress().step.dtype == "int64"


def test_a_table_of_progress_that_somebody_writes_to_is_theirs(folder):
    folder.append_progress(report(1))
    theirs = folder.progress()
    theirs.loc[0, "loss"] = 9.0
    assert folder.progress().loss.tolist() == [0.5]


def test_a_report_that_is_read_is_not_read_again(folder):
    for step in range(1, 4):
        folder.append_progress(report(step))
    assert len(folder.progress()) == 3
    path = folder.path / "progress.jsonl"
    # Overwritten in place with what no reader could parse: who followed the file does not look back.
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.write(b"x" * (size - 1))
    folder.append_progress(report(4))
    assert folder.progress().step.tolist() == [1, 2, 3, 4]


def test_what_a_killed_training_left_half_written_is_swept_up_by_the_next(tiny, tmp_path):
    mine = tmp_path / ".held_out.nc.notes"
    mine.mkdir()
    code = """if True:
        import os, signal, sys
        from contextlib import ExitStack
        from pathlib import Path
        from climlab_dl.files import beside
        folder = Path(sys.argv[1])
        with ExitStack() as writing:
            for name in ("checkpoints/step-00000001.pt", "checkpoints/best.pt", "held_out.nc", "status.json"):
                writing.enter_context(beside(folder / name)).write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (tmp_path / hidden("lock")).write_text("half")

    def left():
        return {path.name.split(".")[1] for path in tmp_path.glob("**/.*") if path != mine}

    assert left() == {"step-00000001", "best", "held_out", "status", "lock"}
    list(train(tiny(steps=1), tmp_path))
    assert left() == set()
    assert mine.exists()


def test_what_cannot_be_a_run_folder_is_named_before_the_work_starts(tiny, tmp_path):
    (tmp_path / "file").write_text("notes")
    (tmp_path / "link").symlink_to(tmp_path / "away")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "checkpoints").touch()
    with pytest.raises(NotADirectoryError, match=r"odd/checkpoints is a file, not a folder"):
        RunFolder(tmp_path / "odd").begin("{}")
    for name, what in (
        ("file", "is a file, not a folder"),
        ("file/run", "is a file"),
        ("link", "is a link to what is"),
    ):
        for begin in (lambda path: list(train(tiny(), path)), lambda path: RunFolder(path).begin("{}")):
            with pytest.raises(NotADirectoryError, match=rf"{name}/run.json cannot be written: .* {what}"):
                begin(tmp_path / name)


def test_what_a_power_cut_left_of_the_reports_is_passed_over(folder):
    folder.append_progress(report(1, iou_mean=0.5))
    with (folder.path / "progress.jsonl").open("ab") as file:
        file.write(bytes(40) + b"\n")
    folder.append_progress(report(2))
    assert list(RunFolder(folder.path).progress()["step"]) == [1, 2]
    folder.rewind(1)
    assert list(folder.progress()["step"]) == [1]


def test_a_copy_of_a_checkpoint_under_a_name_of_its_own_is_no_checkpoint(folder):
    for name in ("step-00000004.pt", "step-00000004_old.pt", "step-best.pt"):
        (folder.checkpoints / name).touch()
    assert folder.latest() == folder.checkpoint(4)
    folder.prune(1)
    assert len(list(folder.checkpoints.iterdir())) == 3


@pytest.mark.parametrize("text", ["[]", "null", "{}", "3"])
def test_a_description_that_is_none_is_named(folder, text):
    folder.run_json.write_text(text)
    with pytest.raises(ValueError, match=r"run\.json is damaged .it says .*restore it from a copy"):
        folder.described()


def test_checkpoints_without_a_description_are_not_said_to_be_new(folder):
    folder.run_json.unlink()
    with pytest.raises(FileNotFoundError, match=r"no run\.json: engines\.train"):
        folder.described()
    folder.checkpoint(1).touch()
    with pytest.raises(FileNotFoundError, match=r"has checkpoints, but no run\.json .*restore it"):
        folder.described()
