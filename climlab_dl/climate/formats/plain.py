"""Numbers that lie in a file one after the other, as HDF5 and NetCDF 4 keep what is neither chunked nor compressed.

Read past the library they cost what copying them costs, and threads that read need wait neither for each other nor for
the interpreter's lock.
"""

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from climlab_dl.climate.formats.opening import unreadable

_PACKED = (b"scale_factor", b"add_offset", b"_Unsigned")
_FILLS = (b"_FillValue", b"missing_value")
_kept = threading.local()


@dataclass(frozen=True)
class Plain:
    """Where the numbers of a dataset are in its file.

    Attributes
    ----------
    offset : int
        Of the first byte.
    shape : tuple of int
    dtype : dtype
    fills : tuple of float
        What stands for a missing value.
    """

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype
    fills: tuple[float, ...]

    @classmethod
    def find(cls, path: Path, name: str) -> "Plain | None":
        """Look for a dataset of an HDF5 file; None where it takes the library to read it, or to say what is wrong."""
        try:
            with h5py.File(path, locking=False) as file:
                dataset: Any = file[name]
                # A link may lead to another file, and a dataset's numbers may lie in one.
                here = dataset.file.filename == file.filename and not dataset.external
                return cls.of(dataset) if here else None
        except (KeyError, OSError):
            return None

    @classmethod
    def of(cls, dataset: Any) -> "Plain | None":
        """Look at a dataset of an open file; None where it takes the library to read it."""
        offset, dtype = dataset.id.get_offset(), dataset.dtype
        if offset is None or dtype.kind not in "iuf":
            return None
        # Asked for by name, because to list the attributes takes longer than to open the file.
        packed, missing = ([name for name in names if h5py.h5a.exists(dataset.id, name)] for names in (_PACKED, _FILLS))
        if packed or (missing and dtype.kind != "f"):
            return None
        values = [np.ravel(dataset.attrs[name.decode()]) for name in missing]
        if any(value.dtype.kind not in "iuf" for value in values):  # text, of which the library makes what it can
            return None
        fills = [fill for value in values for fill in value.tolist()]
        return cls(offset, dataset.shape, dtype, tuple(fill for fill in fills if fill == fill))

    def at(self, *index: int) -> "Plain":
        """Give the place of what is at an index of the first dimensions."""
        lead, inner = self.shape[: len(index)], self.shape[len(index) :]
        skipped = int(np.ravel_multi_index(index, lead)) if index else 0
        size = int(np.prod(inner, dtype=int)) * self.dtype.itemsize
        return replace(self, offset=self.offset + skipped * size, shape=inner)

    def read(self, path: Path, *, kept: bool = False) -> np.ndarray:
        """Read the numbers, missing ones as NaN.

        Parameters
        ----------
        path
            The file.
        kept
            Whether to read into an array of this thread that the next such call overwrites: to clear new pages for
            every snapshot takes as long as to read it.

        Raises
        ------
        OSError
            Naming the file, when it cannot be read.
        """
        out = _scratch(self.shape, self.dtype) if kept else np.empty(self.shape, self.dtype)
        try:
            with path.open("rb", buffering=0) as file:
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


def _scratch(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Give an array of this thread that is used again and again."""
    array = getattr(_kept, "array", None)
    if array is None or array.shape != shape or array.dtype != dtype:
        array = _kept.array = np.empty(shape, dtype)
    return array
