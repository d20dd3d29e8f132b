"""NetCDF while other threads use it: a training reads ahead, writes what was held out, and is watched, in one process.

The NetCDF library knows no threads, and Python's package lets others run while it works. xarray takes a lock to read
numbers, but none to open a file, to look at its attributes and chunks, or to declare what it writes: two threads that
do so at once crash the process. Hence files are opened here, under a lock that reading takes too; and they are written
here, a call of the library at a time. (h5py lets in one thread at a time by itself, but ends Python on a full disk.)
"""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dask.config
import netCDF4
import xarray as xr
from xarray.backends import NetCDF4DataStore
from xarray.backends.common import ArrayWriter
from xarray.backends.netCDF4_ import NETCDF4_PYTHON_LOCK


class _Lock:
    """xarray's lock of the NetCDF library, which who holds it may take again: what opens a file reads of it, too."""

    def __init__(self) -> None:
        self._mine, self._held = threading.RLock(), 0

    def acquire(self, blocking: bool = True) -> bool:
        """Take it; whether that succeeded."""
        if not self._mine.acquire(blocking):
            return False
        if not self._held and not NETCDF4_PYTHON_LOCK.acquire(blocking):
            self._mine.release()
            return False
        self._held += 1
        return True

    def release(self) -> None:
        """Give it back."""
        self._held -= 1
        if not self._held:
            NETCDF4_PYTHON_LOCK.release()
        self._mine.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def __reduce__(self) -> str:  # in another process it is the lock of that one
        return "LOCK"


LOCK = _Lock()
"""For every call of the NetCDF library. Whoever holds it reads only what was opened with it and waits for no thread."""


def opened(path: str | Path, **options: Any) -> xr.Dataset:
    """Open a file as `xarray.open_dataset` does, whatever other threads read; the caller closes it.

    Parameters
    ----------
    path
        NetCDF-3 or NetCDF-4.
    options
        Of `xarray.open_dataset`.

    Raises
    ------
    OSError
        If it is not there, or no NetCDF.
    """
    with LOCK:
        return xr.open_dataset(path, engine="netcdf4", lock=LOCK, **options)


def write(
    dataset: xr.Dataset,
    path: Path,
    *,
    encoding: Mapping[str, Mapping[str, Any]] | None = None,
    unlimited: Sequence[str] = (),
) -> None:
    """Write a file as `xarray.Dataset.to_netcdf` does, whatever other threads read or write.

    Parameters
    ----------
    dataset
        In memory or lazy; blocks of dask are computed in the threads of this process.
    path
        The file, which becomes NetCDF-4.
    encoding
        Of variables, as for xarray.
    unlimited
        Dimensions that may grow.
    """
    writer = ArrayWriter()
    with LOCK:  # by hand: xarray's manager of files, interrupted while it begins, complains at its end
        store = _Store(netCDF4.Dataset(path, "w"), lock=LOCK)
    try:
        dataset.dump_to_store(store, writer=writer, encoding=dict(encoding or {}), unlimited_dims=set(unlimited))
        with dask.config.set(scheduler="threads"):  # no other process can write a file that is open in this one
            writer.sync()
    finally:
        store.close()  # under the lock


class _Store(NetCDF4DataStore):
    """xarray's, with the lock where it takes none, but not while it reads what it writes: that may lock on its own."""

    def set_attributes(self, attributes: Any) -> None:
        with LOCK:
            super().set_attributes(attributes)

    def set_dimensions(self, variables: Any, unlimited_dims: Any = None) -> None:
        with LOCK:
            super().set_dimensions(variables, unlimited_dims)

    def prepare_variable(self, name: Any, variable: xr.Variable, *args: Any, **options: Any) -> Any:
        read = variable.copy(deep=False, data=variable.data)
        with LOCK:
            return super().prepare_variable(name, read, *args, **options)
