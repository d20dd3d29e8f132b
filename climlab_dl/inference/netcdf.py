"""Detections to NetCDF, a snapshot at a time: while one is written, the next is computed and the one after it read."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from dask.base import optimize
from dask.local import get_sync
from dask.optimization import cull

from climlab_dl import netcdf
from climlab_dl.files import beside

# One thread computes while another reads; a third would only hold another snapshot.
THREADS = 2
# Numbers packed into 8-bit integers have so many steps from 0 to their largest, and one number left for no data.
STEPS = 254
NO_DATA = np.int8(-128)


def write(
    found: xr.Dataset, path: Path, *, packed: bool = False, progress: Callable[[float], object] = lambda share: None
) -> None:
    """Write what `detect` found, beside what is there and then in its place.

    Snapshots are written in order, for chunks would otherwise lie in the file as threads happened to finish them.

    Parameters
    ----------
    found
        Lazy; at most four snapshots of its fields are in memory.
    path
        The file.
    packed
        Pack floats to steps of a 254th of their largest value: 1 for probabilities, ln(classes) for entropies.
    progress
        Called with the share of the whole that each snapshot is, when it is written.
    """
    import netCDF4

    found = found.drop_encoding()
    largest = {
        str(name): (1.0 if name == "probabilities" else np.log(len(found["mask"].attrs["flag_values"])))
        for name, variable in found.data_vars.items()
        if packed and variable.dtype.kind == "f"
    }
    with beside(path) as new:
        coordinates = found.drop_vars(list(found.data_vars))
        plain = {str(name): {"_FillValue": None} for name in found.coords}
        netcdf.write(coordinates, new, encoding=plain)
        with netcdf.LOCK:
            file = netCDF4.Dataset(new, "a")
        try:
            for name, variable in found.data_vars.items():
                _declare(file, str(name), variable, largest.get(str(name)))
            for step, snapshot in enumerate(_ahead(found)):
                at = (step,) if "time" in found.dims else ()
                for name, values in snapshot.items():
                    if name in largest:
                        scaled = np.rint((values / largest[name] - 0.5) * STEPS)
                        values = np.where(np.isnan(values), NO_DATA, scaled).astype(np.int8)
                    with netcdf.LOCK:
                        file[name][at] = values
                progress(1 / found.sizes.get("time", 1))
        finally:
            with netcdf.LOCK:
                file.close()


def _declare(file: Any, name: str, variable: xr.DataArray, largest: float | None) -> None:
    chunk = tuple(1 if dim == "time" else size for dim, size in variable.sizes.items())
    fill: Any = False if variable.dtype.kind != "f" else np.float32(np.nan) if largest is None else NO_DATA
    with netcdf.LOCK:
        for dim, size in variable.sizes.items():
            if dim not in file.dimensions:
                file.createDimension(str(dim), size)
        how = {"compression": "zlib", "complevel": 1, "shuffle": True, "chunksizes": chunk, "fill_value": fill}
        made = file.createVariable(name, variable.dtype if largest is None else "i1", variable.dims, **how)
        made.set_auto_maskandscale(False)
        made.setncatts(variable.attrs)
        if largest is not None:
            made.setncatts({"scale_factor": largest / STEPS, "add_offset": largest / 2})


def _ahead(found: xr.Dataset) -> Iterator[dict[str, np.ndarray]]:
    """Give the values of the variables, snapshot by snapshot, computed a few ahead of their use."""
    timed = found if "time" in found.dims else found.expand_dims("time")
    # Optimised once: to take a snapshot of the dataset and compute that looks at the whole archive's graph each time.
    (timed,) = optimize(timed.chunk({dim: 1 if dim == "time" else -1 for dim in timed.dims}))
    graph, arrays = dict(timed.__dask_graph__()), {str(name): array.data for name, array in timed.data_vars.items()}

    def compute(step: int) -> dict[str, np.ndarray]:
        keys = [(array.name, step, *(0,) * (array.ndim - 1)) for array in arrays.values()]
        blocks: Any = get_sync(cull(graph, keys)[0], keys)
        return {name: block[0] for name, block in zip(arrays, blocks, strict=True)}

    with ThreadPoolExecutor(THREADS) as pool:
        waiting: deque[Future[dict[str, np.ndarray]]] = deque()
        for step in range(timed.sizes["time"]):
            waiting.append(pool.submit(compute, step))
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
