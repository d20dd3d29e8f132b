"""Numbers that lie in a file one after the other, as HDF5 and NetCDF 4 keep what is not compressed.

Read past the library they cost what copying them costs, and threads that read need wait neither for each other nor for
the interpreter's lock. Of a dataset in chunks this holds for what lies in one of them, such as a snapshot.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from climlab_dl.climate.formats.opening import unreadable
from climlab_dl.files import Stamp

_PACKED = (b"scale_factor", b"add_offset", b"_Unsigned")
_FILLS = (b"_FillValue", b"missing_value")
_kept = threading.local()


@dataclass(frozen=True)
class Plain:
    """Where the numbers of a dataset, or of a part of it, are in its file.

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
    def find(cls, path: Path, name: str, index: Sequence[int] = ()) -> "Plain | None":
        """Look for what is at an index of the first dimensions of a dataset of an HDF5 file.

        None where it takes the library to read it, or to say what is wrong.
        """
        try:
            layout = _layout(Stamp.of(path), name)
        except OSError:
            return None
        return None if layout is None else layout.at(index)

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


@dataclass(frozen=True)
class _Layout:
    """Where the chunks of a dataset are; what is not in chunks is one.

    Attributes
    ----------
    shape, chunk : tuple of int
        Of the dataset and of each chunk.
    offsets : ndarray
        Of the first byte of each chunk, with as many dimensions as the dataset; -1 for one that was never written.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    offsets: np.ndarray
    dtype: np.dtype
    fills: tuple[float, ...]

    def at(self, index: Sequence[int]) -> Plain | None:
        """Give the place of what is at an index of the first dimensions, if it lies in one piece."""
        lead, inner = self.chunk[: len(index)], self.shape[len(index) :]
        if self.chunk[len(index) :] != inner or any(at >= size for at, size in zip(index, self.shape, strict=False)):
            return None
        chunk = [at // size for at, size in zip(index, lead, strict=True)]
        start = int(self.offsets[(*chunk, *(0,) * len(inner))])
        if start < 0:
            return None
        within = [at % size for at, size in zip(index, lead, strict=True)]
        skipped = int(np.ravel_multi_index(within, lead)) if lead else 0
        size = int(np.prod(inner, dtype=int)) * self.dtype.itemsize
        return Plain(start + skipped * size, inner, self.dtype, self.fills)


@lru_cache(maxsize=512)
def _layout(stamp: Stamp, name: str) -> _Layout | None:
    """Look at a dataset once, as long as its file stays what it is; None where it takes the library to read it."""
    try:
        with h5py.File(stamp.path, locking=False) as file:
            dataset: Any = file[name]
            # A link may lead to another file, and a dataset's numbers may lie in one; before a user's block, addresses
            # count from elsewhere.
            here = dataset.file.filename == file.filename and not dataset.external and not file.userblock_size
            return _layout_of(dataset) if here else None
    except (KeyError, OSError):
        return None


def _layout_of(dataset: Any) -> _Layout | None:
    dtype, shape = dataset.dtype, dataset.shape
    if dtype.kind not in "iuf" or dataset.id.get_create_plist().get_nfilters() or not dataset.size:
        return None
    # Asked for by name, because to list the attributes takes longer than to open the file.
    packed, missing = ([name for name in names if h5py.h5a.exists(dataset.id, name)] for names in (_PACKED, _FILLS))
    if packed or (missing and dtype.kind != "f"):
        return None
    values = [np.ravel(dataset.attrs[name.decode()]) for name in missing]
    if any(value.dtype.kind not in "iuf" for value in values):  # text, of which the library makes what it can
        return None
    fills = tuple(fill for value in values for fill in value.tolist() if fill == fill)
    if dataset.chunks is None:
        start = dataset.id.get_offset()
        return None if start is None else _Layout(shape, shape, np.full((1,) * len(shape), start), dtype, fills)
    offsets = np.full([-(-size // step) for size, step in zip(shape, dataset.chunks, strict=True)], -1)

    def note(chunk: Any) -> None:
        offsets[tuple(at // step for at, step in zip(chunk.chunk_offset, dataset.chunks, strict=True))] = (
            chunk.byte_offset
        )

    dataset.id.chunk_iter(note)
    return _Layout(shape, dataset.chunks, offsets, dtype, fills)


def _scratch(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Give an array of this thread that is used again and again."""
    array = getattr(_kept, "array", None)
    if array is None or array.shape != shape or array.dtype != dtype:
        array = _kept.array = np.empty(shape, dtype)
    return array
