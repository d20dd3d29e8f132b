"""How long a slider step and a static map take on 1,000 snapshots of 768 x 1152.

    python benchmarks/maps.py --archive /tmp/fine.nc --snapshots 1000
    python benchmarks/maps.py --archive /tmp/coarse.nc --snapshots 12 --rows 48 --case static    # a toy

writes the archive if it is not there (2.7 GB), serves the explorer to a headless Chromium as a notebook's kernel would,
and times steps from the slider's change until the picture is drawn; then the same in a page without a kernel, and the
static map. Each step is one not seen before.
"""

import argparse
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import xarray as xr

from climlab_dl import archive, maps

CASES = ("kernel", "page", "static")
PORT = 5987
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
# From the slider's change to the frame after the one in which the page's script has drawn.
STEP = """step => new Promise(done => {
    const page = Bokeh.documents[0], begin = performance.now();
    const drawn = () => {
        page.get_model_by_name('image').change.disconnect(drawn);
        requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begin)));
    };
    page.get_model_by_name('image').change.connect(drawn);
    page.get_model_by_name('time').value = step;
})"""


def write(path: Path, snapshots: int, rows: int) -> None:
    """Write fine fields and masks: the sample's vapour on a finer grid, moved east by a cell a snapshot."""
    columns = rows * 3 // 2
    lat = (np.arange(rows) + 0.5) * 180 / rows - 90
    lon = np.arange(columns) * 360 / columns
    coarse = archive.open(archive.sample()).TMQ.isel(time=0).load()
    closed = xr.concat([coarse, coarse.isel(lon=[0]).assign_coords(lon=[360.0])], dim="lon")
    fine = closed.interp(lat=np.clip(lat, *coarse.lat.values[[0, -1]]), lon=lon).values
    numbers = np.rint(fine * 100).astype(np.int16)
    mask = np.where(fine > 55, 1, np.where((fine > 30) & (np.abs(lat[:, None]) > 30), 2, 0)).astype(np.int8)
    import netCDF4

    with netCDF4.Dataset(path.with_suffix(".part"), "w") as file:
        for name, values in (("time", np.arange(snapshots) * 6.0), ("lat", lat), ("lon", lon)):
            file.createDimension(name, len(values))
            file.createVariable(name, "f8", (name,))[:] = values
        file["time"].units = "hours since 2001-01-01"
        file["lat"].units, file["lon"].units = "degrees_north", "degrees_east"
        chunks = {"dimensions": ("time", "lat", "lon"), "chunksizes": (1, rows, columns)}
        vapour, classes = file.createVariable("TMQ", "i2", **chunks), file.createVariable("mask", "i1", **chunks)
        vapour.scale_factor, vapour.units = 0.01, "kg m-2"
        vapour.set_auto_scale(False)
        for step in range(snapshots):
            vapour[step], classes[step] = np.roll(numbers, step, axis=1), np.roll(mask, step, axis=1)
    path.with_suffix(".part").rename(path)


def serve(path: Path, port: int) -> None:
    """Serve the explorer of the whole archive, read as the slider moves."""
    from bokeh.server.server import Server

    fields = archive.open(path)
    explorer = maps.explore(fields, fields.mask, channels=["TMQ"], times=slice(None))
    assert explorer.live
    server = Server({"/": lambda document: document.add_root(explorer.layout())}, port=port, address="127.0.0.1")
    server.run_until_shutdown()


def steps(address: str, chosen: list[int]) -> tuple[list[float], float]:
    """Milliseconds of each step in a headless Chromium, and of processor time, of all processes together, per step."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page: Any = browser.new_page(viewport={"width": 1200, "height": 900})
        page.set_default_timeout(180_000)
        page.goto(address)
        page.wait_for_selector("canvas")
        page.wait_for_timeout(3000)
        began = spent()
        taken = [page.evaluate(STEP, step) for step in chosen]
        return taken, 1000 * (spent() - began) / len(chosen)


def spent() -> float:
    """Seconds of processor time of this process and those that it has started."""
    times = [one.cpu_times() for one in (psutil.Process(), *psutil.Process().children(recursive=True))]
    return sum(one.user + one.system for one in times)


def answers(port: int) -> bool:
    """Whether the server is up."""
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


def told(name: str, milliseconds: list[float], processor: float) -> None:
    """Print a row of the table."""
    low, middle, high = np.percentile(milliseconds, [0, 50, 90])
    load = os.getloadavg()[0]
    print(f"| {name} | {low:.0f} | {middle:.0f} | {high:.0f} | {processor:.0f} | {load:.1f} |", flush=True)


def main() -> None:
    """Measure and print a table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--archive", type=Path, default=Path("fine.nc"))
    options.add_argument("--snapshots", type=int, default=1000)
    options.add_argument("--rows", type=int, default=768, help="of the grid; columns are 3/2 of it (default 768)")
    options.add_argument("--case", choices=CASES, action="append", help="only these (default all)")
    options.add_argument("--serve", type=int, default=0, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if not asked.archive.exists():
        write(asked.archive, asked.snapshots, asked.rows)
    if asked.serve:
        serve(asked.archive, asked.serve)
        return
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| | best ms | median ms | 90 % ms | CPU ms | load |\n|---|---|---|---|---|---|")
    for case in asked.case or CASES:
        {"kernel": with_kernel, "page": in_page, "static": statically}[case](asked.archive, asked.snapshots)


def with_kernel(path: Path, snapshots: int) -> None:
    """Time steps that a kernel reads for the page."""
    command = [sys.executable, __file__, "--archive", str(path), "--serve", str(PORT)]
    with subprocess.Popen(command) as server:
        try:
            while not answers(PORT):
                time.sleep(1)
            taken, processor = steps(f"http://127.0.0.1:{PORT}/", list(range(20, 60, 2)))
            told(f"slider step, {snapshots} snapshots, kernel", taken, processor)
        finally:
            server.terminate()


def in_page(path: Path, snapshots: int) -> None:
    """Time steps of snapshots that the page holds."""
    fields = archive.open(path)
    page = maps.explore(fields, fields.mask, channels=["TMQ"], times=8).save(path.with_suffix(".html"))
    told("slider step, 8 snapshots in the page", *steps(page.resolve().as_uri(), [1, 2, 3, 4, 5, 6, 7, 1, 2, 3]))


def statically(path: Path, snapshots: int) -> None:
    """Time maps that are drawn as pictures."""
    fields = archive.open(path)
    for name, chosen in (("first", range(1)), ("second to sixth", range(1, 6))):
        taken, began = [], spent()
        for step in chosen:
            since = time.perf_counter()
            place = snapshots // 2 + step
            maps.static(fields, fields.mask, channel="TMQ", time=place, path=path.with_suffix(".png"))
            taken.append(1000 * (time.perf_counter() - since))
        told(f"static Robinson, {name}", taken, 1000 * (spent() - began) / len(taken))


if __name__ == "__main__":
    main()
