"""Watching a training by its folder, in a terminal and in a notebook."""

import base64
import os
import signal
import threading
import time
from pathlib import Path

import nbformat
import pytest

from climlab_dl.plot import live
from climlab_dl.training.folder import RunFolder


def report(folder: RunFolder, step: int, steps: int, state: str = "running") -> None:
    metrics = {"iou_mean": 0.3 + step / 100, "iou_river": 0.1} if step % 2 == 0 else {}
    row = {"step": step, "steps": steps, "epoch": 1, "loss": 1.0 / step, "learning_rate": 0.1, "rate": 8.0}
    folder.append_progress({**row, "seconds": float(step), "metrics": metrics})
    folder.write_status(state, step=step, steps=steps)  # type: ignore[arg-type]


@pytest.fixture
def finished(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.begin("{}", steps=4)
    for step in range(1, 5):
        report(folder, step, 4, "finished" if step == 4 else "running")
    return folder


def test_a_terminal_gets_a_line_for_what_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin("{}", steps=4)

    def train() -> None:
        for step in range(1, 5):
            time.sleep(0.2)
            report(folder, step, 4, "finished" if step == 4 else "running")

    trainer = threading.Thread(target=train)
    trainer.start()
    live.watch(folder.path, every=0.02)
    trainer.join()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "starting · step 0 of 4"
    assert "running · step 3 of 4 · loss 0.3333 · IoU 0.320 · 8 samples/s · 1 s left" in lines
    assert lines[-1] == "finished · step 4 of 4 · loss 0.25 · IoU 0.340 · 8 samples/s"
    assert len(lines) == len(set(lines))


def test_interrupting_ends_the_watching_and_says_that_the_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin("{}", steps=4)
    report(folder, 1, 4)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    live.watch(folder.path, every=0.05)
    assert "the training goes on" in capsys.readouterr().out.splitlines()[-1]
    assert not folder.stop_requested()
    assert folder.status()["state"] == "running"


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no run folder"):
        live.watch(tmp_path / "nothing")


@pytest.mark.slow
def test_a_notebook_keeps_the_last_bar_and_the_last_picture_without_widgets(finished: RunFolder) -> None:
    from nbclient import NotebookClient

    code = f"from climlab_dl.plot import live\nlive.watch({str(finished.path)!r})"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    bar, picture = (output["data"] for output in notebook.cells[0].outputs)
    assert "<progress value='4' max='4'" in bar["text/html"]
    assert "finished · step 4 of 4" in bar["text/html"]
    assert bar["text/plain"].startswith("finished · step 4 of 4")
    assert base64.b64decode(picture["image/png"]).startswith(b"\x89PNG")
    assert "widgets" not in notebook.metadata
