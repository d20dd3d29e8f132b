"""Cyclones and rivers by published rule: masks for archives that nobody has labelled by hand."""

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import xarray as xr

from climlab_dl.climate import sphere
from climlab_dl.climate.cyclones import CORES, ContourCriteria, Extent, Snapshot, VorticityCriteria
from climlab_dl.climate.fields import BACKGROUND, CLASSES, CYCLONE, RIVER
from climlab_dl.climate.mesh import Mesh, mesh_of
from climlab_dl.climate.rivers import Above, BoxShape

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Cyclones:
    """A rule for the class cyclone: where the centres are, and which cells around them belong to it."""

    centres: VorticityCriteria | ContourCriteria = field(default_factory=VorticityCriteria)
    extent: Extent = field(default_factory=Extent)

    @classmethod
    def kurth(cls) -> "Cyclones":
        """Return the very loose criteria behind the labels of Kurth et al. (2018), for any mesh.

        850 hPa vorticity of 1e-5 1/s, a pressure rise of 100 Pa and a warm core of 0.1 K, here within 45 degrees of
        the equator and where the ground lies below 900 hPa. On fine analyses it marks tropical cyclones,
        depressions and many subtropical lows. On coarse model weather (the T63 sample archive), which resolves
        no hurricanes, it marks lows whose core is warmer than what surrounds it: two or three a snapshot, at
        least one in nine snapshots of ten, half of them within 30 degrees. A network trained on that learns to
        find such lows, not hurricanes.
        """
        return cls(
            centres=VorticityCriteria(
                vorticity=1e-5,
                pressure_rise=100.0,
                warm_core=0.1,
                need_warm_core=True,
                latitude=45.0,
                surface_pressure=90e3,
            )
        )

    def needed(self, available: Collection[str]) -> tuple[str, ...]:
        """Fields that the rule cannot do without."""
        return (*self.centres.needed(available), *self.extent.fields)

    def paint(self, mask: np.ndarray, snapshot: Snapshot, mesh: Mesh) -> None:
        """Write the class into the mask (lat, lon)."""
        self.extent.paint(mask, CYCLONE, self.centres.centres(snapshot, mesh), snapshot, mesh)


@dataclass(frozen=True, kw_only=True)
class Rivers:
    """A rule for the class river: which cells are moist enough, and which regions of them have its shape."""

    where: Above
    shape: BoxShape = field(default_factory=BoxShape)

    @classmethod
    def kurth(cls, threshold: float = 21.0) -> "Rivers":
        """Return the rule of the labels of Kurth et al. (2018): TMQ damped with 19 degrees above 21 or 24 kg/m2."""
        return cls(where=Above(field="TMQ", threshold=threshold, damping=19.0))

    def needed(self, available: Collection[str]) -> tuple[str, ...]:
        """Fields that the rule cannot do without."""
        return self.where.fields

    def regions(self, snapshot: Snapshot, mesh: Mesh) -> tuple[np.ndarray, int]:
        """Return the rivers (lat, lon), numbered from 1, and their count."""
        cells = self.where.cells(snapshot, mesh)
        regions, count = sphere.connected(cells, connectivity=self.shape.connectivity, wrap=mesh.periodic)
        kept = np.concatenate([[False], self.shape.keep(regions, count, snapshot, mesh)])
        return (np.cumsum(kept) * kept)[regions], int(kept.sum())

    def paint(self, mask: np.ndarray, snapshot: Snapshot, mesh: Mesh) -> None:
        """Write the class into the mask (lat, lon)."""
        mask[self.regions(snapshot, mesh)[0] > 0] = RIVER


_CYCLONES, _RIVERS = Cyclones.kurth(), Rivers.kurth()


def label(
    fields: xr.Dataset,
    *,
    cyclones: Cyclones | None = _CYCLONES,
    rivers: Rivers | None = _RIVERS,
    wrap: bool = True,
) -> xr.DataArray:
    """Mark cyclones and rivers in every snapshot; where both apply the cell is a cyclone.

    Parameters
    ----------
    fields
        Channels (..., lat, lon) in SI units, as `climlab_dl.archive.open` gives them; lazy fields give a lazy mask.
    cyclones, rivers
        The rules; None leaves a class out.
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
        When the fields suffice for neither rule. If they lack one rule's fields, that class is left out and a
        warning is logged.
    """
    asked = [rule for rule in (rivers, cyclones) if rule is not None]
    rules = [rule for rule in asked if not _missing(fields, rule)]
    if not rules:
        lacking = "; ".join(f"{type(rule).__name__.lower()} lack {', '.join(_missing(fields, rule))}" for rule in asked)
        raise ValueError(
            f"no rule can be applied: {lacking or 'none was given'}; the fields are {sorted(map(str, fields))}. "
            "Rename yours (archive.open does) or choose rules for what is there"
        )
    for rule in asked:
        if rule not in rules:
            name, lacking = type(rule).__name__.lower(), ", ".join(_missing(fields, rule))
            log.warning("%s are left out of the mask: the rule needs %s", name, lacking)
    names = sorted({name for rule in rules for name in rule.needed(_names(fields))})
    mesh = mesh_of(fields["lat"].values, fields["lon"].values, wrap)

    def mark(snapshot: Snapshot) -> np.ndarray:
        mask = np.full((len(mesh.lat), len(mesh.lon)), BACKGROUND, dtype=np.int8)
        for rule in rules:
            rule.paint(mask, snapshot, mesh)
        return mask

    mask = _by_snapshot(mark, fields, names, np.int8).rename("mask")
    mask.attrs = {
        "long_name": "events by rule",
        "flag_values": np.array([BACKGROUND, CYCLONE, RIVER], dtype=np.int8),
        "flag_meanings": " ".join(CLASSES),
        "rule": "; ".join(map(repr, rules)),
    }
    return mask


def cyclone_candidates(
    fields: xr.Dataset,
    rule: Cyclones = _CYCLONES,
    *,
    wrap: bool = True,
) -> pd.DataFrame:
    """List the centres that a cyclone rule finds, one row for each centre and time.

    Parameters
    ----------
    fields
        Channels (..., lat, lon) in SI units.
    rule
        The criteria; their extent is not used.
    wrap
        Join the first and last longitude.

    Returns
    -------
    pandas.DataFrame
        Columns: time, lat and lon (degrees), psl (Pa, at the centre), vorticity (1/s at 850 hPa, cyclonic positive),
        wind (m/s, largest surface wind near the centre), warm_core (K) and thickness (m): how much the core falls
        outward in the direction in which it falls least; NaN where the fields do not tell.
    """
    available = _names(fields)
    if missing := set(rule.centres.needed(available)) - set(available):
        raise ValueError(f"the rule needs {', '.join(sorted(missing))}; the fields are {sorted(available)}")
    optional = {name for pair in CORES.values() for name in pair} & set(available)
    names = sorted(optional.union(rule.centres.needed(available)))
    mesh = mesh_of(fields["lat"].values, fields["lon"].values, wrap)
    one_by_one = fields[names].expand_dims("time") if "time" not in fields.dims else fields[names]
    tables = []
    for i in range(one_by_one.sizes["time"]):
        snapshot = one_by_one.isel(time=i).load()
        found = rule.centres.centres({name: snapshot[name].values for name in names}, mesh)
        found.insert(0, "time", snapshot["time"].values[()] if "time" in snapshot.coords else i)
        tables.append(found)
    return pd.concat(tables, ignore_index=True)


def _names(fields: xr.Dataset) -> list[str]:
    return [str(name) for name in fields.data_vars]


def _missing(fields: xr.Dataset, rule: Cyclones | Rivers) -> list[str]:
    available = _names(fields)
    return [name for name in dict.fromkeys(rule.needed(available)) if name not in available]


def _by_snapshot(
    function: Callable[[Snapshot], np.ndarray], fields: xr.Dataset, names: Sequence[str], dtype: type
) -> xr.DataArray:
    """Apply a function of a snapshot to all, one at a time, each as lazily as the fields are."""

    def block(*arrays: np.ndarray) -> np.ndarray:
        out = np.empty(arrays[0].shape, dtype=dtype)
        for place in np.ndindex(arrays[0].shape[:-2]):
            out[place] = function({name: array[place] for name, array in zip(names, arrays, strict=True)})
        return out

    return xr.apply_ufunc(
        block,
        *(fields[name] for name in names),
        input_core_dims=[["lat", "lon"]] * len(names),
        output_core_dims=[["lat", "lon"]],
        dask="parallelized",
        output_dtypes=[dtype],
    )
