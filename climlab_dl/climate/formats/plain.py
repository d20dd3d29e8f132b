"""Numbers that lie in a file one after the other, as HDF5 and NetCDF 4 keep what is neither chunked nor compressed.

Read past the library they cost what copying them costs, and threads that read need not wait for each other.
"""

import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from climlab_dl.climate.formats.opening import unreadable

_PACKED = {"scale_factor", "add_offset", "_Unsigned"}
_FILLS = ("_FillValue", "missing_value")
_kept = threading.local()


@dataclass(frozen=True)
class Plain:
    """Where the numbers of a dataset are in a file that was looked at.

    Attributes
    ----------
    offset : int
        Of the first byte.
    shape : tuple of int
    dtype : dtype
    fills : tuple of float
        What stands for a missing value.
    stamp : tuple of int
        Size and time of the file, by which one that has changed since is told.
    """

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    fills: tuple[float, ...]
    stamp: tuple[int, int]

    @classmethod
    def of(cls, dataset: Any, stamp: tuple[int, int]) -> "Plain | None":
        """Look at a dataset of an open file; None where it takes the library to read it."""
        offset = dataset.id.get_offset()
        if offset is None or dataset.dtype.kind not in "iuf":
            return None
        known = set(dataset.attrs)
        fills = [value for name in _FILLS if name in known for value in np.ravel(dataset.attrs[name]).tolist()]
        if known & _PACKED or (fills and dataset.dtype.kind != "f"):
            return None
        return cls(offset, dataset.shape, dataset.dtype, tuple(fill for fill in fills if fill == fill), stamp)

    def at(self, *index: int) -> "Plain":
        """Give the place of what is at an index of the first dimensions."""
        lead, inner = self.shape[: len(index)], self.shape[len(index) :]
        skipped = int(np.ravel_multi_index(index, lead)) if index else 0
        size = int(np.prod(inner, dtype=int)) * self.dtype.itemsize
        return replace(self, offset=self.offset + skipped * size, shape=inner)

    def read(self, path: Path, *, kept: bool = False) -> np.ndarray | None:
        """Read the numbers, missing ones as NaN, or None if the file is another one by now.

        Parameters
        ----------
        path
            The file, or one of the same size and time.
        kept
            Whether to read into an array of this thread that the next such call overwrites: to clear new pages for
            every snapshot takes as long as to read it.

        Raises
        ------
        OSError
            Naming the file, when it cannot be read.
        """
        try:
            with path.open("rb", buffering=0) as file:
                if stamp(file.fileno()) != self.stamp:
                    return None
                out = _scratch(self.shape, self.dtype) if kept else np.empty(self.shape, self.dtype)
                file.seek(self.offset)
                left = out.reshape(-1).view(np.uint8).data
                while left:
                    count = file.readinto(left)
                    if not count:
                        raise EOFError(f"it ends {len(left):,} bytes early")
                    left = left[count:]
        except (OSError, EOFError) as error:
            raise unreadable(path, error) from None
        for fill in self.fills:
            out[out == out.dtype.type(fill)] = np.nan
        return out


def stamp(number: int) -> tuple[int, int]:
    """Size and time of the file that a descriptor is of."""
    status = os.fstat(number)
    return status.st_size, status.st_mtime_ns


def plain(path: Path, group: Any) -> dict[str, Plain]:
    """Say which datasets of a group of an open file can be read without the library."""
    status = path.stat()
    when = status.st_size, status.st_mtime_ns
    found = {name: Plain.of(item, when) for name, item in group.items() if isinstance(item, h5py.Dataset)}
    return {name: place for name, place in found.items() if place is not None}


def _scratch(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Give an array of this thread that is used again and again."""
    array = getattr(_kept, "array", None)
    if array is None or array.shape != shape or array.dtype != dtype:
        array = _kept.array = np.empty(shape, dtype)
    return array
