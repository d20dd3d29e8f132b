"""What a group of like files offers, and how groups become one dataset."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import xarray as xr

from climlab_dl.climate import times
from climlab_dl.climate.fields import BACKGROUND, CLASSES, CYCLONE, FAMILIES, FIELDS, RIVER, UNLABELLED
from climlab_dl.climate.grid import Grid
from climlab_dl.climate.stack import Stack
from climlab_dl.climate.units import SAME, Conversion

log = logging.getLogger(__name__)

MASK = "mask"
LABELS = "labels"
"""Variable with every labelling of a source that has several: (time, annotator, lat, lon), one bit a class."""

ANNOTATOR = "annotator"
"""The dimension of `LABELS` before latitude and longitude."""

NUMBERS = {"run": "run of the model", "labelling": "labelling"}
"""Coordinates along time that tell snapshots of the same time apart."""

MASK_ATTRIBUTES = {
    "long_name": "class of weather",
    "flag_values": np.arange(len(CLASSES), dtype=np.int8),
    "flag_meanings": " ".join(CLASSES),
}
LABELS_ATTRIBUTES = {
    "long_name": "classes of weather as each annotator drew them",
    "flag_masks": np.array([1, 2], np.int8),
    "flag_meanings": " ".join(CLASSES[1:]),
}


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
    """

    read: Callable[[int, int], np.ndarray]
    dims: tuple[str, ...] = ()
    inner: tuple[int, ...] = ()
    conversion: Conversion = SAME
    original: str = ""
    component: int | None = None


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
    """

    files: Sequence[Path]
    where: np.ndarray
    time: xr.Variable
    numbers: np.ndarray
    grid: Grid
    contents: Mapping[str, Content]
    coordinates: Mapping[str, xr.Variable] = field(default_factory=dict)
    unrecognised: tuple[str, ...] = ()

    @property
    def _dated(self) -> bool:
        return times.calendar(self.time) != "none"

    def dataset(self) -> xr.Dataset:
        """Lazy dataset with times in order, and the file of each snapshot in ``encoding["files"]``."""
        order = _order(self.time.values, self.numbers)
        where = self.where[order]
        variables: dict[str, Any] = {}
        stacks: dict[int, da.Array] = {}
        for name, content in self.contents.items():
            if (key := id(content.read)) not in stacks:
                stacks[key] = self._stack(content, where, np.int8 if name in (MASK, LABELS) else np.float32)
            values = stacks[key] if content.component is None else _component(stacks[key], content.component)
            dims = ("time", *content.dims, "lat", "lon")
            variables[name] = (dims, values, _attributes(name, content.original))
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
        if self.unrecognised:
            dataset.attrs["unrecognised"] = " ".join(self.unrecognised)
        return dataset

    def _stack(self, content: Content, where: np.ndarray, dtype: type) -> da.Array:
        return Stack(
            read=content.read,
            where=where,
            inner=(*content.inner, self.grid.lat.size, self.grid.lon.size),
            grid=self.grid,
            dtype=np.dtype(dtype),
            conversion=content.conversion,
        ).lazy()


def _component(values: da.Array, index: int) -> da.Array:
    """Take one of several variables that are read together; a block at a time, so that a long archive stays small."""
    meta = np.empty((0, 0, 0), values.dtype)
    return da.map_blocks(_take, values, index, drop_axis=1, dtype=values.dtype, meta=meta)


def _take(block: np.ndarray, index: int) -> np.ndarray:
    return block[:, index]


def combine(parts: Sequence[Part]) -> xr.Dataset:
    """Join groups of files in time, or in their variables where they share the times.

    Raises
    ------
    ValueError
        When grids or calendars differ, two files hold the same time, or a group lacks fields that others have.
    """
    first = parts[0]
    for other in parts[1:]:
        if not first.grid.matches(other.grid):
            raise ValueError(
                f"Snapshots of different grids: {first.files[0]} has {first.grid}, {other.files[0]} has {other.grid}. "
                "Open them one at a time, or regrid one of them."
            )
        one, two = times.calendar(first.time), times.calendar(other.time)
        if one != two:
            raise ValueError(
                f"Times of different calendars: {first.files[0]} has {one}, {other.files[0]} has {two} "
                '("none" means that its times are not dates). Open them one at a time.'
            )
    alike: dict[frozenset[str], list[xr.Dataset]] = {}
    for part in parts:
        dataset = part.dataset()
        alike.setdefault(frozenset(map(str, dataset.data_vars)), []).append(dataset)
    joined = [_in_time(group) for group in alike.values()]
    whole = joined[0]
    for other in joined[1:]:
        whole = _in_variables(whole, other)
    # The order of variables is that of `FIELDS`, whatever the order of the files.
    order = [name for name in (*FIELDS, *FAMILIES, MASK, LABELS) if name in whole]
    chosen = whole[order]
    chosen.encoding["files"] = whole.encoding["files"]
    return chosen


def _in_time(group: list[xr.Dataset]) -> xr.Dataset:
    files = [file for dataset in group for file in dataset.encoding["files"]]
    whole = group[0]
    if len(group) > 1:
        # Coordinates equal to a ten-thousandth of a degree were checked; the first file's stand for all.
        whole = xr.concat(
            group, "time", data_vars="minimal", coords="minimal", compat="override", join="override",
            combine_attrs="override",
        )  # fmt: skip
        order = _order(whole["time"].values, _numbers(whole))
        whole, files = whole.isel(time=order), [files[i] for i in order]
    keys = list(zip(*_numbers(whole).T, whole["time"].values, strict=True))
    for i in range(1, len(files)):
        if keys[i] == keys[i - 1]:
            raise ValueError(
                f"Two snapshots of the same time {keys[i][-1]}: in {files[i - 1]} and in {files[i]}. "
                "Leave one of the files out."
            )
    whole.encoding["files"] = files
    return whole


def _in_variables(one: xr.Dataset, two: xr.Dataset) -> xr.Dataset:
    a, b = one.encoding["files"][0], two.encoding["files"][0]
    shared = set(one.data_vars) & set(two.data_vars)
    if shared:
        only = sorted(map(str, set(one.data_vars) ^ set(two.data_vars)))
        raise ValueError(
            f"{a} and {b} both have {', '.join(sorted(map(str, shared)))}, but only one of them has "
            f"{', '.join(only)}. Leave these out with names={{{only[0]!r}: None}}, or open the files one at a time."
        )
    if {MASK, LABELS} & set(one.data_vars) or {MASK, LABELS} & set(two.data_vars):
        one, two = _labelled_times(one, two)
    if one.sizes["time"] != two.sizes["time"] or (one["time"].values != two["time"].values).any():
        raise ValueError(
            f"{a} has {', '.join(map(str, one.data_vars))} at {_span(one)}, {b} has "
            f"{', '.join(map(str, two.data_vars))} at {_span(two)}. "
            "Different fields can be joined where their times are the same: leave out the files of other times."
        )
    unrecognised = " ".join(filter(None, (d.attrs.get("unrecognised", "") for d in (one, two))))
    whole = one.assign({name: two[name].variable for name in two.data_vars})
    whole.encoding["files"] = one.encoding["files"]
    return whole.assign_attrs(unrecognised=unrecognised) if unrecognised else whole


def _labelled_times(one: xr.Dataset, two: xr.Dataset) -> tuple[xr.Dataset, xr.Dataset]:
    """Keep the times that both have, because labels are drawn at some times of a longer archive."""
    shared = np.intersect1d(one["time"].values, two["time"].values)
    pair = []
    for dataset in (one, two):
        kept = np.flatnonzero(np.isin(dataset["time"].values, shared))
        chosen = dataset.isel(time=kept)
        chosen.encoding["files"] = [dataset.encoding["files"][i] for i in kept]
        pair.append(chosen)
    if 0 < len(shared) < max(one.sizes["time"], two.sizes["time"]):
        log.warning("Labels and fields share %d times; the others are left out", len(shared))
    return (pair[0], pair[1]) if len(shared) else (one, two)


def _order(time: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """By run of the model, then by time, then by labelling."""
    run, labelling = numbers.T
    return np.lexsort((labelling, np.unique(time, return_inverse=True)[1], run))


def _numbers(dataset: xr.Dataset) -> np.ndarray:
    none = np.full(dataset.sizes["time"], -1)
    return np.stack([dataset[name].values if name in dataset.coords else none for name in NUMBERS], axis=1)


def _span(dataset: xr.Dataset) -> str:
    when = dataset["time"].values
    return f"{len(when)} times {when[0]} to {when[-1]}"


def _attributes(name: str, original: str) -> dict:
    known = {MASK: MASK_ATTRIBUTES, LABELS: LABELS_ATTRIBUTES}
    attributes = known[name] if name in known else FIELDS[name].attributes if name in FIELDS else {}
    return {**attributes, **({"original_name": original} if original and original != name else {})}


def as_mask(values: np.ndarray, where: str) -> np.ndarray:
    """Labels as int8 classes; what is missing becomes `UNLABELLED`.

    Raises
    ------
    ValueError
        When labels are not whole numbers, or none of the classes.
    """
    values = np.asarray(values)
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), UNLABELLED, values)
        if (values != np.rint(values)).any():
            odd = values[values != np.rint(values)]
            raise ValueError(
                f"{where}: labels are not whole numbers (found {odd[0]:g}); expected classes 0 {CLASSES[0]}, "
                f"1 {CLASSES[1]}, 2 {CLASSES[2]}. If these are probabilities, label with their largest first."
            )
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if low < UNLABELLED or high > RIVER:
        raise ValueError(
            f"{where}: labels {low}..{high} are out of range; expected 0 {CLASSES[0]}, 1 {CLASSES[1]}, "
            f"2 {CLASSES[2]} (and {UNLABELLED} where nobody labelled). Renumber them, or open with "
            "names={'their name': None} to leave them out."
        )
    return values.astype(np.int8)


def as_bits(masks: np.ndarray) -> np.ndarray:
    """Masks as one bit a class: 1 cyclone, 2 river."""
    return np.where(masks == CYCLONE, 1, np.where(masks == RIVER, 2, 0)).astype(np.int8)


def as_classes(labels: np.ndarray) -> np.ndarray:
    """Bits of `as_bits` as classes; where both are set it is a cyclone, as in Kurth et al. 2018."""
    return np.where(labels & 1, CYCLONE, np.where(labels & 2, RIVER, BACKGROUND)).astype(np.int8)


def labelled(snapshot: xr.Dataset) -> np.ndarray:
    """Mask of a snapshot for a layout that knows no unlabelled pixels.

    Raises
    ------
    ValueError
        When it has some.
    """
    mask = snapshot[MASK].values
    if (mask == UNLABELLED).any():
        raise ValueError(
            f"The mask of {snapshot['time'].values} has {int((mask == UNLABELLED).sum())} unlabelled pixels "
            f"({UNLABELLED}), which this layout cannot say. Make them background first, with fields.mask.clip(min=0), "
            "or save as .nc or .zarr."
        )
    return mask
