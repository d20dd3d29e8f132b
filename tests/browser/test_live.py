"""JupyterLab with a training in it: the bar moves while the cell runs, and interrupting the cell ends only that."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from climlab_dl.parallel import cluster
from climlab_dl.parallel.cluster.processes import marks

_CELLS = (
    "import sys\nsys.path.insert(0, {points!r})\nimport points\nfrom climlab_dl import cluster, live",
    "engines = cluster.start(ranks=2)\nengines",
    "training = engines.train(points.run(steps=20_000, seconds=0.02), 'run')\ntraining",
    "live.watch(training)",
)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[str]:
    """Address of a JupyterLab on this machine with a notebook that trains."""
    points = str(Path(__file__).parents[1] / "parallel")
    cells = [nbformat.v4.new_code_cell(cell.format(points=points)) for cell in _CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, tmp_path / "train.ipynb")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "jupyter",
        "lab",
        "--no-browser",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--allow-root",
    ]
    command += ["--IdentityProvider.token=", f"--ServerApp.root_dir={tmp_path}", "--ServerApp.port_retries=0"]
    folders = {name: str(tmp_path / ".jupyter") for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    with (tmp_path / "lab.log").open("wb") as log:
        server = subprocess.Popen(command, env=os.environ | folders, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while not answers(port):
            assert server.poll() is None, (tmp_path / "lab.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/lab/tree/train.ipynb?reset"
        server.terminate()
        server.wait()


def answers(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def progress(page: Any) -> int:
    return int(page.locator("progress").evaluate("bar => bar.value"))


@pytest.mark.browser
@pytest.mark.mpi
@pytest.mark.slow
def test_the_bar_moves_and_interrupting_the_cell_ends_only_the_watching(browser: Any, lab: str, tmp_path: Path) -> None:
    from playwright import sync_api

    page = browser.new_context(viewport={"width": 1200, "height": 1000}).new_page()
    page.goto(lab)
    page.wait_for_selector(".jp-Notebook", timeout=60_000)
    # Without a kernel yet, "Run All" would ask for one.
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function("document.querySelector('progress')?.value > 2", timeout=120_000)
    before = progress(page)
    page.wait_for_function(f"document.querySelector('progress').value > {before + 5}", timeout=60_000)
    assert page.locator(".jp-OutputArea-output img").count() == 1

    stopped = page.get_by_text("stopped watching; the training goes on")
    # On a busy machine the menu may close under the pointer; a person would press again.
    for _ in range(4):
        page.get_by_role("menuitem", name="Kernel", exact=True).click()
        page.get_by_role("menuitem", name="Interrupt Kernel").click()
        with contextlib.suppress(sync_api.TimeoutError):
            stopped.wait_for(timeout=30_000)
            break
    assert stopped.count() == 1
    training = cluster.attach(tmp_path / "run")
    step = training.status()["step"]
    deadline = time.monotonic() + 60
    while training.status()["step"] < step + 10:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert training.stop().status()["state"] == "stopped"
    page.context.close()
    (ours,) = cluster.list().query("training == @folder", local_dict={"folder": str(tmp_path / "run")}).index
    assert marks()[ours]
