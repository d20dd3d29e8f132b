"""A notebook that is interrupted ends calmly: trainings keep a checkpoint, nothing is left running."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import psutil
import pytest

from climlab_dl.training.folder import RunFolder

_SCRIPT = """
import sys
from pathlib import Path
from climlab_dl import notebook
try:
    notebook.execute(Path(sys.argv[1]), Path(sys.argv[2]))
except KeyboardInterrupt as interrupt:
    sys.exit(f"calmly: {interrupt}")
"""


def started(folder: Path, *cells: str) -> subprocess.Popen[str]:
    """Run a notebook in a process of its own, as the command line does."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(book, folder / "story.ipynb")
    command = [sys.executable, "-c", _SCRIPT, str(folder / "story.ipynb"), str(folder / "out")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(condition: Callable[[], object], process: subprocess.Popen[str], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def left_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that are still there after some seconds: what was told to end may take a moment."""
    return psutil.wait_procs(processes, timeout=5)[1]


def test_a_signal_ends_a_cell_and_begins_no_other(tmp_path: Path) -> None:
    process = started(tmp_path, "open('here', 'w').close(); import time; time.sleep(100)", "open('next', 'w').close()")
    until((tmp_path / "out" / "here").exists, process)
    family = descendants(process)
    process.send_signal(signal.SIGINT)
    _, calm = process.communicate(timeout=60)
    assert "story.ipynb was stopped by SIGINT at 1/2" in calm
    assert "the same command goes on from there" in calm
    # Before it ipykernel may log that it could not send its last status, when it ends in the middle of that.
    calm = calm[calm.index("calmly: ") :]
    assert "Traceback" not in calm
    assert calm.count("\n") == 1
    assert not (tmp_path / "out" / "next").exists()
    assert (tmp_path / "out" / "story.ipynb").exists()
    assert left_of(family) == []


def test_a_second_ctrl_c_does_not_wait_for_a_cell_that_will_not_end(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); open('here', 'w').close(); time.sleep(100)"
    )
    process = started(tmp_path, stubborn)
    until((tmp_path / "out" / "here").exists, process)
    family = descendants(process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    calm = process.communicate(timeout=60)[1]
    assert "stopped by SIGINT" in calm
    assert left_of(family) == []


@pytest.mark.mpi
@pytest.mark.slow
def test_a_training_that_is_interrupted_keeps_a_checkpoint_of_its_last_step(tmp_path: Path) -> None:
    points = str(Path(__file__).parent / "parallel")
    process = started(
        tmp_path,
        f"import sys; sys.path.insert(0, {points!r})\nimport points\nfrom climlab_dl import cluster, live",
        "engines = cluster.start(ranks=2)",
        "training = engines.train(points.run(steps=20_000, seconds=0.02), 'runs/points')\nlive.watch(training)",
        "engines.close()",
    )
    folder = RunFolder(tmp_path / "out" / "runs" / "points")
    until(lambda: folder.path.exists() and folder.status()["step"] >= 7, process)
    family = descendants(process)
    process.send_signal(signal.SIGINT)
    said, calm = process.communicate(timeout=90)
    status, latest = folder.status(), folder.latest()
    assert status["state"] == "stopped"
    # The checkpoint is of the step at which it ended, not of the last multiple of five.
    assert latest == folder.checkpoint(status["step"])
    assert f"runs/points (step {status['step']} of 20000)" in calm
    assert re.search(r"SIGINT: trainings end at their next step, with a checkpoint", said)
    assert "Traceback" not in said + calm[calm.index("calmly: ") :]
    assert left_of(family) == []


def test_the_tour_ends_with_code_130_and_one_sentence(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("climlab-dl")
    command = [program, "tour", "--smoke", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "1/" in process.stdout.readline()
    family = descendants(process)
    process.send_signal(signal.SIGTERM)
    calm = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert re.fullmatch(r"climlab-dl: 00_tour\.ipynb was stopped by SIGTERM at .*\n", calm)
    assert left_of(family) == []
