"""What a group of like files offers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

from climlab_dl.climate import times
from climlab_dl.climate.checks import Guard
from climlab_dl.climate.fields import FAMILIES, FIELDS
from climlab_dl.climate.grid import Grid
from climlab_dl.climate.labels import DETECTED, EVERY, LABELS, LABELS_ATTRIBUTES, MASK, MASK_ATTRIBUTES, flags
from climlab_dl.climate.stack import Stack
from climlab_dl.climate.units import SAME, Conversion
from climlab_dl.files import Stamp

NUMBERS = {"run": "run of the model", "labelling": "labelling"}
"""Coordinates along time that tell snapshots of the same time apart."""


@dataclass(frozen=True, kw_only=True)
class Content:
    """One variable of a group of files.

    Attributes
    ----------
    read : callable
        ``read(file, index)`` gives a snapshot as the file has it, (..., lat, lon).
    dims, inner : tuple
        Names and sizes of the dimensions before lat and lon, without time.
    conversion : Conversion
        To SI.
    original : str
        What the file calls it.
    component : int, optional
        Which of the first inner dimension this is, where one reading of a file yields several variables.
    kinds : tuple of int
        Classes that it may hold, if it is a mask.
    """

    read: Callable[[int, int], np.ndarray]
    dims: tuple[str, ...] = ()
    inner: tuple[int, ...] = ()
    conversion: Conversion = SAME
    original: str = ""
    component: int | None = None
    kinds: tuple[int, ...] = EVERY


@dataclass(frozen=True, kw_only=True)
class Part:
    """Files of one layout: their times, their grid and how to read each variable.

    Attributes
    ----------
    files : sequence of Path
    where : ndarray of int, shape (time, 2)
        File number and index in it of each snapshot.
    time : Variable
        Time of each snapshot.
    numbers : ndarray of int, shape (time, 2)
        Number of the model run and of the labelling of each snapshot, -1 where there is none.
    grid : Grid
    contents : mapping
        By canonical name.
    coordinates : mapping
        Of the dimensions that are neither time nor lat nor lon.
    unrecognised : tuple of str
        Names in the files that mean nothing here.
    partners : sequence of Path
        A second file for each of ``files``, where snapshots are read from both.
    stamps : mapping
        What each file was when it was opened.
    """

    files: Sequence[Path]
    where: np.ndarray
    time: xr.Variable
    numbers: np.ndarray
    grid: Grid
    contents: Mapping[str, Content]
    coordinates: Mapping[str, xr.Variable] = field(default_factory=dict)
    unrecognised: tuple[str, ...] = ()
    partners: Sequence[Path] = ()
    stamps: Mapping[Path, Stamp] = field(default_factory=dict)

    @property
    def _dated(self) -> bool:
        return times.calendar(self.time) != "none"

    def dataset(self, *, guarded: bool = False) -> xr.Dataset:
        """Lazy dataset with times in order, and the file of each snapshot in ``encoding["files"]``.

        ``encoding["stacks"]`` has what each variable is read by, and which component of it that is.
        A guarded one raises ValueError when a snapshot is read that cannot be.
        """
        order = in_order(self.time.values, self.numbers)
        where = self.where[order]
        variables: dict[str, Any] = {}
        stacks: dict[int, Stack] = {}
        lazy: dict[int, da.Array] = {}
        stamps = self._stamps() if self.stamps else ()
        for name, content in self.contents.items():
            if (key := id(content.read)) not in stacks:
                guard = self._guard(content, order) if guarded else None
                dtype = np.int8 if name in (MASK, LABELS) else np.float32
                stacks[key] = self._stack(content, where, dtype, guard, stamps)
                lazy[key] = stacks[key].lazy()
            values = lazy[key] if content.component is None else _component(lazy[key], content.component)
            dims = ("time", *content.dims, "lat", "lon")
            variables[name] = (dims, values, _attributes(name, content))
        came = self.grid.came
        coordinates = {
            "time": ("time", self.time.values[order], {"standard_name": "time"} if self._dated else self.time.attrs),
            "lat": ("lat", self.grid.lat, {"standard_name": "latitude", "units": "degrees_north", **came["lat"]}),
            "lon": ("lon", self.grid.lon, {"standard_name": "longitude", "units": "degrees_east", **came["lon"]}),
            **self.coordinates,
        }
        for column, (name, meaning) in enumerate(NUMBERS.items()):
            if (self.numbers[:, column] >= 0).any():
                numbers = self.numbers[order, column].astype(np.int32)
                coordinates[name] = ("time", numbers, {"long_name": f"number of the {meaning}"})
        dataset = xr.Dataset(variables, coordinates)
        dataset.encoding["files"] = [self.files[i] for i in where[:, 0]]
        dataset.encoding["stacks"] = {
            name: (stacks[id(content.read)], content.component) for name, content in self.contents.items()
        }
        if self.unrecognised:
            dataset.attrs["unrecognised"] = " ".join(self.unrecognised)
        return dataset

    def _guard(self, content: Content, order: np.ndarray) -> Guard:
        """Guard the fields that are read together with one, in this order of snapshots."""
        fields = tuple(
            (other.component, name)
            for name, other in self.contents.items()
            if other.read is content.read and (name in FIELDS or name in FAMILIES)
        )
        return Guard(fields=fields, files=self.files, where=self.where[order], times=self.time.values[order])

    def _stamps(self) -> list[list[Stamp]]:
        together = (self.files, self.partners) if self.partners else (self.files,)
        return [[self.stamps[path] for path in paths] for paths in zip(*together, strict=True)]

    def _stack(
        self,
        content: Content,
        where: np.ndarray,
        dtype: type,
        guard: Guard | None,
        stamps: Sequence[Sequence[Stamp]],
    ) -> Stack:
        return Stack(
            read=content.read,
            where=where,
            inner=(*content.inner, self.grid.lat.size, self.grid.lon.size),
            grid=self.grid,
            dtype=np.dtype(dtype),
            conversion=content.conversion,
            guard=guard,
            stamps=stamps,
        )


def _component(values: da.Array, index: int) -> da.Array:
    """Take one of several variables that are read together; a block at a time, so that a long archive stays small."""
    meta = np.empty((0, 0, 0), values.dtype)
    return da.map_blocks(_take, values, index, drop_axis=1, dtype=values.dtype, meta=meta)


def _take(block: np.ndarray, index: int) -> np.ndarray:
    return block[:, index]


def in_order(time: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """By run of the model, then by time, then by labelling."""
    run, labelling = numbers.T
    return np.lexsort((labelling, np.unique(time, return_inverse=True)[1], run))


def _attributes(name: str, content: Content) -> dict:
    known = {MASK: {**MASK_ATTRIBUTES, **flags(content.kinds)}, LABELS: LABELS_ATTRIBUTES, **DETECTED}
    attributes = known[name] if name in known else FIELDS[name].attributes if name in FIELDS else {}
    original = content.original
    return {**attributes, **({"original_name": original} if original and original != name else {})}
