"""What a table of events says about each event of a snapshot, and how it is measured."""

import logging
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from climlab_dl.climate import sphere
from climlab_dl.climate.fields import FIELDS
from climlab_dl.climate.land import land_mask
from climlab_dl.climate.layout import Layout
from climlab_dl.climate.mesh import Mesh, mesh_of
from climlab_dl.climate.scales import RiverSpells, saffir_simpson
from climlab_dl.climate.separation import Parts, Separation, divide
from climlab_dl.climate.shapes import Regions
from climlab_dl.climate.snapshots import Snapshot, class_names

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Largest:
    """A column that holds the largest value of a field, or of a vector's length, in each event."""

    column: str
    fields: tuple[str, ...]
    quantity: str  # the known field whose limits hold
    factor: float = 1.0  # from SI to the unit in the column's name


_LARGEST = (
    _Largest(column="max_wind_m_s", fields=("UBOT", "VBOT"), quantity="WINDBOT"),
    _Largest(column="max_tmq_kg_m2", fields=("TMQ",), quantity="TMQ"),
    _Largest(column="max_ivt_kg_m_s", fields=("IVT",), quantity="IVT"),
    _Largest(column="max_precipitation_mm_h", fields=("PRECT",), quantity="PRECT", factor=3.6e6),
)


def label(classes: NDArray[np.integer], connectivity: int, wrap: bool) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Label the connected regions of a mask (lat, lon), class by class; give the labels and each region's class."""
    labels, kinds = np.zeros(classes.shape, np.int32), []
    for value in np.unique(classes[classes > 0]).tolist():
        regions, count = sphere.connected(classes == value, connectivity, wrap)
        labels += np.where(regions > 0, regions + len(kinds), 0)
        kinds += [value] * count
    return labels, np.array(kinds, np.int64)


class Survey:
    """Measures the events of one snapshot of a mask after the other, in time order.

    Parameters
    ----------
    mask, fields
        As for `climlab_dl.events.find`.
    connectivity
        4 or 8.
    max_gap_hours
        A longer time between two snapshots ends a river's spell over a place.
    """

    def __init__(self, mask: xr.DataArray, fields: xr.Dataset | None, connectivity: int, max_gap_hours: float) -> None:
        self.layout = Layout.of(mask)
        self._names = class_names(mask)
        self._connectivity = connectivity
        self._areas = sphere.cell_areas_km2(self.layout.lat, self.layout.lon)
        self._on_land = self._areas * land_mask(self.layout.lat, self.layout.lon)
        there = [] if fields is None else list(fields.data_vars)
        self._largest = [largest for largest in _LARGEST if all(name in there for name in largest.fields)]
        pressure = ("PSL",) if "PSL" in there else ()
        self.fields = list(dict.fromkeys(chain(pressure, *(largest.fields for largest in self._largest))))
        self._mesh = self._mesh_for_centres() if pressure else None
        self._spells = RiverSpells(max_gap_hours)

    def _mesh_for_centres(self) -> Mesh | None:
        try:
            return mesh_of(self.layout.lat, self.layout.lon, self.layout.wrap)
        except ValueError as error:
            log.warning("cyclones that touch stay one event: %s", error)
            return None

    def restart(self) -> None:
        """Forget what was before: the next snapshot is of another series."""
        self._spells.restart()

    def regions(self, classes: NDArray[np.integer]) -> tuple[Regions, NDArray[np.int64]]:
        """Find the regions of one snapshot and the class of each."""
        labels, kinds = label(classes, self._connectivity, self.layout.wrap)
        lat, lon, wrap = self.layout.lat, self.layout.lon, self.layout.wrap
        return Regions(labels=labels, count=len(kinds), lat=lat, lon=lon, areas=self._areas, wrap=wrap), kinds

    def separated(
        self, snapshot: Snapshot, regions: Regions, kinds: NDArray[np.int64], separation: Separation | None
    ) -> Parts:
        """Tell apart the storms of a region of cyclones, where the pressure is known and shows several."""
        if separation is None or self._mesh is None:
            return divide(regions, {})
        cyclones = np.isin(kinds, [value for value, name in self._names.items() if name == "cyclone"])
        return divide(regions, separation.centres(regions, cyclones, snapshot.fields["PSL"], self._mesh))

    def table(self, snapshot: Snapshot, parts: Parts, kinds: NDArray[np.int64]) -> pd.DataFrame:
        """Measure the regions, or their parts: a row each, in the order of their numbers."""
        regions = parts.regions
        lat, lon = regions.centroids
        land_share = regions.sum(self._on_land) / regions.area_km2
        table = pd.DataFrame(
            {
                "class": pd.Series([self._names[kind] for kind in kinds.tolist()], dtype="str"),
                "time": np.full(regions.count, snapshot.time),
                **{name: np.full(regions.count, number) for name, number in snapshot.series.items()},
                "lat": lat,
                "lon": self.layout.longitudes(lon),
                "area_km2": regions.area_km2,
                "length_km": regions.length_km,
                "width_km": regions.area_km2 / regions.length_km,
                "land_share": land_share,
                "touches_land": land_share > 0,
                "touches_edge": regions.touches_edge(),
            }
        )
        if "PSL" in self.fields:
            lowest, lat, lon = regions.lowest(snapshot.fields["PSL"])
            # The lowest cell beside a part may be the other storm's; what divided a region is its centres.
            own = np.isnan(parts.centres[:, 0])
            centre_lat, centre_lon = sphere.lat_lon(parts.centres[:, :3])
            lowest, table["psl_lat"] = np.where(own, lowest, parts.centres[:, 3]), np.where(own, lat, centre_lat)
            table["min_psl_hPa"] = _possible(lowest, "PSL", snapshot) / 100
            table["psl_lon"] = self.layout.longitudes(np.where(own, lon, centre_lon))
        for largest in self._largest:
            values = [snapshot.fields[name] for name in largest.fields]
            found = regions.maximum(np.hypot(*values) if len(values) == 2 else values[0])
            table[largest.column] = largest.factor * _possible(found.astype(float), largest.quantity, snapshot)
        if "max_wind_m_s" in table:
            table["saffir_simpson"] = _rating(saffir_simpson(table["max_wind_m_s"]), table["class"] == "cyclone")
        if "IVT" in self.fields:
            ratings, rivers = np.zeros(snapshot.mask.shape, np.int8), table["class"] == "river"
            # A snapshot far from all others tells not how long its rivers last; no spell can go through it.
            if lasting := snapshot.step_hours <= self._spells.max_gap_hours:
                river = np.isin(snapshot.mask, [value for value, name in self._names.items() if name == "river"])
                ratings = self._spells.rate(snapshot.hours, snapshot.step_hours, river, snapshot.fields["IVT"])
            table["ar_scale"] = _rating(regions.maximum(ratings), rivers & lasting)
        table["region"] = parts.origin + 1
        return table


def _possible(values: NDArray[np.float64], name: str, snapshot: Snapshot) -> NDArray[np.float64]:
    """Give the values back, unless one is none that the field can have."""
    lowest, highest = FIELDS[name].limits
    if wrong := values[(values < lowest) | (values > highest)].tolist():
        raise ValueError(
            f"at {snapshot.time} {FIELDS[name].long_name} ({name}) is {wrong[0]:g} in an event; expected {lowest:g} to "
            f"{highest:g} {FIELDS[name].unit}. Another unit, or fill values that the file does not declare? "
            "archive.open converts units, archive.check finds such values"
        )
    return values


def _rating(ratings: NDArray[np.number], applies: ArrayLike) -> pd.Series:
    """Whole numbers, and <NA> for events that the scale is not made for."""
    return pd.Series(ratings.astype(np.int8), dtype="Int8").where(np.asarray(applies))
