"""Masks and fields one snapshot at a time, in time order."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from climlab_dl.climate.fields import BACKGROUND, CLASSES, UNLABELLED
from climlab_dl.climate.layout import Layout, same_grid
from climlab_dl.climate.tracks import hours_since_first, time_text
from climlab_dl.words import counted

log = logging.getLogger(__name__)

SERIES = ("run", "labelling")
"""Coordinates along time by which `climlab_dl.archive.open` tells snapshots of the same time apart."""


def class_names(mask: xr.DataArray) -> dict[int, str]:
    """Name of each mask value but background, from the CF attributes ``flag_values`` and ``flag_meanings``."""
    if not isinstance(mask, xr.DataArray):
        raise TypeError(f"the mask must be an xarray.DataArray; got {type(mask).__name__}. Of a dataset take ['mask']")
    meanings = str(mask.attrs.get("flag_meanings", " ".join(CLASSES))).split()
    values = np.atleast_1d(mask.attrs.get("flag_values", np.arange(len(meanings))))
    if len(values) != len(meanings):
        raise ValueError(f"the mask's flag_values {values.tolist()} and flag_meanings {meanings} differ in number")
    named = zip(values.tolist(), meanings, strict=True)
    return {int(value): name for value, name in named if value not in (BACKGROUND, UNLABELLED)}


def as_classes(values: NDArray[Any], names: dict[int, str]) -> NDArray[np.int16]:
    """Read one mask (lat, lon) as class numbers; NaN, a fill value of floats, is background.

    Raises
    ------
    ValueError
        Where a value is not a class.
    """
    if values.dtype.kind == "f":
        values = np.nan_to_num(values, nan=BACKGROUND)
    found = np.unique(values)
    if unknown := [value for value in found.tolist() if value not in {BACKGROUND, UNLABELLED, *names}]:
        raise ValueError(
            f"the mask has values {unknown[:5]} that are no class; expected 0 (background) or one of {names}. "
            "Probabilities need a dimension 'class'; other classes need the attributes flag_values and flag_meanings"
        )
    return np.maximum(values, BACKGROUND).astype(np.int16)


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """One time of a series.

    Parameters
    ----------
    time
        What the user calls it.
    hours
        Hours since the mask's first time; 0 where times are no dates.
    step_hours
        Hours to the nearest other snapshot of the series; NaN where there is none, or times are no dates.
    series
        Run of the model and labelling, where the mask has several; storms of different series are never one.
    mask, fields
        Classes and fields (lat, lon).
    """

    time: Any
    hours: float
    step_hours: float
    series: dict[str, int]
    mask: NDArray[np.int16]
    fields: dict[str, NDArray[np.floating]]


def read(mask: xr.DataArray, fields: xr.Dataset | None, names: Sequence[str], layout: Layout) -> Iterator[Snapshot]:
    """Load one snapshot after the other, series by series in time order, with fields that are read along with it.

    Parameters
    ----------
    mask
        Classes (time, lat, lon) or (lat, lon), or probabilities with a further dimension ``class``. Coordinates
        ``run`` and ``labelling`` along time tell series apart.
    fields
        Dataset on the same grid, in any order of rows and columns.
    names
        The fields to read.
    layout
        That of the mask.

    Raises
    ------
    ValueError
        Before anything is loaded: where times repeat, or the fields lack a time of the mask or are on another grid.
    """
    names_of_classes = class_names(mask)
    if "class" in mask.dims:
        mask = mask.fillna(0).argmax("class")
    mask = mask.expand_dims("time") if "time" not in mask.dims else mask
    if extra := set(mask.dims) - {"time", "lat", "lon"}:
        raise ValueError(f"the mask has dimensions {mask.dims}; choose one of {sorted(map(str, extra))} with isel")
    times, series = times_of(mask), series_of(mask)
    hours = hours_since_first(times)
    dated = hours is not None
    if hours is None:
        if len(times) > 1:
            log.warning("the mask's times are no dates: storms are followed in the order of the snapshots, by overlap")
        hours = np.zeros(len(times))
    elif pd.DataFrame({"hours": hours, **series}).duplicated().any():
        raise ValueError("the mask has a time twice; drop one with mask.drop_duplicates('time')")
    order = np.lexsort((hours, *reversed(series.values())))
    steps = _steps(hours, series, order) if dated else np.full(len(times), np.nan)
    positions = layout_of_fields = None
    if fields is not None and names:
        positions, layout_of_fields = _positions(mask, fields), same_grid(fields, layout)

    for i in order:
        found = xr.Dataset({"__mask": (("y", "x"), mask.isel(time=i).transpose("lat", "lon").data)})
        if fields is not None and positions is not None:
            # Loaded together, a mask by rule and its fields share the reading of the file. The mask's rows and columns
            # have names of their own, so that xarray does not align the two.
            at = {"time": positions[i]} if "time" in fields.dims else {}
            now = fields[list(names)].isel(at).transpose("lat", "lon")
            found = found.merge(now.drop_vars(now.coords))
        found = found.load()
        yield Snapshot(
            time=times[i],
            hours=float(hours[i]),
            step_hours=float(steps[i]),
            series={name: int(numbers[i]) for name, numbers in series.items()},
            mask=as_classes(layout.arrange(found["__mask"].values), names_of_classes),
            fields={name: layout_of_fields.arrange(found[name].values) for name in names} if layout_of_fields else {},
        )


def times_of(mask: xr.DataArray | xr.Dataset) -> NDArray[Any]:
    """Give the times of a mask, NaT for a single one without."""
    if "time" in mask.coords:
        return np.atleast_1d(mask["time"].values)
    return np.full(mask.sizes.get("time", 1), np.datetime64("NaT", "ns"))


def series_of(mask: xr.DataArray | xr.Dataset) -> dict[str, NDArray[np.integer]]:
    """Give the run of the model and the labelling of each snapshot, where they are known."""
    return {name: mask[name].values for name in SERIES if name in mask.coords and mask[name].dims == ("time",)}


def _steps(
    hours: NDArray[np.float64], series: dict[str, NDArray[np.integer]], order: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Hours from each snapshot to the nearest other one of its series, NaN where there is none."""
    gaps = np.diff(hours[order])
    for numbers in series.values():
        gaps[np.diff(numbers[order]) != 0] = np.nan
    steps = np.empty(len(hours))
    steps[order] = np.fmin(np.append(np.nan, gaps), np.append(gaps, np.nan))[: len(hours)]
    return steps


def _positions(mask: xr.DataArray, fields: xr.Dataset) -> NDArray[np.intp]:
    """Where in the fields each snapshot of the mask is."""
    times = times_of(mask)
    if "time" not in fields.dims:
        if len(times) > 1:
            raise ValueError(f"the mask has {len(times)} times and the fields have no dimension 'time'")
        return np.zeros(1, np.intp)
    if len(times) == 1 and pd.isna(times[0]) and fields.sizes["time"] == 1:
        return np.zeros(1, np.intp)
    ours, theirs = series_of(mask), series_of(fields)
    common = [name for name in ours if name in theirs]
    known = zip(map(time_text, times_of(fields)), *(theirs[name] for name in common), strict=True)
    place = {key: i for i, key in enumerate(known)}
    wanted = list(zip(map(time_text, times), *(ours[name] for name in common), strict=True))
    if lost := [key for key in wanted if key not in place]:
        raise ValueError(
            f"the fields lack {len(lost)} of the mask's {counted(len(times), 'time')}, e.g. {lost[0][0]}; give the "
            "fields that the mask was made from"
        )
    return np.array([place[key] for key in wanted])
