"""Cyclones and rivers by published rule: masks for archives that nobody has labelled by hand."""

import logging

import numpy as np
import pandas as pd
import xarray as xr

from climlab_dl.climate.cyclones import CORES, ContourCriteria, VorticityCriteria
from climlab_dl.climate.ensemble import Ensemble
from climlab_dl.climate.fields import BACKGROUND, CLASSES, CYCLONE, RIVER, missing
from climlab_dl.climate.per_snapshot import by_snapshot, keys, mesh_for, refuse_more_than_time
from climlab_dl.climate.rules import NO_CENTRES, Cyclones, Rivers
from climlab_dl.climate.stitching import Stitching, stitch

__all__ = [
    "ContourCriteria",
    "Cyclones",
    "Ensemble",
    "Rivers",
    "Stitching",
    "VorticityCriteria",
    "cyclone_candidates",
    "label",
    "local_percentile",
    "river_probability",
    "stitch",
]
log = logging.getLogger(__name__)
_CYCLONES, _RIVERS, _ENSEMBLE = Cyclones.kurth(), Rivers.kurth(), Ensemble()


def label(
    fields: xr.Dataset,
    *,
    cyclones: Cyclones | None = _CYCLONES,
    rivers: Rivers | None = _RIVERS,
    centres: pd.DataFrame | None = None,
    wrap: bool = True,
) -> xr.DataArray:
    """Mark cyclones and rivers in every snapshot; where both apply the cell is a cyclone.

    Parameters
    ----------
    fields
        Channels (..., lat, lon) in SI units, as `climlab_dl.archive.open` gives them; lazy fields give a lazy mask,
        which dask computes one snapshot at a time.
    cyclones, rivers
        The rules; None leaves a class out.
    centres
        Cyclone centres (time, lat, lon; and run, where the fields have it) to mark in place of all that the rule
        finds, e.g. tracks from `stitch`.
    wrap
        Join the first and last longitude. ``False`` cuts rivers and boxes there, as the published labels do.

    Returns
    -------
    xarray.DataArray
        int8 ``mask`` of the fields' shape and coordinates: 0 background, 1 cyclone, 2 river, with CF flag
        attributes.

    Raises
    ------
    ValueError
        When the fields suffice for neither rule, or have no axes lat and lon, or another spacing than the cyclone rule
        is for, or when centres are given for fields without time. If they lack one rule's fields, that class is left
        out and a warning is logged.
    """
    asked = [rule for rule in (rivers, cyclones) if rule is not None]
    rules = [rule for rule in asked if not _missing(fields, rule)]
    if not rules:
        lacking = [f"{type(rule).__name__.lower()} lack {', '.join(_missing(fields, rule))}" for rule in asked]
        found = [*_names(fields), *str(fields.attrs.get("unrecognised", "")).split()]
        nearest = f" {missing(_missing(fields, asked[0])[0], found)}" if asked else ""
        other = "; for IVT alone there is Rivers.ivt(), in the shell --rivers ivt" if "IVT" in fields else ""
        raise ValueError(
            f"no rule can be applied: {'; '.join(lacking) or 'none was given'}.{nearest} "
            f"Or choose rules for what is there{other}"
        )
    for rule in asked:
        if rule not in rules:
            name, lacking = type(rule).__name__.lower(), ", ".join(_missing(fields, rule))
            log.warning("%s are left out of the mask: the rule needs %s", name, lacking)
    needs = [rule.needed(_names(fields)) for rule in rules]
    names = sorted({name for needed in needs for name in needed})
    mesh = mesh_for(fields, wrap)
    if centres is not None:
        refuse_more_than_time(fields[names])
        if "time" not in fields.coords:
            raise ValueError("centres are given by time, but the fields have none; add a time coordinate")
    keyed = keys(fields) if centres is not None else {}
    times = keys(fields)["time"]
    marked = cyclones if cyclones in rules else None
    if marked is not None and centres is None:
        marked.refuse_other_grids(mesh)

    def mark(snapshot: dict[str, np.ndarray], number: int) -> np.ndarray:
        if marked is None:
            found = NO_CENTRES
        elif centres is None:
            found = marked.find(snapshot, mesh)
        else:
            here = np.logical_and.reduce([centres[name] == values[number] for name, values in keyed.items()])
            found = centres.loc[here]
        mask = np.full((len(mesh.lat), len(mesh.lon)), BACKGROUND, dtype=np.int8)
        for rule, needed in zip(rules, needs, strict=True):
            painted = mask.copy()
            rule.paint(painted, found, snapshot, mesh)
            # Where a field that the rule needs has no value, nothing can be told of its class.
            unknown = np.logical_or.reduce([np.isnan(snapshot[name]) for name in needed])
            if unknown.all():
                blank = [name for name in needed if np.isnan(snapshot[name]).all()]
                kind, when = type(rule).__name__.lower(), times[number] if number < len(times) else number
                log.warning("no %s are marked at %s: %s has no number there", kind, when, ", ".join(blank) or "no cell")
            mask = np.where(unknown, mask, painted)
        return mask

    mask = by_snapshot(mark, fields, names, np.int8).rename("mask")
    # Only the classes that were looked for: a map is not to offer the others, nor a reader to count none of them.
    sought = [BACKGROUND] + [CYCLONE] * (cyclones in rules) + [RIVER] * (rivers in rules)
    mask.attrs = {
        "long_name": "events by rule",
        "flag_values": np.array(sought, dtype=np.int8),
        "flag_meanings": " ".join(CLASSES[kind] for kind in sought),
        "rule": "; ".join(map(repr, rules)),
    }
    return mask


def cyclone_candidates(fields: xr.Dataset, rule: Cyclones = _CYCLONES, *, wrap: bool = True) -> pd.DataFrame:
    """List the centres that a cyclone rule finds, one row for each centre and time, flagged or not.

    Parameters
    ----------
    fields
        Channels (time, lat, lon) in SI units, or of one time; lazy ones are read and searched by dask, one snapshot a
        task.
    rule
        The criteria; their extent is not used.
    wrap
        Join the first and last longitude.

    Returns
    -------
    pandas.DataFrame
        Columns: time (and run, where the fields tell), lat and lon (degrees), psl (Pa, at the centre), vorticity
        (1/s at 850 hPa, cyclonic positive), wind (m/s, largest surface wind near the centre), warm_core (K) and
        thickness (m): how much the core falls outward in the direction in which it falls least, NaN where the fields
        do not tell; has_warm_core and has_thickness: whether the rule is content with that.

    Raises
    ------
    ValueError
        When a field is missing, or the rule is for grids of another spacing.
    """
    available = _names(fields)
    needed = rule.centres.needed(available)
    if missing := set(needed) - set(available):
        raise ValueError(f"the rule needs {', '.join(sorted(missing))}; the fields are {sorted(available)}")
    names = sorted({name for pair in CORES.values() for name in pair if name in available}.union(needed))
    mesh = mesh_for(fields, wrap)
    rule.refuse_other_grids(mesh)
    refuse_more_than_time(fields[names])
    one_by_one = fields[names] if "time" in fields.dims else fields[names].expand_dims("time")
    keyed = keys(one_by_one)
    count = one_by_one.sizes["time"]

    def list_centres(snapshot: dict[str, np.ndarray]) -> pd.DataFrame:
        return rule.centres.centres(snapshot, mesh)

    snapshots = [{name: one_by_one[name].isel(time=i).data for name in names} for i in range(count)]
    if one_by_one.chunks:
        from dask.base import compute
        from dask.delayed import delayed

        tables = compute(*(delayed(list_centres, pure=False)(snapshot) for snapshot in snapshots))
    else:
        tables = [list_centres(snapshot) for snapshot in snapshots]
    for i, table in enumerate(tables):
        for name, values in keyed.items():
            table.insert(0, name, values[i])
    return pd.concat(tables, ignore_index=True)


def river_probability(fields: xr.Dataset, ensemble: Ensemble = _ENSEMBLE, *, wrap: bool = True) -> xr.DataArray:
    """Give the share of an ensemble of river rules that calls each cell a river, as TECA's BARD does.

    Parameters
    ----------
    fields
        With IVT (..., lat, lon) in kg/m/s, or the field that the ensemble names.
    ensemble
        The thresholds.
    wrap
        Join the first and last longitude.

    Returns
    -------
    xarray.DataArray
        float32 ``probability`` from 0 to 1 of the fields' shape, lazy if they are.

    Raises
    ------
    ValueError
        When the field is missing.
    """
    if ensemble.field not in fields:
        raise ValueError(f"the ensemble needs {ensemble.field}; the fields are {sorted(map(str, fields))}")
    mesh, members = mesh_for(fields, wrap), ensemble.rules()
    probability = by_snapshot(
        lambda snapshot, _: ensemble.share(members, snapshot, mesh), fields, [ensemble.field], np.float32
    )
    probability.attrs = {"long_name": "share of rules that call it a river", "units": "1", "rule": repr(ensemble)}
    return probability.rename("probability")


def local_percentile(values: xr.DataArray, percentile: float, *, memory: float = 256e6) -> xr.DataArray:
    """Give a percentile over time at every place, read in bands of latitude that fit the memory.

    Parameters
    ----------
    values
        One field (time, lat, lon).
    percentile
        Between 0 and 100; unknown values are left out.
    memory
        Bytes that a band may take.

    Returns
    -------
    xarray.DataArray
        (lat, lon), in memory.
    """
    values = values.transpose("time", "lat", "lon")
    rows = max(1, int(memory / (values.sizes["time"] * values.sizes["lon"] * values.dtype.itemsize)))
    bands = [
        _percentile_of_known(values.isel(lat=slice(first, first + rows)).values, percentile)
        for first in range(0, values.sizes["lat"], rows)
    ]
    return values.isel(time=0, drop=True).copy(data=np.concatenate(bands))


def _percentile_of_known(values: np.ndarray, percentile: float) -> np.ndarray:
    """Percentile along the first axis, interpolated; NaN where nothing is known. NumPy's own takes cells one by one."""
    ordered = np.sort(values, axis=0)  # NaN last
    last = np.maximum(np.isfinite(values).sum(axis=0) - 1, 0)
    place = percentile / 100 * last
    below = place.astype(int)
    low, high = (np.take_along_axis(ordered, i[None], axis=0)[0] for i in (below, np.minimum(below + 1, last)))
    return low + (high - low) * (place - below).astype(values.dtype)


def _names(fields: xr.Dataset) -> list[str]:
    return [str(name) for name in fields.data_vars]


def _missing(fields: xr.Dataset, rule: Cyclones | Rivers) -> list[str]:
    available = _names(fields)
    return [name for name in dict.fromkeys(rule.needed(available)) if name not in available]
