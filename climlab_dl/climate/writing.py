"""Back to files: CF NetCDF and Zarr here, the layouts of DeepCAM and ClimateNet in their own modules."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import dask.config
import numpy as np
import xarray as xr
from dask.base import compute
from dask.system import CPU_COUNT

from climlab_dl import netcdf
from climlab_dl.climate.formats import climatenet, deepcam
from climlab_dl.files import beside

Layout = Literal["cf", "deepcam", "climatenet"]
_FOLDERS: dict[str, Callable[[xr.Dataset, Path], Path]] = {"deepcam": deepcam.write, "climatenet": climatenet.write}
_PACKED_STEPS = 65534  # of int16, less the fill value and one


def save(fields: xr.Dataset, path: str | Path, *, layout: Layout = "cf", packed: bool = False) -> Path:
    """Write a dataset, snapshot by snapshot, in a form that `archive.open` and others read.

    Parameters
    ----------
    fields : Dataset
        As `archive.open` gives it, lazy or not, with or without ``mask``.
    path : str or Path
        ``*.nc`` for NetCDF and ``*.zarr`` for Zarr; a folder for the layouts of one file a snapshot.
    layout : {"cf", "deepcam", "climatenet"}
        CF-1.11; or HDF5 files and ``stats.h5`` as DeepCAM's reader wants them, with the 16 channels of CAM5; or NetCDF
        files as ClimateNet's does.
    packed : bool
        Store fields of a NetCDF file as int16 between their smallest and largest value, which halves it and keeps a
        65,000th of the range. Masks are integers in any case.

    Returns
    -------
    Path
        What was written.

    Raises
    ------
    ValueError
        When the ending is neither, or the layout cannot hold the dataset.
    """
    path = Path(path).expanduser()
    if layout in _FOLDERS:
        return _FOLDERS[layout](fields, path)
    if path.suffix not in (".nc", ".zarr"):
        raise ValueError(
            f"{path} ends in {path.suffix!r}; expected .nc or .zarr. "
            "For a folder with a file a snapshot choose layout='deepcam' or layout='climatenet'."
        )
    dataset = _described(fields)
    # The threads that dask keeps would go on writing for a while after one of them has failed; ours are waited for.
    with beside(path) as new, ThreadPoolExecutor(CPU_COUNT) as pool, dask.config.set(pool=pool):
        if path.suffix == ".zarr":
            # Texts of one length have no place in Zarr's specification, those of any length have.
            texts = {name: dataset[name].astype(object) for name in dataset.coords if dataset[name].dtype.kind == "U"}
            dataset.assign_coords(texts).to_zarr(new, consolidated=False)
        else:
            netcdf.write(dataset, new, encoding=_encoding(dataset, packed), unlimited=["time"])
    return path


def _described(fields: xr.Dataset) -> xr.Dataset:
    """Fields with global attributes, without notes on where they came from and without encodings of old files."""
    dataset = fields.drop_encoding()
    for name, variable in dataset.variables.items():
        dataset[name].attrs = {k: v for k, v in variable.attrs.items() if not k.startswith("came_")}
    dataset.attrs.pop("unrecognised", None)
    line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} climlab-dl {version('climlab-dl')}: archive.save"
    history = "\n".join(filter(None, [line, str(dataset.attrs.get("history", ""))]))
    return dataset.assign_attrs(Conventions="CF-1.11", history=history)


def _encoding(dataset: xr.Dataset, packed: bool) -> dict[str, dict[str, Any]]:
    """One compressed chunk a snapshot; NaN as the fill value of floats, none for integers and coordinates."""
    encoding: dict[str, dict[str, Any]] = {str(name): {"_FillValue": None} for name in dataset.coords}
    floats = [str(name) for name, variable in dataset.data_vars.items() if variable.dtype.kind == "f"]
    extremes = compute({n: (dataset[n].min(), dataset[n].max()) for n in floats})[0] if packed else {}
    for name, variable in dataset.data_vars.items():
        chunk = tuple(1 if d == "time" else n for d, n in variable.sizes.items())
        how: dict[str, Any] = {"zlib": True, "complevel": 1, "shuffle": True, "chunksizes": chunk}
        if name in extremes:
            low, high = (float(v) for v in extremes[str(name)])
            # A field that is one number everywhere, or no number at all, still needs a scale above zero.
            scale = (high - low) / _PACKED_STEPS if high > low else 1.0
            middle = np.nan_to_num(low + 0.5 * (high - low))
            how |= {"dtype": "int16", "scale_factor": scale, "add_offset": middle, "_FillValue": np.int16(-32768)}
        else:
            how["_FillValue"] = np.float32(np.nan) if variable.dtype.kind == "f" else None
        encoding[str(name)] = how
    return encoding
