"""Back to files: written beside the old one and renamed, so that a reader sees the old or the new, never a half."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from dask.base import compute

_PACKED_STEPS = 65534  # of int16, less the fill value and one


def save(fields: xr.Dataset, path: str | Path, *, packed: bool = False) -> Path:
    """Write a dataset, snapshot by snapshot, in a form that `archive.open` and others read.

    Parameters
    ----------
    fields : Dataset
        As `archive.open` gives it, lazy or not, with or without ``mask``.
    path : str or Path
        ``*.nc`` for NetCDF (CF-1.11) and ``*.zarr`` for Zarr.
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
        When the ending is neither, so that the format is unknown.
    """
    path = Path(path).expanduser()
    endings: dict[str, Callable[[xr.Dataset, Path], Any]] = {
        ".nc": lambda dataset, beside: dataset.to_netcdf(
            beside, engine="netcdf4", encoding=_encoding(dataset, packed), unlimited_dims=["time"]
        ),
        ".zarr": lambda dataset, beside: dataset.to_zarr(beside, consolidated=False),
    }
    if path.suffix not in endings:
        raise ValueError(f"{path} ends in {path.suffix!r}; expected .nc or .zarr. ")
    dataset = _described(fields)
    with beside(path) as temporary:
        endings[path.suffix](dataset, temporary)
    return path


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Give a path to write to; what is there at the end takes the place of ``path`` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        new = folder / path.name
        yield new
        if path.is_dir():
            os.rename(path, folder / "old")
        os.replace(new, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
