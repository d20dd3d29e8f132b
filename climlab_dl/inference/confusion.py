"""What was found beside what is there: snapshot by snapshot, and counted."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from climlab_dl.climate.fields import CLASSES, UNLABELLED
from climlab_dl.climate.grid import described, same_axis
from climlab_dl.climate.snapshots import Layout

Counts = NDArray[np.int64]
"""Pixels by (true class, class found)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
    """Classes found in one snapshot, and true ones.

    Attributes
    ----------
    found, real
        (lat, lon) in the order of the layout; `UNLABELLED` where either of them is.
    month
        Of the year, 1 to 12; 0 where the snapshot has no date.
    """

    found: NDArray[np.integer]
    real: NDArray[np.integer]
    month: int


def pairs(mask: xr.DataArray, truth: xr.DataArray) -> tuple[Layout, Iterator[Pair]]:
    """Go through the snapshots that mask and truth both have, whichever way round their coordinates are.

    Returns
    -------
    Layout, iterator of Pair
        The layout of all pairs; one snapshot at a time is in memory.

    Raises
    ------
    ValueError
        Different grids, or no time in common.
    """
    layouts, both = at_the_same_times(mask, truth)
    return layouts[0], (_pair(step, layouts, both) for step in range(both[0].sizes["time"]))


def at_the_same_times(
    found: xr.DataArray, truth: xr.DataArray, what: str = "mask"
) -> tuple[tuple[Layout, Layout], tuple[xr.DataArray, xr.DataArray]]:
    """Give the layouts of what was found and of the truth, and both along the times that they share.

    Raises
    ------
    ValueError
        Different grids, or no time in common.
    """
    ours, theirs = Layout.of(found), Layout.of(truth)
    refuse_another_grid(ours, theirs)
    if "time" in found.dims and "time" in truth.dims:
        both = xr.align(found.drop_vars(["lat", "lon"]), truth.drop_vars(["lat", "lon"]), join="inner")
        if both[0].sizes["time"] == 0:
            raise ValueError(f"{what} and truth have no time in common ({_span(found)} and {_span(truth)})")
    elif "time" in found.dims or "time" in truth.dims:
        raise ValueError(f"one of {what} and truth has several times, the other none: select the time that it is of")
    else:
        both = found.expand_dims("time"), truth.expand_dims("time")
    return (ours, theirs), both


def refuse_another_grid(ours: Layout, theirs: Layout) -> None:
    """Raise ValueError where truth is on another grid than what it is compared with."""
    if not (same_axis(ours.lat, theirs.lat) and same_axis(ours.lon, theirs.lon)):
        both = " and ".join(described(layout.lat, layout.lon) for layout in (ours, theirs))
        raise ValueError(
            f"mask and truth are on different grids, {both}: regrid one of them, or take the truth that was opened "
            "with the fields"
        )


def confusion(mask: xr.DataArray, truth: xr.DataArray) -> Counts:
    """Count the pixels of all snapshots."""
    counts = none()
    for pair in pairs(mask, truth)[1]:
        counts += count(pair.found, pair.real)
    return counts


def none() -> Counts:
    """No pixels counted yet."""
    return np.zeros((len(CLASSES), len(CLASSES)), np.int64)


def count(found: NDArray[np.integer], real: NDArray[np.integer]) -> Counts:
    """Count pixels by (true class, class found); those that either leaves unlabelled are not counted."""
    told = (found >= 0) & (real >= 0) & (found < len(CLASSES)) & (real < len(CLASSES))
    both = real[told].astype(np.int64) * len(CLASSES) + found[told]
    return np.bincount(both, minlength=len(CLASSES) ** 2).reshape(len(CLASSES), len(CLASSES))


def scores(counts: Counts) -> dict[str, float]:
    """IoU, precision and recall of each class by counts of `confusion`, and the mean IoU of the classes that occur."""
    hits, real, found = np.diag(counts).astype(float), counts.sum(axis=1), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        table = {"iou": hits / (real + found - hits), "precision": hits / found, "recall": hits / real}
    named = {f"{score}_{name}": value for score, row in table.items() for name, value in zip(CLASSES, row, strict=True)}
    known = table["iou"][~np.isnan(table["iou"])]
    return {**named, "iou_mean": float(known.mean()) if len(known) else np.nan}


def _pair(step: int, layouts: tuple[Layout, Layout], layers: tuple[xr.DataArray, xr.DataArray]) -> Pair:
    found, real = (
        layout.arrange(layer.isel(time=step).transpose("lat", "lon").values)
        for layout, layer in zip(layouts, layers, strict=True)
    )
    unlabelled = (found < 0) | (real < 0)
    if unlabelled.any():
        found, real = (np.where(unlabelled, UNLABELLED, layer) for layer in (found, real))
    months = getattr(layers[0].indexes.get("time"), "month", None)
    return Pair(found=found, real=real, month=0 if months is None else int(months[step]))


def _span(layer: xr.DataArray) -> str:
    return f"{layer['time'].values[0]}..{layer['time'].values[-1]}"
