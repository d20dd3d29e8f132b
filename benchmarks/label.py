"""Time to label a snapshot of 768 x 1152, and memory that a long archive takes.

    python benchmarks/label.py                   # one snapshot on one core, then 1,000 by two workers
    python benchmarks/label.py --snapshots 100   # a shorter archive

The weather is that of the sample archive, interpolated to the grid of CAM5 at a quarter of a degree; the long archive
is one file of eight snapshots read again and again, its mask written to Zarr as it is made.
"""

import argparse
import platform
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import dask.config
import numpy as np
import xarray as xr

from climlab_dl import archive, heuristics

ROWS, COLUMNS = 768, 1152
PIECE = 8


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--snapshots", type=int, default=1000, help="length of the long archive (default 1000)")
    options.add_argument("--workers", type=int, default=2, help="threads that label it (default 2)")
    asked = options.parse_args()
    print(f"{platform.node()}: {platform.processor() or platform.machine()}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        piece = write_piece(Path(folder) / "piece.nc")
        time_rules(archive.open(piece).isel(time=0).load())
        # A process of its own, so that its peak memory is that of the labelling alone.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            report = alone.submit(label_long, piece, asked.snapshots, asked.workers)
            print(report.result())


def write_piece(path: Path) -> Path:
    """Write eight snapshots of the sample archive on the fine grid, only the channels that the rules read."""
    names = ["TMQ", "U850", "V850", "UBOT", "VBOT", "PS", "PSL", "T200", "T500", "Z200", "Z1000", "PRECT"]
    coarse = archive.open(archive.sample())[names].isel(time=slice(0, PIECE))
    coarse = xr.concat([coarse, coarse.isel(lon=[0]).assign_coords(lon=[360.0])], "lon")
    lat, lon = np.linspace(-90, 90, ROWS), np.arange(COLUMNS) * 360 / COLUMNS
    fine = coarse.interp(lat=lat, lon=lon, kwargs={"fill_value": "extrapolate"}).astype("float32")
    chunks = {name: {"chunksizes": (1, ROWS, COLUMNS)} for name in names}
    fine.to_netcdf(path, encoding=chunks)
    return path


def time_rules(snapshot: xr.Dataset) -> None:
    rules = {
        "both classes, Kurth": {},
        "cyclones, Kurth": {"rivers": None},
        "cyclones, TECA": {"rivers": None, "cyclones": heuristics.Cyclones.teca_for(snapshot)},
        "rivers, Kurth": {"cyclones": None},
    }
    for name, rule in rules.items():
        best = min(timed(lambda rule=rule: heuristics.label(snapshot, **rule)) for _ in range(3))
        print(f"{name:22s} {best[0]:6.2f} s CPU {best[1]:6.2f} s wall a snapshot of {ROWS} x {COLUMNS}")


def timed(work) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def label_long(piece: Path, snapshots: int, workers: int) -> str:
    pieces = []
    for i in range(-(-snapshots // PIECE)):
        fields = archive.open(piece)
        pieces.append(fields.assign_coords(time=fields.time + np.timedelta64(48 * i, "h")))
    fields = xr.concat(pieces, "time", data_vars="minimal").isel(time=slice(snapshots))
    snapshot = fields.nbytes / snapshots / 1e6
    before = peak()
    start = time.perf_counter()
    with dask.config.set(scheduler="threads", num_workers=workers):
        heuristics.label(fields).to_dataset().to_zarr(piece.with_name("mask.zarr"), consolidated=False)
    wall = time.perf_counter() - start
    return (
        f"{snapshots} snapshots of {snapshot:.0f} MB by {workers} threads: {wall:.0f} s, "
        f"peak memory {peak():.0f} MB ({before:.0f} MB of it before the first)"
    )


def peak() -> float:
    """Largest resident memory of this process so far in MB, as Linux knows it (getrusage inherits the parent's)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    main()
