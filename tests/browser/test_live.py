"""JupyterLab with the training notebook in it: what is drawn moves, and neither interrupting nor reloading ends it."""

import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.image
import nbformat
import numpy as np
import pytest
from playwright.sync_api import Error

from climlab_dl import notebook
from climlab_dl.parallel import cluster
from climlab_dl.parallel.cluster.processes import marks

WATCH = "live.watch(again)"


@pytest.fixture
def lab(tmp_path: Path, sample: Path) -> Iterator[str]:
    """Address of a JupyterLab on this machine with the training notebook, as far as it watches its first training."""
    book = nbformat.read(notebook.find("03_train_segmentation"), as_version=4)
    last = next(number for number, cell in enumerate(book.cells) if WATCH in cell.source)
    book.cells = book.cells[: last + 1]
    # Twenty snapshots, evaluated often: what is to be seen is soon there.
    smaller = {"steps=STEPS": "steps=STEPS, evaluate_every=10"}
    smaller['DATA = ""'] = f"DATA = {str(sample / 'gcm_t63_2001-08-1*.nc')!r}"
    for cell in book.cells:
        for whole, part in smaller.items():
            cell.source = cell.source.replace(whole, part)
    nbformat.write(book, tmp_path / "train.ipynb")
    settings = tmp_path / ".jupyter" / "lab" / "user-settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    # All cells in the page, to be found by what is in them.
    (settings / "tracker.jupyterlab-settings").write_text(json.dumps({"windowingMode": "none"}))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--ip=127.0.0.1", f"--port={port}"]
    command += ["--allow-root", "--IdentityProvider.token=", f"--ServerApp.root_dir={tmp_path}"]
    command += ["--ServerApp.port_retries=0"]
    folders = {name: str(tmp_path / ".jupyter") for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    with (tmp_path / "lab.log").open("wb") as log:
        server = subprocess.Popen(command, env=os.environ | folders, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 180
            while not answers(port):
                assert server.poll() is None, (tmp_path / "lab.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}/lab/tree/train.ipynb?reset"
        finally:
            server.terminate()
            server.wait()


def answers(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


class Page:
    """The notebook in the browser."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.watching = page.locator(".jp-Cell", has_text=WATCH)
        self.bar = self.watching.locator("progress")
        self.pictures = self.watching.locator(".jp-OutputArea-output img")

    def menu(self, *names: str) -> None:
        for name in names:
            # The item's keys may follow its name.
            self.page.get_by_role("menuitem", name=re.compile(f"^{name}")).first.click()

    def step(self) -> int:
        return int(self.bar.evaluate("bar => bar.value"))

    def until_step(self, step: int, pictures: int) -> None:
        """Wait until the bar and the pictures are there and the bar has come that far."""
        self.pictures.nth(pictures - 1).wait_for(timeout=400_000)
        there = f"Array.from(document.querySelectorAll('progress')).some(bar => bar.value >= {step})"
        self.page.wait_for_function(there, timeout=400_000)

    def blue(self, element: Any) -> int:
        """How many pixels of an element are as blue as the bar and the curve."""
        red, green, blue = np.moveaxis(matplotlib.image.imread(io.BytesIO(self.shot(element)))[..., :3], -1, 0)
        return int(np.count_nonzero((blue > red + 0.25) & (blue > green + 0.15)))

    def shot(self, element: Any) -> bytes:
        """Picture of an element, again if a later one took its place meanwhile."""
        for _ in range(50):
            with contextlib.suppress(Error):
                element.scroll_into_view_if_needed()
                return element.screenshot()
        raise AssertionError("the element was replaced each time before it could be looked at")

    def keep(self, name: str) -> None:
        if folder := os.environ.get("CLIMLAB_SCREENSHOTS"):
            self.bar.scroll_into_view_if_needed()
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"))


@pytest.mark.browser
@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_is_drawn_moves_and_outlives_an_interruption_and_a_reload(browser: Any, lab: str, tmp_path: Path) -> None:
    from playwright import sync_api

    page = Page(browser.new_context(viewport={"width": 1200, "height": 1000}).new_page())
    page.page.goto(lab)
    page.page.wait_for_selector(".jp-Notebook", timeout=120_000)
    # Without a kernel yet, "Run All" would ask for one.
    page.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=120_000)
    page.menu("Run", "Run All Cells")

    # From the first evaluation on there are the curves and the masks.
    page.until_step(12, pictures=2)
    page.keep("half-way")
    before = page.step(), page.blue(page.bar), page.blue(page.pictures.first)
    page.until_step(before[0] + 30, pictures=2)
    page.page.wait_for_timeout(2000)
    after = page.step(), page.blue(page.bar), page.blue(page.pictures.first)
    page.keep("half-way, later")
    assert all(late > early for late, early in zip(after, before, strict=True)), (before, after)

    stopped = page.page.get_by_text("stopped watching; the training goes on")
    # On a busy machine the menu may close under the pointer; a person would press again.
    for _ in range(4):
        page.menu("Kernel", "Interrupt Kernel")
        with contextlib.suppress(sync_api.TimeoutError):
            stopped.wait_for(timeout=30_000)
            break
    assert stopped.count() == 1
    training = cluster.attach(tmp_path / "out/segmentation/runs/deeplab")
    assert training.active()

    # Reloaded, the page has lost what was drawn since it was last saved; the cell that attaches draws it again.
    page.page.reload()
    page.watching.wait_for(timeout=120_000)
    page.page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=120_000)
    step = training.status()["step"]
    page.watching.locator(".cm-content").click()
    page.page.keyboard.press("Shift+Enter")
    page.until_step(step + 5, pictures=2)
    page.keep("reloaded")

    # Whoever sees the folder may stop it; the page says so.
    assert training.stop().status()["state"] == "stopped"
    page.watching.get_by_text("stopped: stopped on request").first.wait_for(timeout=30_000)
    page.page.context.close()
    (ours,) = cluster.list().query("training == @folder", local_dict={"folder": str(training.folder.path)}).index
    assert marks()[ours]
