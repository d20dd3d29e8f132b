"""Watching a training by its folder, in a terminal and in a notebook."""

import base64
import fcntl
import io
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import nbformat
import numpy as np
import pytest
import xarray as xr
from matplotlib.image import imread

from climlab_dl.plot import live
from climlab_dl.training.folder import RunFolder

MEAN = "IoU (mean of classes)"


def report(folder: RunFolder, step: int, steps: int, state: str = "running") -> None:
    metrics = {"iou_mean": 0.3 + step / 100, "iou_river": 0.1} if step % 2 == 0 else {}
    row = {
        "step": step,
        "steps": steps,
        "epoch": 1,
        "loss": 1.0 / step,
        "learning_rate": 0.1,
        "rate": 8.0,
        "waiting": 0.004,
    }
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
    assert (
        f"running · step 3 of 4 · loss 0.3333 · {MEAN} 0.320 · 8 samples/s · waiting for input 0.4 % · 1 s left"
        in lines
    )
    assert lines[-1] == f"finished · step 4 of 4 · loss 0.25 · {MEAN} 0.340 · 8 samples/s · waiting for input 0.4 %"
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


def typed(code: str, *, columns: int = 80, interrupt_after: str = "") -> str:
    """Run code in a terminal of its own, as wide as that, and give what it writes there, escapes and all."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=inside, stdout=inside, stderr=inside, start_new_session=True
    )
    os.close(inside)
    said = b""
    try:
        while chunk := os.read(terminal, 4096):
            said += chunk
            if interrupt_after and interrupt_after.encode() in said:
                process.send_signal(signal.SIGINT)
                interrupt_after = ""
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    assert process.wait() == 0, said
    return said.decode()


def test_a_terminal_has_one_line_that_is_redrawn_and_the_summary_at_the_end(finished: RunFolder) -> None:
    # Two looks at a running training, then it is over.
    finished.write_status("running", step=2, steps=4)
    code = (
        "import threading\nfrom climlab_dl.plot import live\nfrom climlab_dl.training.folder import RunFolder\n"
        f"folder = RunFolder({str(finished.path)!r})\n"
        "threading.Timer(1.0, lambda: folder.write_status('finished', step=4, steps=4)).start()\n"
        "live.watch(folder, every=0.2)"
    )
    said = typed(code)
    first, *rest = said.replace("\r\n", "\n").rstrip("\n").split("\n")
    drawings = [drawing for drawing in first.split("\r") if drawing.strip()]
    assert len(drawings) >= 3
    assert all(len(drawing) <= 80 for drawing in drawings)
    assert "4/4 · loss 0.25 · mean IoU 0.340 · 8 samples/s" in drawings[1]
    assert "█" in drawings[-1]
    assert rest == [f"finished · step 4 of 4 · loss 0.25 · {MEAN} 0.340 · 8 samples/s · waiting for input 0.4 %"]


def test_ctrl_c_in_a_terminal_ends_the_watching_below_the_bar(finished: RunFolder) -> None:
    finished.write_status("running", step=2, steps=4)
    code = f"from climlab_dl.plot import live\nlive.watch({str(finished.path)!r}, every=0.1)"
    lines = typed(code, interrupt_after="loss 0.25").replace("\r\n", "\n").rstrip("\n").split("\n")
    assert lines[-1].startswith("stopped watching; the training goes on")
    assert (
        lines[-2]
        == f"running · step 4 of 4 · loss 0.25 · {MEAN} 0.340 · 8 samples/s · waiting for input 0.4 % · 0 s left"
    )
    assert "Traceback" not in "".join(lines)


def test_a_table_in_a_terminal_is_redrawn_in_its_place_and_cut_at_the_edge() -> None:
    code = (
        "from climlab_dl.plot.terminal import Block\nblock = Block()\n"
        "[block.show(text) for text in ('name step\\nlong run 1', 'name step\\nlong run 1', 'name step\\nlong run 2')]"
    )
    # Two rows up and clear what is below; nothing is written where nothing has changed.
    assert typed(code, columns=9) == "name step\r\nlong run \r\n\x1b[2F\x1b[Jname step\r\nlong run \r\n"


@pytest.mark.slow
def test_a_notebook_keeps_the_last_bar_and_the_last_pictures_without_widgets(finished: RunFolder) -> None:
    from nbclient import NotebookClient

    lat, lon = np.linspace(-80, 80, 17), np.arange(0.0, 360, 10)
    mask = np.zeros((17, 36), np.int8)
    mask[8, 18] = 1
    flags = {"flag_values": np.arange(3, dtype=np.int8), "flag_meanings": "background cyclone river"}
    masks = dict.fromkeys(("mask", "truth"), (("lat", "lon"), mask, flags))
    attributes = {"step": 4, "sample": "2001-08-14T06:00 of a.nc"}
    finished.write_held_out(xr.Dataset(masks, {"lat": lat, "lon": lon}, attributes))
    code = f"from climlab_dl.plot import live\nlive.watch({str(finished.path)!r})"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    bar, learnt, seen = (output["data"] for output in notebook.cells[0].outputs)
    assert "<progress value='4' max='4'" in bar["text/html"]
    assert "finished · step 4 of 4" in bar["text/html"]
    assert bar["text/plain"].startswith("finished · step 4 of 4")
    assert base64.b64decode(learnt["image/png"]).startswith(b"\x89PNG")
    assert seen["text/plain"].startswith("held out")
    picture = imread(io.BytesIO(base64.b64decode(seen["image/png"])))
    # Two maps, each with its cell of a cyclone, beside each other; the legend below has the third patch.
    pink = np.abs(picture[..., :3] - np.array([0xD0, 0x1C, 0x8B]) / 255).max(axis=-1) < 0.02
    assert pink[:230, :432].any()
    assert pink[:230, 432:].any()
    assert "widgets" not in notebook.metadata
