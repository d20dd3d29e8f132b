"""Cyclones whose masks touch: one connected region, several storms, told apart by their centres of pressure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from climlab_dl.climate import sphere
from climlab_dl.climate.cyclones import positive
from climlab_dl.climate.extrema import at_least, closed, lowest_of_neighbours
from climlab_dl.climate.mesh import Mesh
from climlab_dl.climate.shapes import Regions


@dataclass(frozen=True, kw_only=True)
class Separation:
    """When one region of cyclones is several storms, and which cells belong to which.

    Centres are what TempestExtremes' DetectNodes takes for candidates (Ullrich et al. 2021, sec. 3): minima of sea
    level pressure, the lowest of those within `merge` degrees, from which every way outward rises by `rise` within
    `rise_radius`. Every cell of a region with several centres goes to the nearest, along ways inside the region, so
    that each part is connected; of two that are equally near, to the deeper one. Distances are great-circle degrees,
    each at least 1.5 grid steps.

    Parameters
    ----------
    merge
        Degrees within which a shallower minimum is part of a deeper one.
    rise, rise_radius
        Pa by which pressure must rise, and degrees within which.
    reach
        Degrees from a region within which a centre is the region's: masks may pass by the centre, as those of Kurth et
        al. (2018) do.
    """

    merge: float = 6.0
    rise: float = 200.0
    rise_radius: float = 5.5
    reach: float = 2.0

    def __post_init__(self) -> None:
        positive(self, "merge", "rise", "rise_radius", "reach")

    def centres(
        self, regions: Regions, chosen: NDArray[np.bool_], pressure: NDArray[np.floating], mesh: Mesh
    ) -> dict[int, NDArray[np.float64]]:
        """Find the chosen regions that have several centres.

        Parameters
        ----------
        regions
            Of one snapshot.
        chosen
            Whether each region may be divided.
        pressure
            At sea level (lat, lon), in Pa.
        mesh
            That of the regions.

        Returns
        -------
        dict
            By the region's position from 0: its centres, a row each of unit vector and pressure, the deepest first.
        """
        from scipy.spatial import KDTree

        inside = chosen[regions.member]
        if not inside.any():
            return {}
        tree, owner = KDTree(regions.vectors[inside]), regions.member[inside]
        rows, columns = lowest_of_neighbours(pressure, mesh, 90.0)
        points = sphere.unit_vectors(mesh.lat[rows], mesh.lon[columns])
        # Nothing farther away can be a centre, or make one part of itself.
        near = tree.query(points)[0] <= _chord(at_least(self.reach, mesh) + at_least(self.merge, mesh))
        rows, columns, points = rows[near], columns[near], points[near]
        depth = pressure[rows, columns].astype(float)
        lows = _merged(points, depth, _chord(at_least(self.merge, mesh)))
        found: dict[int, list[NDArray[np.float64]]] = {}
        for low in sorted(lows, key=lambda low: depth[low[0]]):
            point = points[low].sum(axis=0)
            point /= np.linalg.norm(point)
            distance, nearest = tree.query(point)
            cells = (rows[low], columns[low])
            if (
                distance <= _chord(at_least(self.reach, mesh))
                and closed(pressure, mesh, cells, self.rise, self.rise_radius).any()
            ):
                found.setdefault(int(owner[nearest]), []).append(np.append(point, depth[low[0]]))
        return {region: np.stack(centres) for region, centres in found.items() if len(centres) > 1}


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """Regions after some were divided.

    Attributes
    ----------
    regions
        The parts, numbered in the order of the regions and, within one, of its centres.
    origin
        Position from 0 of the region that each part comes from.
    centres
        Unit vector and pressure of each part's centre, (parts, 4); NaN where the region was not divided.
    """

    regions: Regions
    origin: NDArray[np.intp]
    centres: NDArray[np.float64]


def divide(regions: Regions, centres: Mapping[int, NDArray[np.float64]]) -> Parts:
    """Give every cell of the regions named in ``centres`` to the nearest centre along ways inside the region.

    A centre to which no cell is nearest has no part.
    """
    from scipy.sparse.csgraph import dijkstra

    part = np.zeros(len(regions.member), np.intp)
    graph = regions.neighbour_graph() if centres else None
    for region, points in centres.items():
        members = np.flatnonzero(regions.member == region)
        ways = graph[members][:, members]  # type: ignore[index]
        away = []
        for point in points[:, :3]:
            chord = np.linalg.norm(regions.vectors[members] - point, axis=1)
            seeds = np.flatnonzero(chord <= chord.min() + 1e-9)
            away.append(chord.min() * sphere.EARTH_RADIUS_KM + dijkstra(ways, False, seeds, min_only=True))
        # In metres: rounding must not decide between equals.
        part[members] = _in_one_piece(np.round(away, 3).argmin(axis=0), ways)
    most = max((len(points) for points in centres.values()), default=1)
    keys, number = np.unique(regions.member * most + part, return_inverse=True)
    labels = np.zeros_like(regions.labels)
    labels[regions.cells] = number + 1
    origin = keys // most
    at = np.full((len(keys), 4), np.nan)
    for i, (region, which) in enumerate(zip(origin.tolist(), (keys % most).tolist(), strict=True)):
        if region in centres:
            at[i] = centres[region][which]
    return Parts(regions=replace(regions, labels=labels, count=len(keys)), origin=origin, centres=at)


def _in_one_piece(part: NDArray[np.intp], ways: Any) -> NDArray[np.intp]:
    """Give what lost touch with its part to the part that it touches most.

    Cells that are equally near to two centres, to a metre, or a centre with two equally near cells, can leave a part
    in pieces; the largest is the part. ``ways`` are the distances between neighbouring cells.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    one, two = ways.nonzero()
    one, two = np.concatenate([one, two]), np.concatenate([two, one])
    while True:
        same = part[one] == part[two]
        links = coo_array((np.ones(same.sum(), bool), (one[same], two[same])), shape=ways.shape)
        piece = connected_components(links, directed=False)[1]
        size = np.bincount(piece)
        owner = np.zeros(len(size), np.intp)
        owner[piece] = part
        order = np.lexsort([-size, owner])
        strays = order[1:][owner[order[1:]] == owner[order[:-1]]]
        if not len(strays):
            return part
        stray = strays[size[strays].argmin()]
        beside = part[two[(piece[one] == stray) & (piece[two] != stray)]]
        part = np.where(piece == stray, np.bincount(beside).argmax(), part)


def _chord(degrees: float) -> float:
    """Distance through the unit sphere of points that are so far apart on it."""
    return 2 * np.sin(np.radians(min(degrees, 180.0)) / 2)


def _merged(points: NDArray[np.float64], depth: NDArray[np.float64], chord: float) -> list[NDArray[np.intp]]:
    """Drop each point that has a lower one within ``chord``; of equals that are so near make one group."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import KDTree

    if not len(points):
        return []
    one, two = KDTree(points).query_pairs(chord, output_type="ndarray").T
    kept = np.ones(len(points), bool)
    kept[two[depth[one] < depth[two]]] = False
    kept[one[depth[two] < depth[one]]] = False
    equal = kept[one] & kept[two]
    links = coo_array((np.ones(equal.sum(), bool), (one[equal], two[equal])), shape=(len(points),) * 2)
    group = connected_components(links, directed=False)[1]
    return [np.flatnonzero(kept & (group == number)) for number in np.unique(group[kept])]
