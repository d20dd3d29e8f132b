"""Atmospheric rivers by rule: which cells carry unusual vapour, and which connected regions are long and narrow."""

from dataclasses import dataclass

import numpy as np

from climlab_dl.climate import sphere
from climlab_dl.climate.cyclones import Snapshot
from climlab_dl.climate.mesh import KM_PER_DEGREE, Mesh


@dataclass(frozen=True, kw_only=True)
class Above:
    """Cells where a field, damped towards the equator, exceeds a threshold.

    Parameters
    ----------
    field
        ``"TMQ"`` (kg/m2) or ``"IVT"`` (kg/m/s).
    threshold
        In the unit of the field.
    damping
        Standard deviation in degrees of the Gaussian 1 - exp(-lat^2 / 2 damping^2) that the field is multiplied
        with, so that the moist tropics are not one river; 0 for none.
    """

    field: str
    threshold: float
    damping: float = 0.0

    def __post_init__(self) -> None:
        if self.damping < 0:
            raise ValueError(f"damping={self.damping} must be degrees of latitude, 0 (none) or more, e.g. 19")

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that the rule reads."""
        return (self.field,)

    def cells(self, snapshot: Snapshot, mesh: Mesh) -> np.ndarray:
        """Return the cells (lat, lon) above the threshold; unknown values are not."""
        return damped(snapshot[self.field], mesh, self.damping) > self.threshold


@dataclass(frozen=True, kw_only=True)
class BoxShape:
    """Long and narrow by the bounding box, as in the labels of Kurth et al. (2018).

    Regions share edges (4 neighbours). The box's diagonal must exceed `length` km, and the area divided by the
    box's north-south extent must stay below `width` km, which drops rivers that run along a parallel.
    """

    length: float = 1500.0
    width: float = 1000.0
    connectivity: int = 4

    def keep(self, regions: np.ndarray, count: int, snapshot: Snapshot, mesh: Mesh) -> np.ndarray:
        """Return which of the regions 1..count are rivers, as bool (count,)."""
        south, north, west_east = extents(regions, count, mesh)
        middle = np.cos(np.radians((south + north) / 2))
        diagonal = KM_PER_DEGREE * np.hypot(north - south, west_east * middle)
        height = KM_PER_DEGREE * np.maximum(north - south, mesh.lat_step)
        area = region_areas(regions, count, mesh)
        return (diagonal > self.length) & (area / height < self.width)


def damped(field: np.ndarray, mesh: Mesh, width: float) -> np.ndarray:
    """Multiply by 1 - exp(-lat^2 / 2 width^2); unchanged for a width of 0."""
    if not width:
        return field
    return field * (1 - np.exp(-0.5 * (mesh.lat / width) ** 2)).astype(field.dtype)[:, None]


def region_areas(regions: np.ndarray, count: int, mesh: Mesh) -> np.ndarray:
    """Area in km2 of each of the regions 1..count."""
    inside = regions > 0
    areas = sphere.cell_areas_km2(mesh.lat, mesh.lon)
    return np.bincount(regions[inside], areas[inside], minlength=count + 1)[1:]


def extents(regions: np.ndarray, count: int, mesh: Mesh) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """South and north (degrees) of each region's box, and its width in degrees of longitude.

    On a grid that wraps, the box is the shortest arc of longitude that holds the region.
    """
    rows, columns = np.nonzero(regions)
    which = regions[rows, columns]
    south, north = np.full(count + 1, 90.0), np.full(count + 1, -90.0)
    np.minimum.at(south, which, mesh.lat[rows])
    np.maximum.at(north, which, mesh.lat[rows])
    occupied = np.zeros((count + 1, len(mesh.lon)), dtype=bool)
    occupied[which, columns] = True
    arc = np.zeros(count + 1)
    for region in range(1, count + 1):
        filled = np.flatnonzero(occupied[region])
        if mesh.periodic:
            gaps = np.diff(filled, append=filled[0] + len(mesh.lon))
            arc[region] = len(mesh.lon) - gaps.max()
        else:
            arc[region] = filled[-1] - filled[0]
    return south[1:], north[1:], arc[1:] * mesh.lon_step
