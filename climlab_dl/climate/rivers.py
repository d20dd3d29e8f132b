"""Atmospheric rivers by rule, first half: which cells carry unusual vapour. `river_shapes` has the second."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr

from climlab_dl.climate.mesh import Mesh, destination

# 1 - exp(-lat^2 / 2 s^2) is one half at s sqrt(2 ln 2): what BARD calls the half width at half maximum.
HALF_WIDTH = np.sqrt(2 * np.log(2))


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
        Standard deviation in degrees of the Gaussian: the field is multiplied by 1 - exp(-lat^2 / 2 damping^2), so
        that the moist tropics are not one river; 0 for none.
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

    def cells(self, snapshot: Mapping[str, np.ndarray], mesh: Mesh) -> np.ndarray:
        """Return the cells (lat, lon) above the threshold; unknown values are not."""
        return damped(snapshot[self.field], mesh, self.damping) > self.threshold


@dataclass(frozen=True, kw_only=True)
class AbovePercentile:
    """Cells where a damped field exceeds a percentile of all cells of the snapshot, as in TECA's BARD.

    Parameters
    ----------
    field, damping
        As in `Above`.
    percentile
        Between 0 and 100; BARD's range is 80 to 99, its median 94.1.
    """

    field: str = "IVT"
    percentile: float = 94.1
    damping: float = 19.3 / HALF_WIDTH

    def __post_init__(self) -> None:
        if not 0 < self.percentile < 100:
            raise ValueError(f"percentile={self.percentile} must lie between 0 and 100, e.g. 94.1")

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that the rule reads."""
        return (self.field,)

    def cells(self, snapshot: Mapping[str, np.ndarray], mesh: Mesh) -> np.ndarray:
        """Return the cells (lat, lon) above the snapshot's own percentile; unknown values are not."""
        values = damped(snapshot[self.field], mesh, self.damping)
        known = values[np.isfinite(values)]
        return values > np.percentile(known, self.percentile) if known.size else np.zeros(values.shape, dtype=bool)


@dataclass(frozen=True, kw_only=True, eq=False)
class AboveLocal:
    """Cells where a field exceeds its own local limit, and a floor.

    Parameters
    ----------
    field
        ``"IVT"`` (kg/m/s), or ``"TMQ"`` (kg/m2).
    limit
        The limit at each place, (lat, lon) on the grid of the fields; `heuristics.local_percentile` makes one.
    floor
        Least value that counts, in the unit of the field.
    """

    field: str = "IVT"
    limit: xr.DataArray = dataclasses.field(repr=False)
    floor: float = 100.0

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that the rule reads."""
        return (self.field,)

    def cells(self, snapshot: Mapping[str, np.ndarray], mesh: Mesh) -> np.ndarray:
        """Return the cells (lat, lon) above the limit and the floor; unknown values are not."""
        try:
            here = self.limit.transpose("lat", "lon").sel(lat=mesh.lat, lon=mesh.lon, method="nearest", tolerance=1e-3)
        except KeyError as error:
            raise ValueError(
                f"the limit ({dict(self.limit.sizes)}) does not have the fields' grid ({len(mesh.lat)} x "
                f"{len(mesh.lon)}); make it from fields of the same grid with heuristics.local_percentile"
            ) from error
        return snapshot[self.field] > np.maximum(here.values, self.floor)


@dataclass(frozen=True, kw_only=True)
class Ridge:
    """Cells on a ridge of vapour transport: a strongly negative Laplacian, as in TempestExtremes' TempestLR.

    The Laplacian is 4 (mean on a circle - centre) / radius^2, with `points` on the circle (Ullrich & Zarzycki 2017).

    Parameters
    ----------
    field
        ``"IVT"`` in kg/m/s.
    laplacian
        kg/m/s per square radian; cells at or below it count. -2e4, in older work -3e4 or -5e4.
    radius
        Of the circle, in degrees.
    points
        On the circle.
    latitude
        Degrees equatorward of which no cell counts.
    """

    field: str = "IVT"
    laplacian: float = -2e4
    radius: float = 10.0
    points: int = 8
    latitude: float = 15.0

    def __post_init__(self) -> None:
        if self.laplacian >= 0:
            raise ValueError(
                f"laplacian={self.laplacian} must be negative (a ridge), e.g. -2e4 kg/m/s per square radian"
            )

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that the rule reads."""
        return (self.field,)

    def cells(self, snapshot: Mapping[str, np.ndarray], mesh: Mesh) -> np.ndarray:
        """Return the cells (lat, lon) on a ridge; unknown values, and those beside them, are not."""
        field = snapshot[self.field]
        south, north = mesh.lat.min(), mesh.lat.max()
        ring = np.zeros(field.shape)
        for bearing in np.arange(self.points) * 360.0 / self.points:
            lat, lon = destination(mesh.lat[:, None], mesh.lon[None], bearing, self.radius)
            # Rows of a Gaussian grid end before the pole: there the outermost row stands for what lies beyond.
            ring += mesh.sample(field, np.clip(lat, south, north), lon) / self.points
        curvature = 4 * (ring - field) / np.radians(self.radius) ** 2
        return (curvature <= self.laplacian) & (np.abs(mesh.lat) >= self.latitude)[:, None]


def damped(field: np.ndarray, mesh: Mesh, width: float) -> np.ndarray:
    """Multiply by 1 - exp(-lat^2 / 2 width^2); unchanged for a width of 0."""
    if not width:
        return field
    return field * (1 - np.exp(-0.5 * (mesh.lat / width) ** 2)).astype(field.dtype)[:, None]
