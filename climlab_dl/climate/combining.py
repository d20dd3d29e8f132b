"""Groups of files joined into one dataset, in time or in their variables."""

import logging
from collections.abc import Sequence

import numpy as np
import xarray as xr

from climlab_dl.climate import times
from climlab_dl.climate.fields import FAMILIES, FIELDS
from climlab_dl.climate.labels import DETECTED, LABELS, MASK
from climlab_dl.climate.parts import NUMBERS, Part, in_order

log = logging.getLogger(__name__)


def combine(parts: Sequence[Part], *, guarded: bool = False) -> xr.Dataset:
    """Join groups of files in time, or in their variables where they share the times; guarded as `Part.dataset`.

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
        dataset = part.dataset(guarded=guarded)
        alike.setdefault(frozenset(map(str, dataset.data_vars)), []).append(dataset)
    joined = [_in_time(group) for group in alike.values()]
    whole = joined[0]
    for other in joined[1:]:
        whole = _in_variables(whole, other)
    # The order of variables is that of `FIELDS`, whatever the order of the files.
    order = [name for name in (*FIELDS, *FAMILIES, MASK, LABELS, *DETECTED) if name in whole]
    chosen = whole[order]
    chosen.encoding = {"files": whole.encoding["files"]}
    if len(parts) == 1:
        chosen.encoding["stacks"] = whole.encoding["stacks"]
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
        order = in_order(whole["time"].values, _numbers(whole))
        whole, files = whole.isel(time=order), [files[i] for i in order]
    keys = list(zip(*_numbers(whole).T, whole["time"].values, strict=True))
    for i in range(1, len(files)):
        if keys[i] == keys[i - 1]:
            time = keys[i][-1]
            if files[i] == files[i - 1]:
                raise ValueError(
                    f"{files[i]} has the time {time} twice. Drop one of the two, with xarray's drop_duplicates('time')."
                )
            raise ValueError(
                f"Two snapshots of the same time {time}: in {files[i - 1]} and in {files[i]}. "
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


def _numbers(dataset: xr.Dataset) -> np.ndarray:
    none = np.full(dataset.sizes["time"], -1)
    return np.stack([dataset[name].values if name in dataset.coords else none for name in NUMBERS], axis=1)


def _span(dataset: xr.Dataset) -> str:
    when = dataset["time"].values
    return f"{len(when)} times {when[0]} to {when[-1]}"
