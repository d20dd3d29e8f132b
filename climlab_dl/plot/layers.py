"""Snapshots in the order in which maps read them: one grid, one time axis, whatever the user's coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from climlab_dl.climate.fields import CLASSES, named
from climlab_dl.climate.grid import same_axis
from climlab_dl.climate.labels import CLASS, PROBABILITIES
from climlab_dl.climate.snapshots import class_names
from climlab_dl.plot import styles

Layer = TypeVar("Layer", xr.DataArray, xr.Dataset)

# Value of a mask where nothing was said: a missing time, a pixel without data.
UNKNOWN = 255


def canonical(layer: Layer) -> Layer:
    """Turn a layer to latitude ascending and longitude ascending within 0..360.

    Raises
    ------
    ValueError
        No one-dimensional `lat` and `lon`.
    """
    for name in ("lat", "lon"):
        if name not in layer.coords or layer.coords[name].ndim != 1:
            raise ValueError(
                f"a map needs a one-dimensional coordinate {name!r}, found {sorted(map(str, layer.coords))} with "
                f"dimensions {dict(layer.sizes)}; archive.open() gives fields that have it"
            )
    wrapped = np.mod(layer.coords["lon"].values, 360.0)
    if not np.array_equal(wrapped, layer.coords["lon"].values):
        layer = layer.assign_coords(lon=wrapped)
    return _ascending(_ascending(layer, "lat"), "lon")


def _ascending(layer: Layer, name: str) -> Layer:
    values = layer.coords[name].values
    steps = np.diff(values)
    if (steps > 0).all():
        return layer
    if name == "lon" and (np.r_[steps, values[0] - values[-1]] < 0).sum() == 1 and (steps != 0).all():
        # A region across longitude 0 stays in one piece: its longitudes count on beyond 360.
        turned = np.unwrap(values, period=360.0)
        if turned[-1] - turned[0] + np.diff(turned).max() < 359.0:
            return layer.assign_coords(lon=turned)
    order = np.argsort(values, kind="stable")
    order = order[np.r_[True, np.diff(values[order]) > 0]]
    return layer.isel({name: order})


def snapshots(layer: xr.DataArray) -> xr.DataArray:
    """Give the layer the dimensions time, lat, lon, a snapshot without time being one of one."""
    if "time" not in layer.dims:
        layer = layer.expand_dims("time")
    extra = set(layer.dims) - {"time", "lat", "lon"}
    if extra:
        choice = ", ".join(f"{name}=0" for name in sorted(map(str, extra)))
        raise ValueError(
            f"{layer.name!r} has the dimensions {', '.join(map(str, layer.dims))}, and a map draws time, lat and lon: "
            f"choose one of the others first, such as .isel({choice})"
        )
    return layer.transpose("time", "lat", "lon")


def channels_of(fields: xr.DataArray | xr.Dataset, wanted: Sequence[str] | None) -> list[xr.DataArray]:
    """Fields to choose from, canonical, in the order wanted and in the units in which they are read.

    Probabilities are a field for each class, such as ``probability_of_river``. A wanted field may be called as in
    files of others, ``mslp`` for PSL.

    Raises
    ------
    ValueError
        A wanted channel is not there.
    """
    if isinstance(fields, xr.DataArray):
        fields = fields.to_dataset(name=str(fields.name or "field"))
    if PROBABILITIES in fields and CLASS in fields[PROBABILITIES].dims:
        fields = _by_class(fields)
    drawn = [str(n) for n, v in fields.data_vars.items() if {"lat", "lon"} <= set(v.dims) and v.dtype.kind == "f"]
    here = {name: _called(name, fields) for name in wanted or ()}
    absent = [name if name == ours else f"{name} (here {ours})" for name, ours in here.items() if ours not in fields]
    if absent or not drawn:
        raise ValueError(f"no channel {', '.join(absent) or 'at all'} to draw: the fields have {', '.join(drawn)}")
    ordered = canonical(fields[list(here.values()) or drawn])
    return [snapshots(styles.readable(ordered[name])) for name in ordered.data_vars]


def _called(name: str, fields: xr.Dataset) -> str:
    """Give our name of a channel that is called as in files of others, unless the fields call one so, too."""
    known = named(name)
    return name if name in fields or known is None else known.name


def _by_class(fields: xr.Dataset) -> xr.Dataset:
    """Give each class's probability a name of its own, background's the last."""
    probabilities = fields[PROBABILITIES]
    first, *others = map(str, probabilities[CLASS].values)
    each = {}
    for name in (*others, first):
        about = {"long_name": f"probability of {name}", "units": "1", "valid_range": (0.0, 1.0)}
        each[f"probability_of_{name}"] = probabilities.sel({CLASS: name}, drop=True).assign_attrs(about)
    return fields.drop_vars([PROBABILITIES, CLASS]).assign(each)


def along(mask: xr.DataArray, fields: xr.DataArray) -> xr.DataArray:
    """Put a mask, or probabilities, on the fields' grid and times; unknown at times that it does not have.

    Raises
    ------
    ValueError
        Its grid is another one.
    """
    mask = canonical(mask)
    mask = snapshots(mask) if "class" not in mask.dims else mask.transpose("time", "class", "lat", "lon")
    for name in ("lat", "lon"):
        ours, theirs = fields[name].values, mask[name].values
        if not same_axis(ours, theirs):
            raise ValueError(
                f"the mask's {name} has {theirs.size} values {theirs.min():g}..{theirs.max():g}, the fields' has "
                f"{ours.size} values {ours.min():g}..{ours.max():g}; regrid one to the other first"
            )
    mask = mask.assign_coords(lat=fields.lat, lon=fields.lon)
    if "time" in fields.coords and "time" in mask.coords:
        unknown: Any = np.nan if mask.dtype.kind == "f" else UNKNOWN
        mask = mask if mask.dtype.kind == "f" else mask.astype(np.uint8)
        return mask.reindex(time=np.atleast_1d(fields["time"].values), fill_value=unknown)
    if mask.sizes["time"] != fields.sizes["time"]:
        raise ValueError(f"the mask has {mask.sizes['time']} snapshots, the fields {fields.sizes['time']}")
    return mask


def kinds(*masks: xr.DataArray) -> list[int]:
    """Classes that masks may hold by their flags, all if there is no mask: what no rule looked for is not offered."""
    known = set(range(1, len(CLASSES)))
    return sorted(known & {kind for mask in masks for kind in class_names(mask)} if masks else known)


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A field's snapshots as 16-bit integers: value = offset + scale * number, and -32768 where there is no data."""

    numbers: np.ndarray
    offset: np.ndarray
    scale: np.ndarray


def pack(values: np.ndarray) -> Packed:
    """Pack float snapshots (time, lat, lon), each to its own range: an error of at most 1/131,000 of that range."""
    finite = np.isfinite(values)
    low = np.where(finite, values, np.inf).min(axis=(1, 2))
    high = np.where(finite, values, -np.inf).max(axis=(1, 2))
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    scale = np.where(high > low, (high - low) / 65534.0, 1.0)
    offset = (high + low) / 2
    numbers = np.rint((np.nan_to_num(values) - offset[:, None, None]) / scale[:, None, None])
    numbers = np.where(finite, np.clip(numbers, -32767, 32767), -32768).astype(np.int16)
    return Packed(numbers=numbers.reshape(len(values), -1), offset=offset, scale=scale)


def unpack(numbers: np.ndarray, offset: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Values, (time, cell), of packed numbers; NaN where there is no data."""
    values = offset[:, None] + scale[:, None] * numbers.astype(np.float64)
    return np.where(numbers == -32768, np.nan, values)
