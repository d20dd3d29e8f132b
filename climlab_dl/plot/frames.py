"""Snapshots as the interactive map's page holds them: packed fields, classes, chances, storms, and lines over them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mode
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from climlab_dl.climate import events
from climlab_dl.climate.fields import CLASSES
from climlab_dl.climate.tracks import hours_since_first
from climlab_dl.plot import canvas, layers, styles
from climlab_dl.plot.outlines import SIDES, Pieces, arrows, contours, outline, tracks

# A series over an archive that is read for it has this many snapshots at most.
SERIES = 60
# Probabilities are held as 250ths.
CERTAIN = 250


@dataclass(frozen=True, eq=False)
class Frames:
    """Snapshots on one grid.

    Attributes
    ----------
    fields
        What can be chosen, (time, lat, lon), in the units in which they are read.
    more
        By name: mask, truth, probabilities, and u and v of a wind.
    storms
        Table from `events.find`, if any.
    place
        Where the map's pixels lie.
    """

    fields: list[xr.DataArray]
    more: dict[str, xr.DataArray]
    storms: pd.DataFrame | None
    place: canvas.Canvas

    @property
    def lat(self) -> np.ndarray:
        """Rows' centres in degrees."""
        return self.fields[0].lat.values

    @property
    def lon(self) -> np.ndarray:
        """Columns' centres in degrees."""
        return self.fields[0].lon.values

    @property
    def names(self) -> list[str]:
        """Names of the fields."""
        return [str(field.name) for field in self.fields]

    @property
    def kinds(self) -> list[int]:
        """Classes that the masks may hold."""
        return layers.kinds(*(self.more[name] for name in ("mask", "truth") if name in self.more))

    @property
    def nbytes(self) -> int:
        """Bytes of all snapshots in a page."""
        fields = sum(2 * field.size for field in self.fields)
        numbered = 2 * self.more["mask"].size if self._numbered else 0
        return fields + numbered + sum(layer.size for layer in self.more.values())

    @property
    def days(self) -> list[float]:
        """Days since the first snapshot; where times are no dates, their positions."""
        first = self.fields[0]
        hours = hours_since_first(np.atleast_1d(first["time"].values)) if "time" in first.coords else None
        return list(range(first.sizes["time"])) if hours is None else (hours / 24).tolist()

    @property
    def _numbered(self) -> bool:
        return self.storms is not None and "region" in self.storms and "mask" in self.more

    def read(self, steps: slice, names: Sequence[str]) -> dict[str, Any]:
        """Read snapshots, (time, cell): packed fields by name with their offsets and scales, and all other layers."""
        data: dict[str, Any] = {}
        for field in self.fields:
            if field.name in names:
                packed = layers.pack(field.isel(time=steps).values)
                name = str(field.name)
                data |= {name: packed.numbers, f"{name} offset": packed.offset, f"{name} scale": packed.scale}
        some = {name: self.more[name].isel(time=steps) for name in ("mask", "truth") if name in self.more}
        data |= {name: _flat(layer.values.astype(np.uint8)) for name, layer in some.items()}
        if self._numbered:
            numbers = [events.regions(mask.where(mask != layers.UNKNOWN, 0)).values for mask in some["mask"]]
            data["region"] = _flat(np.stack(numbers).astype(np.uint16))
        if "probabilities" in self.more:
            chances = self.more["probabilities"].isel(time=steps).values
            parts = np.where(np.isfinite(chances), np.rint(CERTAIN * np.nan_to_num(chances)), layers.UNKNOWN)
            for kind in range(1, len(CLASSES)):
                data[f"probability {CLASSES[kind]}"] = _flat(parts[:, kind].astype(np.uint8))
        return data

    def lines(self, steps: slice) -> dict[str, tuple[dict[str, Any], list[int]]]:
        """Read line pieces by name, all snapshots' after each other, and where each snapshot's begin."""
        place, grid = self.place, (self.lat, self.lon, self.place)
        some = {name: layer.isel(time=steps).values for name, layer in self.more.items()}
        drawn: dict[str, list[Pieces]] = {}
        if "truth" in some:
            drawn["truth"] = [outline(classes, *grid) for classes in some["truth"]]
        if "probabilities" in some:
            drawn["probability"] = [contours(values, *grid) for values in some["probabilities"]]
        if "u" in some:
            drawn["wind"] = [arrows(u, v, *grid) for u, v in zip(some["u"], some["v"], strict=True)]
        if self.storms is not None and "time" in self.storms and "time" in self.fields[0].coords:
            times = np.atleast_1d(self.fields[0]["time"].values)[steps]
            drawn["tracks"] = [tracks(self.storms, time, place) for time in times]
        return {name: _joined(pieces) for name, pieces in drawn.items()}

    def series(self, name: str, cell: int) -> dict[str, Any]:
        """Read a field's values through time in one cell: days, values and classes, evenly spaced if they are many."""
        row, column = divmod(cell, len(self.lon))
        there = self.fields[0].sizes["time"]
        steps = np.unique(np.linspace(0, there - 1, min(there, SERIES)).round().astype(int))
        field = self.fields[self.names.index(name)]
        values = field.isel(time=steps, lat=row, lon=column).values
        mask = self.more.get("mask")
        kinds = np.zeros(len(steps)) if mask is None else mask.isel(time=steps, lat=row, lon=column).values
        return {
            "day": [self.days[step] for step in steps],
            "value": [float(value) for value in values],
            "color": [styles.line_color(int(kind)) for kind in kinds],
        }


def missing_before(fields: xr.DataArray) -> np.ndarray:
    """Count the snapshots that are missing before each one, by the commonest step between them."""
    there = fields.sizes["time"]
    hours = hours_since_first(np.atleast_1d(fields["time"].values)) if "time" in fields.coords else None
    if hours is None or there < 3:
        return np.zeros(there, int)
    ahead = np.diff(hours)
    step = mode(ahead[ahead > 0].tolist() or [1.0])
    return np.maximum(0, np.append(0, np.rint(ahead / step).astype(int) - 1))


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), -1)


def _joined(each: list[Pieces]) -> tuple[dict[str, Any], list[int]]:
    """Snapshots' pieces after each other, and where each snapshot's begin."""
    columns = {side: np.concatenate([getattr(pieces, side) for pieces in each]) for side in (*SIDES, "classes")}
    return columns, np.cumsum([0, *map(len, each)]).tolist()
