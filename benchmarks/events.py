"""Time to find, follow and outline the events of a snapshot of 768 x 1152, and memory that a long archive takes.

    python benchmarks/events.py                  # 100 snapshots
    python benchmarks/events.py --snapshots 20

Mask and fields are made as they are read: smooth noise that drifts, of which 6 % are rivers and 0.5 % cyclones, as in
the labels of ClimateNet. Times are of one core.
"""

import argparse
import platform
import resource
import time
from typing import Any

import dask.array
import dask.config
import numpy as np
import pandas as pd
import xarray as xr
from scipy import ndimage

from climlab_dl import events

ROWS, COLUMNS = 768, 1152
FIELDS = {
    "PSL": (101e3, 3e3),
    "UBOT": (0, 30),
    "VBOT": (0, 20),
    "TMQ": (30, 30),
    "IVT": (500, 500),
    "PRECT": (1e-5, 1e-5),
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--snapshots", type=int, default=100, help="length of the archive (default 100)")
    snapshots = options.parse_args().snapshots
    print(f"{platform.node()}: {platform.processor() or platform.machine()}, Python {platform.python_version()}")
    mask, fields = drifting(snapshots)
    at_once = 4
    loaded, loaded_fields = mask[:at_once].load(), fields.isel(time=slice(at_once)).load()
    events.find(loaded[:1], loaded_fields)  # the land of this grid is looked up once
    table = timed("find", at_once, lambda: events.find(loaded, loaded_fields))
    timed("to_geojson", at_once, lambda: events.to_geojson(loaded, table=table))
    print(f"{len(table) / at_once:.0f} events a snapshot")
    before = peak_mib()
    table = timed(f"find, lazily, {snapshots} snapshots", snapshots, lambda: events.find(mask, fields))
    print(f"{len(table)} rows; peak memory {before:.0f} MiB before, {peak_mib():.0f} MiB after")


def drifting(snapshots: int) -> tuple[xr.DataArray, xr.Dataset]:
    """Make a lazy mask and lazy fields, one snapshot a chunk."""
    noise = np.random.default_rng(0).normal(size=(ROWS, COLUMNS))
    smooth = ndimage.gaussian_filter(np.pad(noise, ((0, 0), (64, 64)), mode="wrap"), 14)[:, 64:-64]
    smooth = (smooth / np.abs(smooth).max()).astype(np.float32)
    low, high = np.quantile(smooth, [0.005, 0.94])
    coords = {
        "time": pd.date_range("2000-01-01", periods=snapshots, freq="6h"),
        "lat": np.linspace(-90, 90, ROWS),
        "lon": np.arange(COLUMNS) * 360 / COLUMNS,
    }
    chunks = ((1,) * snapshots, (ROWS,), (COLUMNS,))

    def lazy(make, dtype):
        def block(block_info: Any = None):
            step = block_info[None]["array-location"][0][0]
            return make(np.roll(smooth, 3 * step, axis=1))[None].astype(dtype)

        return dask.array.map_blocks(block, chunks=chunks, dtype=dtype, meta=np.empty((0, 0, 0), dtype))

    dims = ("time", "lat", "lon")
    classes = lazy(lambda values: np.where(values > high, 2, np.where(values < low, 1, 0)), np.int8)
    fields = {
        name: (dims, lazy(lambda values, mean=mean, range_=range_: mean + range_ * values, np.float32))
        for name, (mean, range_) in FIELDS.items()
    }
    return xr.DataArray(classes, coords, dims), xr.Dataset(fields, coords)


def timed(what, snapshots, call):
    """Call, and print the processor time a snapshot."""
    begin = time.process_time()
    result = call()
    print(f"{what}: {(time.process_time() - begin) / snapshots:.3f} s a snapshot")
    return result


def peak_mib() -> float:
    """Peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    with dask.config.set(scheduler="synchronous"):
        main()
