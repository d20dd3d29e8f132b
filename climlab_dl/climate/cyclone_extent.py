"""Cyclones by rule, second half: which cells around a centre belong to the cyclone."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from climlab_dl.climate.cyclones import positive
from climlab_dl.climate.extrema import largest_piece
from climlab_dl.climate.mesh import Mesh


@dataclass(frozen=True, kw_only=True)
class Extent:
    """Cells of a cyclone, as in the labels of Kurth et al. (2018), sec. III-A2.

    A box around the centre reaches `margin` degrees, north, south, east and west, beyond the radius at which the
    mean surface wind first, from outside, exceeds `wind`. In each of the `channels` the cells above the `percentile`
    of the box are taken and their largest 8-connected piece kept; the largest piece of the union is the cyclone.
    Winds count with their sign, so of the swirl it is the side with westerlies and the side with southerlies.

    Parameters
    ----------
    wind
        m/s; 63 km/h is where a tropical storm begins.
    wind_window, wind_bins
        Degrees around the centre in which the wind is averaged by distance, and the number of distances.
    margin
        Degrees added to the radius of that wind; alone where the wind is nowhere reached.
    percentile
        Of the values in the box.
    cells
        How many cells of each field to take at least, whatever the percentile: a box of 13 degrees has 2,400 cells
        on the grid of the labels, of which 168 are above the 93rd percentile, but 49 on a T63 grid.
    channels
        The fields whose highest values belong to a cyclone.
    """

    wind: float = 63 / 3.6
    wind_window: float = 6.0
    wind_bins: int = 32
    margin: float = 6.6
    percentile: float = 93.0
    cells: int = 10
    channels: tuple[str, ...] = ("TMQ", "U850", "V850", "PRECT")

    def __post_init__(self) -> None:
        positive(self, "wind", "wind_window", "wind_bins", "margin", "cells")
        if not 0 < self.percentile < 100:
            raise ValueError(f"percentile={self.percentile} must lie between 0 and 100, e.g. 93")

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that the extent reads."""
        return ("UBOT", "VBOT", *self.channels)

    def paint(
        self, mask: np.ndarray, value: int, centres: pd.DataFrame, snapshot: Mapping[str, np.ndarray], mesh: Mesh
    ) -> None:
        """Write ``value`` into the cells of each centre's cyclone."""
        speed = np.hypot(snapshot["UBOT"], snapshot["VBOT"])
        for lat, lon in zip(centres["lat"], centres["lon"], strict=True):
            half = self.wind_radius(speed, mesh, lat, lon) + self.margin
            index = mesh.box(lat, lon, half, half)[:2]
            pieces = [largest_piece(self._above(snapshot[name][index])) for name in self.channels]
            piece = largest_piece(np.logical_or.reduce(pieces))
            mask[index] = np.where(piece, value, mask[index])

    def _above(self, values: np.ndarray) -> np.ndarray:
        known = values[np.isfinite(values)]
        if known.size <= self.cells:
            return np.isfinite(values)
        return values > np.percentile(known, min(self.percentile, 100 * (1 - self.cells / known.size)))

    def wind_radius(self, speed: np.ndarray, mesh: Mesh, lat: float, lon: float) -> float:
        """Return degrees from the centre to the outermost crossing of `wind` (0 where it is nowhere reached)."""
        patch = mesh.patch(lat, lon, self.wind_window)
        wind = speed[patch.rows, patch.columns]
        inside = (patch.distance < self.wind_window) & np.isfinite(wind)
        ring = (patch.distance[inside] / self.wind_window * self.wind_bins).astype(int)
        count = np.bincount(ring, minlength=self.wind_bins)
        mean = np.bincount(ring, wind[inside], minlength=self.wind_bins) / np.maximum(count, 1)
        strong = np.flatnonzero((count > 0) & (mean >= self.wind))
        return (strong[-1] + 1) * self.wind_window / self.wind_bins if strong.size else 0.0
