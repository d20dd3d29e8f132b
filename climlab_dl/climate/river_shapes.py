"""Atmospheric rivers by rule, second half: which connected regions of moist cells have the shape of a river."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from climlab_dl.climate import sphere
from climlab_dl.climate.mesh import KM_PER_DEGREE, Mesh
from climlab_dl.climate.shapes import Regions

# The parts of the vertically integrated vapour transport, kg/m/s eastward and northward.
TRANSPORT = ("TUQ", "TVQ")


def regions_of(cells: np.ndarray, mesh: Mesh, connectivity: int) -> Regions:
    """Return the connected regions of some cells."""
    labels, count = sphere.connected(cells, connectivity=connectivity, wrap=mesh.periodic)
    areas = sphere.cell_areas_km2(mesh.lat, mesh.lon)
    return Regions(labels=labels, count=count, lat=mesh.lat, lon=mesh.lon, areas=areas, wrap=mesh.periodic)


@dataclass(frozen=True, kw_only=True)
class BoxShape:
    """Long and narrow by the bounding box, as in the labels of Kurth et al. (2018).

    The box's diagonal must exceed `length` km, and the area divided by the box's north-south extent must stay below
    `width` km, which also drops what runs along a parallel. Their areas are of a sphere of radius 6,170 km, 6 %
    smaller than ours.
    """

    length: float = 1500.0
    width: float = 1000.0
    connectivity: int = 4

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that the shape reads."""
        return ()

    def keep(self, regions: Regions, snapshot: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return which regions are rivers, as bool (count,)."""
        south, north, arc = boxes(regions)
        diagonal = sphere.great_circle_km(south, 0.0, north, np.minimum(arc, 180.0))
        height = KM_PER_DEGREE * (north - south)
        return (diagonal > self.length) & (regions.area_km2 < self.width * height)


@dataclass(frozen=True, kw_only=True)
class AxisShape:
    """Long and narrow along the region's own axis, which may bend; the width is area / length.

    Parameters
    ----------
    length
        Least length in km.
    width
        Largest width in km.
    ratio
        Least length / width.
    area
        Least area in km2.
    connectivity
        4: cells of a region share edges; 8: or corners.
    """

    length: float = 0.0
    width: float = np.inf
    ratio: float = 0.0
    area: float = 0.0
    connectivity: int = 8

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that the shape reads."""
        return ()

    def keep(self, regions: Regions, snapshot: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return which regions are rivers, as bool (count,)."""
        keep = regions.area_km2 >= self.area
        if self.length or self.ratio or np.isfinite(self.width):
            length, width = regions.length_km, regions.area_km2 / regions.length_km
            keep &= (length >= self.length) & (width <= self.width) & (length >= self.ratio * width)
        return keep


@dataclass(frozen=True, kw_only=True)
class TransportShape:
    """Long, narrow and carrying vapour poleward along its axis: the criteria of Guan & Waliser (2015), sec. 3.

    Parameters
    ----------
    length, ratio
        Least length in km, and least length / width, along the axis.
    coherence
        Share of the cells whose transport must point within `angle` of the mean transport.
    poleward
        Least poleward part of the mean transport, kg/m/s.
    angle
        Degrees; also the largest between the mean transport and the region's principal axis.
    """

    length: float = 2000.0
    ratio: float = 2.0
    coherence: float = 0.5
    poleward: float = 50.0
    angle: float = 45.0
    connectivity: int = 8

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that the shape reads."""
        return TRANSPORT

    def keep(self, regions: Regions, snapshot: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return which regions are rivers, as bool (count,)."""
        keep = AxisShape(length=self.length, ratio=self.ratio).keep(regions, snapshot)
        rows, columns = regions.cells
        ends = np.append(regions.first, len(rows))
        for i in np.flatnonzero(keep):
            cells = rows[ends[i] : ends[i + 1]], columns[ends[i] : ends[i + 1]]
            weights = regions.areas[cells]
            east, north = (snapshot[name][cells].astype(float) for name in TRANSPORT)
            mean = np.average(east, weights=weights), np.average(north, weights=weights)
            least = np.cos(np.radians(self.angle)) * np.hypot(*mean)
            coherent = np.mean(east * mean[0] + north * mean[1] >= least * np.hypot(east, north)) > self.coherence
            lat, lon = regions.lat[cells[0]], regions.lon[cells[1]]
            along = abs(np.dot(mean, principal_axis(lat, lon, weights))) >= least
            poleward = np.sign(np.average(lat, weights=weights)) * mean[1] > self.poleward
            keep[i] = coherent and along and poleward
        return keep


def principal_axis(lat: np.ndarray, lon: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the unit vector (east, north) along which cells spread most, in the plane that touches their centroid."""
    lat0, lon0 = sphere.centroid(lat, lon, weights)
    phi, turn, phi0 = np.radians(lat), np.radians(lon - lon0), np.radians(lat0)
    east = np.cos(phi) * np.sin(turn)
    north = np.sin(phi) * np.cos(phi0) - np.cos(phi) * np.sin(phi0) * np.cos(turn)
    return np.linalg.eigh(np.cov(np.stack([east, north]), aweights=weights))[1][:, 1]


def boxes(regions: Regions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """South and north (degrees) of each region's box, and its width in degrees of longitude.

    On a grid that wraps, the box is the shortest arc of longitude that holds the region.
    """
    if not regions.count:
        return np.empty(0), np.empty(0), np.empty(0)
    rows, columns = regions.cells
    lat = regions.lat[rows]
    south, north = np.minimum.reduceat(lat, regions.first), np.maximum.reduceat(lat, regions.first)
    count = len(regions.lon)
    # Regions and their occupied columns, each once and in order.
    owner, column = np.divmod(np.unique(regions.member * count + columns), count)
    first = np.searchsorted(owner, np.arange(regions.count))
    last = np.append(first[1:], len(owner)) - 1
    if regions.wrap:
        gap = np.empty(len(column), dtype=int)
        gap[:-1] = np.diff(column)
        gap[last] = column[first] + count - column[last]
        cells = count - np.maximum.reduceat(gap, first)
    else:
        cells = column[last] - column[first]
    return south, north, cells * float(np.diff(regions.lon).mean())
