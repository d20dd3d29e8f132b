"""What can be measured on the regions of one snapshot: area, centroid, length along the axis, extremes of fields."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from climlab_dl.climate import sphere

# Steps to half of the eight neighbours; the other half are these seen from the other end.
_NEIGHBOURS = ((0, 1), (1, 0), (1, 1), (1, -1))
# A cell and the eight around it, the cell itself first.
_AROUND = ((0, 0), *_NEIGHBOURS, *((-down, -right) for down, right in _NEIGHBOURS))


def _totals(member: NDArray[np.intp], weights: NDArray, count: int) -> NDArray[np.float64]:
    return np.bincount(member, weights, minlength=count).astype(np.float64, copy=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Regions:
    """The labelled regions of one snapshot, with their cells sorted by region.

    Parameters
    ----------
    labels
        Integer array (lat, lon): 0 outside, 1..count inside; a region is connected by edges or corners.
    count
        Number of regions.
    lat, lon
        Degrees of rows and columns.
    areas
        Area of each cell (lat, lon) in km2.
    wrap
        Whether the last column is a neighbour of the first.
    """

    labels: NDArray[np.integer]
    count: int
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    areas: NDArray[np.float64]
    wrap: bool

    @cached_property
    def cells(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and column of every cell inside, region by region."""
        rows, columns = np.nonzero(self.labels)
        order = np.argsort(self.labels[rows, columns], kind="stable")
        return rows[order], columns[order]

    @cached_property
    def member(self) -> NDArray[np.intp]:
        """Region 0..count-1 of every cell of `cells`."""
        return self.labels[self.cells].astype(np.intp) - 1

    @cached_property
    def first(self) -> NDArray[np.intp]:
        """Where each region begins in `cells`."""
        return np.searchsorted(self.member, np.arange(self.count))

    @cached_property
    def vectors(self) -> NDArray[np.float64]:
        """Unit vector of every cell of `cells`."""
        rows, columns = self.cells
        return sphere.unit_vectors(self.lat[rows], self.lon[columns])

    @cached_property
    def area_km2(self) -> NDArray[np.float64]:
        """Area of each region."""
        return self.sum(self.areas)

    @cached_property
    def centroid_vectors(self) -> NDArray[np.float64]:
        """Area-weighted mean unit vector of each region, not normalised."""
        weights = self.areas[self.cells]
        return np.stack([_totals(self.member, weights * axis, self.count) for axis in self.vectors.T], axis=-1)

    @property
    def centroids(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Latitude and longitude (0..360) of each region's centroid."""
        return sphere.lat_lon(self.centroid_vectors)

    def sum(self, field: NDArray[np.floating]) -> NDArray[np.float64]:
        """Sum of a field (lat, lon) over each region."""
        return _totals(self.member, field[self.cells], self.count)

    def maximum(self, field: NDArray[np.number]) -> NDArray[np.number]:
        """Largest value of a field (lat, lon) in each region; NaN only where all is NaN."""
        return np.fmax.reduceat(field[self.cells], self.first) if self.count else np.empty(0)

    def place_of_maximum(self, values: NDArray[np.floating]) -> NDArray[np.intp]:
        """Position in `cells` of each region's largest value; `values` has one number a cell, none NaN."""
        largest = np.maximum.reduceat(values, self.first) if self.count else np.empty(0)
        places = np.flatnonzero(values == largest[self.member])
        return places[np.searchsorted(self.member[places], np.arange(self.count))]

    def lowest(
        self, field: NDArray[np.floating]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Smallest value of a field (lat, lon) in each region or next to it, and its latitude and longitude.

        A mask may pass by the centre of its storm, as those of Kurth et al. (2018) do: the cells beside count too.
        NaN where all is NaN.
        """
        down, right = np.array(_AROUND).T[..., None]
        row = np.clip(self.cells[0] + down, 0, len(self.lat) - 1)
        column = self.cells[1] + right
        column = column % len(self.lon) if self.wrap else np.clip(column, 0, len(self.lon) - 1)
        values = field[row, column].astype(float)
        values[np.isnan(values)] = np.inf
        place = self.place_of_maximum(-values.min(axis=0))
        which = values[:, place].argmin(axis=0)
        row, column, lowest = row[which, place], column[which, place], values[which, place]
        missing = np.isinf(lowest)
        return (
            np.where(missing, np.nan, lowest),
            np.where(missing, np.nan, self.lat[row]),
            np.where(missing, np.nan, self.lon[column]),
        )

    def touches_edge(self) -> NDArray[np.bool_]:
        """Whether each region reaches the border of a regional grid, where it may be cut off."""
        if self.wrap:
            return np.zeros(self.count, bool)
        rows, columns = self.cells
        at_edge = (rows == 0) | (rows == len(self.lat) - 1) | (columns == 0) | (columns == len(self.lon) - 1)
        return _totals(self.member, at_edge, self.count) > 0

    @cached_property
    def length_km(self) -> NDArray[np.float64]:
        """Length of each region along its axis, also where the axis bends.

        Every cell's distance from one tip is measured inside the region; the cells are put into bands of equal
        distance, about as wide as the region; the axis runs through the bands' centroids. A region wider than long
        in this sense has one band, and its length is the distance between its farthest cells.
        """
        if self.count == 0:
            return np.empty(0)
        from scipy.sparse.csgraph import dijkstra

        graph = self.neighbour_graph()
        normal = self.centroid_vectors / np.linalg.norm(self.centroid_vectors, axis=1, keepdims=True)
        # Of cells equally far the northernmost is taken, then the easternmost: a choice that depends neither on
        # the seam nor on the order of rows. It counts as millimetres, below the rounding to metres.
        east = np.stack([-normal[:, 1], normal[:, 0], np.zeros(self.count)], axis=1)
        choice = 1e-6 * self.vectors[:, 2] + 1e-9 * np.einsum("ij,ij->i", self.vectors, east[self.member])

        def farthest(distance_km: NDArray[np.float64]) -> NDArray[np.intp]:
            return self.place_of_maximum(np.round(distance_km, 3) + choice)

        away = np.linalg.norm(self.vectors - normal[self.member], axis=1) * sphere.EARTH_RADIUS_KM
        tip = farthest(dijkstra(graph, directed=False, indices=farthest(away), min_only=True))
        distance = dijkstra(graph, directed=False, indices=tip, min_only=True)
        other_tip = farthest(distance)
        reach = distance[other_tip]

        # Cells near a pole are far narrower than high: the larger side is what a band has to be wider than.
        cell = np.full(self.count, np.radians(np.abs(np.diff(self.lat)).max()) * sphere.EARTH_RADIUS_KM)
        width = np.maximum(self.area_km2 / np.maximum(reach, cell), 2.5 * cell)
        bands = np.maximum(np.round(reach / width), 1).astype(np.intp)
        start = np.cumsum(bands) - bands
        scaled = distance / np.maximum(reach, cell)[self.member] * bands[self.member]
        band = start[self.member] + np.minimum(scaled.astype(np.intp), bands[self.member] - 1)
        weights = self.areas[self.cells]
        axis = np.stack([_totals(band, weights * x, bands.sum()) for x in self.vectors.T], axis=-1)
        lat, lon = sphere.lat_lon(axis)
        owner = np.repeat(np.arange(self.count), bands)
        steps = sphere.great_circle_km(lat[:-1], lon[:-1], lat[1:], lon[1:]) * (owner[:-1] == owner[1:])
        along = _totals(owner[:-1], steps, self.count)

        # The axis ends in the middle of the outermost bands: half a band is missing at either end.
        banded = along * bands / np.maximum(bands - 1, 1)
        chord = np.linalg.norm(self.vectors[tip] - self.vectors[other_tip], axis=1)
        straight = 2 * sphere.EARTH_RADIUS_KM * np.arcsin(np.minimum(chord / 2, 1))
        return np.where(bands > 1, banded, straight) + cell  # tips are cell centres: half a cell at either end

    def neighbour_graph(self):
        """Sparse distances in km between neighbouring cells of one region."""
        from scipy.sparse import coo_array

        rows, columns = self.cells
        number = np.full(self.labels.shape, -1, np.intp)
        number[rows, columns] = np.arange(len(rows))
        near, far = [], []
        for down, right in _NEIGHBOURS:
            row, column = rows + down, columns + right
            inside = row < len(self.lat)
            if self.wrap:
                column = column % len(self.lon)
            else:
                inside &= (column >= 0) & (column < len(self.lon))
            here = np.flatnonzero(inside)
            there = number[row[here], column[here]]
            same = (there >= 0) & (self.member[there] == self.member[here])
            near.append(here[same])
            far.append(there[same])
        near, far = np.concatenate(near), np.concatenate(far)
        # Neighbours are so close that the chord is the arc; cells on a pole coincide, and a zero would be no edge.
        chord = np.linalg.norm(self.vectors[near] - self.vectors[far], axis=1)
        weights = np.maximum(sphere.EARTH_RADIUS_KM * chord, 1e-6)
        return coo_array((weights, (near, far)), shape=(len(rows), len(rows))).tocsr()
