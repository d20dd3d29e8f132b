"""Many files as one lazy array: a snapshot is read, converted and turned round only when it is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np

from climlab_dl.climate.grid import Grid
from climlab_dl.climate.units import SAME, Conversion
from climlab_dl.files import Stamp

_ROWS = 8


@dataclass(frozen=True, kw_only=True)
class Stack:
    """An array (time, ..., lat, lon) whose snapshots lie in files.

    Dask reads it one snapshot at a time; with everything done in one task, a thousand files are a thousand tasks
    and no more, and what a worker needs is pickled with no open file in it.

    Attributes
    ----------
    read : callable
        ``read(file, index)`` gives snapshot ``index`` of file number ``file`` as the file has it, in an array that
        the next reading may overwrite.
    where : ndarray, shape (time, 2)
        File and index of each snapshot.
    inner : tuple of int
        Shape of a snapshot after the reordering, without time.
    grid : Grid
        The reordering of the last two axes.
    dtype : dtype
        float32 for fields, int8 for masks.
    conversion : Conversion
        To SI; not applied to masks.
    guard : callable, optional
        ``guard(number, snapshot, picks)`` raises where a snapshot cannot be, and says whether it has gaps.
    stamps : sequence, optional
        What the files with each number were when they were opened: where a snapshot lies, and how, was looked up then.
    """

    read: Callable[[int, int], np.ndarray]
    where: np.ndarray
    inner: tuple[int, ...]
    grid: Grid
    dtype: np.dtype
    conversion: Conversion = SAME
    guard: Callable[[int, np.ndarray, Sequence[int] | None], bool] | None = None
    stamps: Sequence[Sequence[Stamp]] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape with time first."""
        return (len(self.where), *self.inner)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, key: Any) -> np.ndarray:
        times, *rest = key if isinstance(key, tuple) else (key,)
        numbers = np.arange(len(self.where))[times]
        snapshots = np.empty((len(numbers), *self.inner), self.dtype)
        for number, snapshot in zip(numbers, snapshots, strict=True):
            self.fill(number, snapshot)
        return snapshots[(slice(None), *rest)]

    def fill(self, number: int, out: np.ndarray, picks: Sequence[int] | None = None) -> bool:
        """Read a snapshot into an array that is there already.

        Parameters
        ----------
        number
            Of the snapshot.
        out
            (..., lat, lon), of any strides.
        picks
            Which of what lies along the first axis is wanted, in this order; by default all.

        Returns
        -------
        bool
            Whether a field has gaps (NaN).

        Raises
        ------
        OSError, ValueError
            Naming the file, if it was deleted or replaced, cannot be read, or holds what cannot be.
        """
        file, index = self.where[number]
        for stamp in self.stamps[file] if self.stamps else ():
            stamp.check()
        values = np.asarray(self.read(int(file), int(index)))[..., self.grid.rows, :][..., self.grid.columns]
        # A few rows at a time stay in the cache while they are turned round and converted.
        for start in range(0, values.shape[-2], _ROWS):
            rows = (..., slice(start, start + _ROWS), slice(None))
            some = values[rows] if picks is None else values[rows][list(picks)]
            if self.conversion != SAME:
                # In double precision, because 2e-9 m/s and 101325 Pa both have to survive their scales.
                some = some * np.float64(self.conversion.scale) + self.conversion.offset
            out[rows] = some
        return self.guard is not None and self.guard(number, out, picks)

    def lazy(self) -> da.Array:
        """Give the dask array with one snapshot a chunk."""
        chunks: Any = ((1,) * len(self.where), *((n,) for n in self.inner))
        meta = np.empty((0,) * self.ndim, self.dtype)
        return da.from_array(self, chunks=chunks, name=False, asarray=True, fancy=False, meta=meta)
