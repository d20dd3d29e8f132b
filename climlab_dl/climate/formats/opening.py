"""Opening one file of any kind, and saying what is wrong with one that does not open."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import h5py
import netCDF4
import numpy as np
import xarray as xr
from xarray.backends import CachingFileManager, NetCDF4DataStore

from climlab_dl.netcdf import LOCK

Kind = Literal["hdf5", "classic", "grib", "zarr"]


def kind_of(path: Path) -> Kind:
    """Say what a file is by its first bytes; a name's ending proves nothing.

    Raises
    ------
    OSError
        When it is nothing of ours.
    """
    if path.is_dir():
        return "zarr"
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is a pipe or a device, in which nothing can be looked up; copy it to a file first.")
    with path.open("rb") as file:
        start = file.read(8)
    if start == b"\x89HDF\r\n\x1a\n":
        return "hdf5"
    if start[:3] == b"CDF":
        return "classic"
    if start[:4] == b"GRIB":
        return "grib"
    if not start:
        raise OSError(f"{path} is empty. Copy or download it again, or leave it out.")
    if start.startswith((b"\x93NUMPY", b"PK\x03\x04")):
        what = "NumPy's arrays? Fields are kept as NetCDF, with xarray.Dataset.to_netcdf; cubes with volumes.save."
    else:
        what = "a text file or a failed download? (Tables of tracks are for events.read_tracks.)"
    raise OSError(f"{path} is none of NetCDF, HDF5, Zarr and GRIB (it begins with {start!r}); {what}")


def hdf5(path: Path) -> h5py.File:
    """Open an HDF5 file without a lock; the caller closes it."""
    try:
        return h5py.File(path, locking=False)
    except OSError as error:
        raise unreadable(path, error) from None


def datasets(path: Path, kind: Kind) -> list[xr.Dataset]:
    """Open with xarray, without decoding times; NetCDF and Zarr are one dataset, GRIB may be several."""
    # Indexes of coordinates that are only looked at would take a third of the time.
    options: dict[str, Any] = {"chunks": None, "cache": False, "decode_times": False, "create_default_indexes": False}
    if kind == "classic":
        _complete(path)
    with warnings.catch_warnings():
        # Warnings of xarray about fill values and metadata of files that we did not write help nobody here.
        warnings.simplefilter("ignore")
        if kind == "grib":
            return _grib(path, options)
        try:
            return [_with_fills_of_their_type(_opened(path, kind, **options), path, kind, options)]
        except OSError as error:
            # HDF5 that h5py could open without a lock is sound, so it is the lock.
            raise (_locked(path, error) if kind == "hdf5" else unreadable(path, error)) from None


def _with_fills_of_their_type(opened: xr.Dataset, path: Path, kind: Kind, options: dict[str, Any]) -> xr.Dataset:
    """Open once more where a fill value is told in double precision, as some programs do, of numbers in single.

    Of 1e20 the two differ, and xarray compares them as they are.
    """
    fills = [
        (name, what, dtype)
        for name, variable in opened.variables.items()
        if (dtype := np.dtype(variable.encoding.get("dtype", variable.dtype))).kind == "f"
        for what in ("missing_value", "_FillValue")
        if _differs(variable.encoding.get(what), dtype)
    ]
    if not fills:
        return opened
    opened.close()
    raw = _opened(path, kind, **options, decode_cf=False)
    for name, what, dtype in fills:
        raw[name].attrs[what] = np.asarray(raw[name].attrs[what]).astype(dtype)[()]
    return xr.decode_cf(raw, decode_times=False)


def _differs(fill: Any, dtype: np.dtype) -> bool:
    """Whether a number is another one in a type; nothing, text and NaN are not."""
    value = np.asarray(fill)
    with np.errstate(over="ignore"):
        return value.dtype.kind == "f" and bool(((value == value) & (value != value.astype(dtype))).any())


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Name the file that the body reads, should that fail: what the libraries say names none.

    Raises
    ------
    OSError
        In place of the library's error.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        raise error if str(path) in str(error) else unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> OSError:
    """Say which file cannot be read."""
    if not path.exists():
        return FileNotFoundError(f"{path} was deleted while it was read; put it back, or leave it out.")
    size = f", {path.stat().st_size:,} bytes long" if path.is_file() else ""
    return OSError(
        f"{path} cannot be read: it is truncated or damaged{size} ({error}). "
        "Copy or download it again, or leave it out."
    )


def empty(path: Path) -> ValueError:
    """Say which file has no snapshots."""
    return ValueError(
        f"{path} has no snapshot: its time axis has length 0, as a job leaves it that ends before it writes. "
        "Write it again, or leave it out."
    )


def _opened(path: Path, kind: Kind, **options: Any) -> xr.Dataset:
    if kind == "zarr":
        return xr.open_dataset(path, engine="zarr", **options)
    with LOCK:
        return xr.open_dataset(_store(path), engine="store", **options)


def _store(path: Path) -> NetCDF4DataStore:
    """Open NetCDF as xarray does, but lean, and under our lock."""
    manager = CachingFileManager(_lean, os.path.abspath(path), mode="r", lock=LOCK)
    return NetCDF4DataStore(manager, mode="r", lock=LOCK)


def _lean(path: str, mode: Literal["r"]) -> Any:
    """Open without caches of chunks that hold one snapshot, as nobody reads it twice.

    xarray keeps 128 files open, and HDF5 a cache of megabytes for every variable of each: it adds up to gigabytes.
    """
    file = netCDF4.Dataset(path, mode)
    for variable in file.variables.values():
        chunks = variable.chunking()
        if isinstance(chunks, list) and chunks and chunks[0] == 1:
            variable.set_var_chunk_cache(0)
    return file


def _locked(path: Path, error: Exception) -> OSError:
    return OSError(
        f"{path} is damaged or locked ({error}): a block of it cannot be read, another program is writing it, or the "
        "file system knows no locks. Fetch it anew, close it there, or set HDF5_USE_FILE_LOCKING=FALSE before Python "
        "starts."
    )


def _complete(path: Path) -> None:
    """Refuse a classic NetCDF file that ends early: the library would give zeros for what is missing."""
    from scipy.io import netcdf_file

    with path.open("rb") as file:
        version = file.read(4)[3]
    if version not in (1, 2):  # scipy knows no 64-bit data
        return
    try:
        # Mapping every variable onto the file finds the one that reaches beyond its end.
        netcdf_file(str(path), mmap=True).close()
    except (TypeError, ValueError) as error:
        raise unreadable(path, error) from None


def _grib(path: Path, options: dict[str, Any]) -> list[xr.Dataset]:
    if find_spec("cfgrib") is None:
        raise OSError(f"{path} is GRIB, which needs the package cfgrib: pip install 'climlab-dl[grib]'.")
    import cfgrib  # pyright: ignore[reportMissingImports]

    # One file holds fields at several kinds of level, which are several datasets.
    return cfgrib.open_datasets(str(path), backend_kwargs={"indexpath": ""}, **options)
