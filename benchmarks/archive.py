"""Time to open, read, check and save climate files, and to open a folder of a thousand.

    python benchmarks/archive.py

A snapshot of 768 x 1152 with 16 fields is written in three layouts; then a thousand small files of each kind are
opened. Processor time is given besides the time on the clock, because a shared machine disturbs it less.
"""

import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr
from dask.local import get_sync

from climlab_dl import archive
from climlab_dl.climate.fields import CAM5, FIELDS

FILES = 1000


def main() -> None:
    print(f"{platform.node()}: {platform.processor() or platform.machine()}, Python {platform.python_version()}")
    timed("open the sample archive", lambda: archive.open(archive.sample()))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        large = snapshot(768, 1152)
        for kind in ("cf", "deepcam", "climatenet"):
            path = folder / (f"{kind}.nc" if kind == "cf" else kind)
            timed(f"{kind}: save 768 x 1152 x 16", lambda path=path, kind=kind: archive.save(large, path, layout=kind))
            fields = timed(f"{kind}: open", lambda path=path: archive.open(path))
            timed(f"{kind}: read", lambda fields=fields: fields.compute(scheduler=get_sync))
            timed(f"{kind}: check", lambda path=path: archive.check(path))
        for kind in ("nc", "h5"):
            many = copies(snapshot(12, 24), folder / f"many_{kind}", kind)
            fields = timed(f"open {FILES} {kind} files", lambda many=many: archive.open(many))
            middle = fields.isel(time=FILES // 2)
            timed("read one snapshot of them", lambda middle=middle: middle.compute(scheduler=get_sync))


def timed(what: str, call: Callable[[], Any]) -> Any:
    """Call, and print how long it took on the clock and on the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    result = call()
    print(f"{what:40s} {time.perf_counter() - clock:8.3f} s, processor {time.process_time() - processor:8.3f} s")
    return result


def snapshot(rows: int, columns: int) -> xr.Dataset:
    """Make one snapshot of noise within the colours of each field, with an empty mask."""
    rng = np.random.default_rng(0)
    dims = ("time", "lat", "lon")
    variables: dict[str, Any] = {"mask": (dims, np.zeros((1, rows, columns), np.int8))}
    for name in CAM5:
        low, high = FIELDS[name].display
        values = low + (high - low) * rng.random((1, rows, columns), np.float32)
        variables[name] = (dims, values.astype(np.float32), FIELDS[name].attributes)
    coordinates = {
        "time": [np.datetime64("2001-01-01", "ns")],
        "lat": ("lat", np.linspace(-90, 90, rows), {"units": "degrees_north"}),
        "lon": ("lon", np.arange(columns) * 360 / columns, {"units": "degrees_east"}),
    }
    return xr.Dataset(variables, coordinates)


def copies(one: xr.Dataset, folder: Path, kind: str) -> Path:
    """Write a file of one snapshot without a time, and copy it under the names of three-hourly steps."""
    folder.mkdir()
    first = folder / f"data-2000-01-01-00-1.{kind}"
    if kind == "nc":
        one.isel(time=0).drop_vars("time").to_netcdf(first)
    else:
        with h5py.File(first, "w") as file:
            file["climate/data"] = np.stack([one[name].values[0] for name in CAM5], axis=-1)
            file["climate/labels_0"] = one.mask.values[0].astype(np.float32)
    for i in range(1, FILES):
        when = datetime(2000, 1, 1) + timedelta(hours=3 * i)
        shutil.copy(first, folder / f"data-{when:%Y-%m-%d}-{when.hour // 3:02d}-1.{kind}")
    return folder


if __name__ == "__main__":
    main()
