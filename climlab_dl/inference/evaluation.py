"""How good a mask is, beside expert labels, labels by rule, or observed tracks.

    evaluate(found.mask, fields.mask)                     IoU, precision and recall, beside a mask without storms
    evaluate(found.mask, fields.mask, by="event")         storms hit, missed, and found where none is
    evaluate(found.mask, events.read_tracks("ibtracs.nc"))

Masks and truth may have their rows and columns in any order.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import pandas as pd
import xarray as xr

from climlab_dl.inference import breakdown
from climlab_dl.inference.confusion import confusion, none, scores
from climlab_dl.inference.observed import against_tracks

By = Literal["month", "basin", "event", "cell"]
_BREAKDOWNS: dict[str, Callable[..., Any]] = {
    "month": breakdown.by_month, "basin": breakdown.by_basin, "event": breakdown.by_event, "cell": breakdown.by_cell,
}  # fmt: skip


def evaluate(
    masks: xr.DataArray | Mapping[str, xr.DataArray],
    truth: xr.DataArray | pd.DataFrame,
    *,
    by: By | None = None,
    max_km: float = 300.0,
) -> Any:
    """Score masks against the truth.

    Parameters
    ----------
    masks
        Classes (time, lat, lon), or several such masks by name.
    truth
        Classes on the same grid, drawn by experts or by rule: times that both have are compared, pixels that either
        leaves unlabelled are not. Or a table of observed cyclones, from `events.read_tracks`; then storms are counted.
    by
        What to break the scores down by: "month" of the year; ocean "basin"; "event", to count storms instead of
        pixels; "cell", for maps. By default pixels are counted all together.
    max_km
        An observed centre is a hit if a cyclone's pixel is at most this far away, and a cyclone without a centre that
        near is a false alarm.

    Returns
    -------
    DataFrame
        A row for each name ("detected" for a single mask), and "all background", the mask that finds nothing; columns
        ``iou_``, ``precision_`` and ``recall_`` of each class and ``iou_mean`` over the classes that are in the truth
        or in the mask. By month or basin a row for each of them. By event, and always against tracks, a row for each
        class, month or basin with the storms' ``hits``, ``misses`` and ``false_alarms``; ``found``, the share of the
        true ones that are hit (probability of detection); ``false``, the share of false alarms among hits and false
        alarms (false alarm ratio); and ``csi``, hits over all three (critical success index; Wilks 2011, ch. 8). A
        storm is a hit if any of it overlaps in its class. NaN where there is nothing to divide by. Names of several
        masks come before all that. From CSV, ``pandas.read_csv`` keeps NA, the North Atlantic, with
        ``keep_default_na=False, na_values=[""]``.
    Dataset
        By cell: counts of ``hits``, ``misses`` and ``false_alarms`` (class, lat, lon), and of ``snapshots``;
        `plot.diagrams.verdicts` draws them.

    Raises
    ------
    ValueError
        Different grids, no time in common, or an unknown breakdown.
    """
    choices = get_args(By)
    if by is not None and by not in choices:
        raise ValueError(f"by is {by!r}; choose one of {', '.join(choices)}, or None for all pixels together")
    if isinstance(truth, xr.DataArray) and by is None:
        return _together({"detected": masks} if isinstance(masks, xr.DataArray) else masks, truth)
    if isinstance(truth, pd.DataFrame) and by == "cell":
        raise ValueError("by is 'cell', but tracks have no cells; choose event, month or basin")

    def score(mask: xr.DataArray) -> Any:
        if isinstance(truth, pd.DataFrame):
            return against_tracks(mask, truth, by=by or "event", max_km=max_km)  # pyright: ignore[reportArgumentType]
        return _BREAKDOWNS[by or "event"](mask, truth)

    if isinstance(masks, xr.DataArray):
        return score(masks)
    parts = {name: score(mask) for name, mask in masks.items()}
    if by == "cell":
        return xr.concat(list(parts.values()), pd.Index(parts, name="mask"))
    return pd.concat(parts, names=["mask"])


def _together(masks: Mapping[str, xr.DataArray], truth: xr.DataArray) -> pd.DataFrame:
    rows, trivial = {}, none()
    for name, mask in masks.items():
        counts = confusion(mask, truth)
        rows[name] = scores(counts)
        trivial[:, 0] = counts.sum(axis=1)
    return pd.DataFrame.from_dict({**rows, "all background": scores(trivial)}, orient="index")
