"""Cyclones by rule, first half: where their centres are. `cyclone_extent` says which cells they cover."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from climlab_dl.climate.extrema import Cells, closed, extreme_near, least_rise, lowest_of_neighbours, merge
from climlab_dl.climate.mesh import Mesh

# Fields of one snapshot by name, each (lat, lon); a missing value is NaN.
Snapshot = Mapping[str, np.ndarray]

# Metres of thickness per kelvin of layer-mean temperature, R/g ln(p_low/p_high), for the layers that a warm core
# can be read from, best first: a fall of 6 m in Z300-Z500 (TempestExtremes) is 0.40 K.
WARM_LAYERS = {
    ("Z300", "Z500"): 29.27 * np.log(500 / 300),
    ("Z200", "Z500"): 29.27 * np.log(500 / 200),
    ("Z200", "Z1000"): 29.27 * np.log(1000 / 200),
}
# What every set of criteria reads, and the fields of the two cores that TECA looks at.
SURFACE = ("U850", "V850", "UBOT", "VBOT", "PSL")
CORES = {"warm_core": ("T200", "T500"), "thickness": ("Z200", "Z1000")}


@dataclass(frozen=True, kw_only=True)
class VorticityCriteria:
    """Centres as in TECA's detector: the GFDL criteria of Vitart et al. (1997) and Knutson et al. (2007).

    A centre is a maximum of cyclonic 850 hPa vorticity with a pressure minimum nearby from which the pressure
    rises in all eight directions. Whether it has a warm core and a thickness maximum above it is flagged. Distances
    are great-circle degrees; each is at least 1.5 grid steps, so that a coarse grid still compares neighbours.

    Parameters
    ----------
    vorticity
        Least cyclonic relative vorticity at 850 hPa, 1/s.
    vorticity_window
        Width in degrees of the window in which the vorticity must be the largest.
    pressure_radius
        Degrees within which the minimum of sea level pressure must lie.
    pressure_rise, pressure_rise_radius
        Pa by which pressure must rise along every ray within that many degrees.
    warm_core, warm_core_radius, warm_core_fall_radius
        K by which the maximum of (T200 + T500) / 2 found within the first radius must fall within the second.
    thickness, thickness_radius, thickness_fall_radius
        m by which the maximum of Z200 - Z1000 must fall, likewise.
    latitude
        Degrees poleward of which no centre is sought.
    surface_pressure
        Pa; least PS at a centre, 0 to not ask. Over high ground the 850 hPa level and sea level lie in the rock.
    spacing
        Degrees between the rows of the grids that the vorticity and the rise are chosen for; None for any grid. On a
        grid of 2.5 degrees no hurricane reaches the vorticity that one of 0.25 degrees shows.
    """

    vorticity: float = 1.6e-4
    vorticity_window: float = 7.74446
    pressure_radius: float = 2.0
    pressure_rise: float = 400.0
    pressure_rise_radius: float = 5.0
    warm_core: float = 0.8
    warm_core_radius: float = 2.0
    warm_core_fall_radius: float = 5.0
    thickness: float = 50.0
    thickness_radius: float = 2.0
    thickness_fall_radius: float = 4.0
    latitude: float = 80.0
    surface_pressure: float = 0.0
    spacing: float | None = 0.25

    def __post_init__(self) -> None:
        positive(self, "vorticity", "vorticity_window", "pressure_radius", "pressure_rise_radius", "latitude")
        if self.latitude > 85.0:
            raise ValueError(f"latitude={self.latitude}: windows in longitude have no meaning beyond 85 degrees")

    def needed(self, available: Collection[str]) -> tuple[str, ...]:
        """Fields that the criteria cannot do without."""
        return (*SURFACE, "PS") if self.surface_pressure else SURFACE

    def centres(self, snapshot: Snapshot, mesh: Mesh) -> pd.DataFrame:
        """Return one row per centre; see `climlab_dl.climate.heuristics.cyclone_candidates` for the columns."""
        spin = cyclonic_vorticity(snapshot, mesh)
        spin = np.where(np.isfinite(spin), spin, -np.inf)
        peak = (spin >= self.vorticity) & (spin == mesh.window_maximum(spin, self.vorticity_window / 2))
        rows, columns = np.nonzero(peak & (np.abs(mesh.lat) <= self.latitude)[:, None])
        # Two vorticity maxima may share one pressure minimum: the stronger one, taken first, describes it.
        strongest = np.argsort(-spin[rows, columns], kind="stable")
        spin = spin[rows, columns][strongest]
        low = extreme_near(-snapshot["PSL"], mesh, (rows[strongest], columns[strongest]), self.pressure_radius)
        keep = np.zeros(len(spin), dtype=bool)
        keep[np.unique(np.ravel_multi_index(low, snapshot["PSL"].shape), return_index=True)[1]] = True
        keep &= least_rise(snapshot["PSL"], mesh, low, self.pressure_rise_radius) >= self.pressure_rise
        if self.surface_pressure:
            keep &= snapshot["PS"][low] >= self.surface_pressure
        low, spin = _those(low, keep), spin[keep]
        found = _table(snapshot, mesh, low, spin, self.vorticity_window / 2)
        for core in CORES:
            found[core] = self._fall(snapshot, mesh, low, core)
            found[f"has_{core}"] = found[core] >= getattr(self, core)
        return found.sort_values(["lat", "lon"], ignore_index=True)

    def _fall(self, snapshot: Snapshot, mesh: Mesh, low: Cells, core: str) -> np.ndarray:
        if not set(CORES[core]) <= set(snapshot):
            return np.full(len(low[0]), np.nan)
        upper, lower = (snapshot[name] for name in CORES[core])
        values = (upper + lower) / 2 if core == "warm_core" else upper - lower
        top = extreme_near(values, mesh, low, getattr(self, f"{core}_radius"))
        return least_rise(-values, mesh, top, getattr(self, f"{core}_fall_radius"))


@dataclass(frozen=True, kw_only=True)
class ContourCriteria:
    """Centres as in TempestExtremes: closed contours of pressure and of an upper warm core.

    From a minimum of sea level pressure, every path outward must meet a rise of `pressure_rise` before it is
    `pressure_radius` away; likewise a fall of thickness from its maximum near the centre (Zarzycki & Ullrich
    2017; Ullrich et al. 2021, sec. 3). Thickness is that of Z300-Z500 where the fields have it, else Z200-Z500,
    else Z200-Z1000, with the threshold scaled to the same layer-mean temperature.

    Parameters
    ----------
    pressure_rise, pressure_radius
        Pa, and great-circle degrees within which the contour must close.
    thickness, thickness_radius
        m of Z300-Z500, and degrees within which the contour must close.
    thickness_offset
        Degrees from the pressure minimum within which the thickness maximum must lie.
    merge
        Degrees within which only the lowest minimum is kept.
    wind_radius
        Degrees within which the largest surface wind is reported.
    latitude
        Degrees poleward of which no centre is sought.
    """

    pressure_rise: float = 200.0
    pressure_radius: float = 5.5
    thickness: float = 6.0
    thickness_radius: float = 6.5
    thickness_offset: float = 1.0
    merge: float = 6.0
    wind_radius: float = 2.0
    latitude: float = 80.0

    def __post_init__(self) -> None:
        positive(self, "pressure_rise", "pressure_radius", "thickness", "thickness_radius", "merge", "latitude")

    def needed(self, available: Collection[str]) -> tuple[str, ...]:
        """Fields that the criteria cannot do without; the best layer that is available."""
        return (*SURFACE, *next((pair for pair in WARM_LAYERS if set(pair) <= set(available)), next(iter(WARM_LAYERS))))

    def centres(self, snapshot: Snapshot, mesh: Mesh) -> pd.DataFrame:
        """Return one row per centre; see `climlab_dl.climate.heuristics.cyclone_candidates` for the columns."""
        upper, lower = self.needed(snapshot)[-2:]
        pressure, thickness = snapshot["PSL"], snapshot[upper] - snapshot[lower]
        fall = self.thickness * WARM_LAYERS[upper, lower] / WARM_LAYERS["Z300", "Z500"]
        low = merge(pressure, mesh, lowest_of_neighbours(pressure, mesh, self.latitude), self.merge)
        low = _those(low, closed(pressure, mesh, low, self.pressure_rise, self.pressure_radius))
        top = extreme_near(thickness, mesh, low, self.thickness_offset)
        warm = closed(-thickness, mesh, top, fall, self.thickness_radius)
        low, top = _those(low, warm), _those(top, warm)
        spin = cyclonic_vorticity(snapshot, mesh)
        found = _table(snapshot, mesh, low, spin[extreme_near(spin, mesh, low, self.wind_radius)], self.wind_radius)
        found["warm_core"], found["has_warm_core"] = np.nan, True  # the closed contour of thickness says so
        found["thickness"], found["has_thickness"] = least_rise(-thickness, mesh, top, self.thickness_radius), True
        return found.sort_values(["lat", "lon"], ignore_index=True)


def positive(rule: object, *names: str) -> None:
    """Raise ValueError unless the named fields of a rule are above 0."""
    for name in names:
        if not getattr(rule, name) > 0:
            raise ValueError(f"{name}={getattr(rule, name)} must be positive; see {type(rule).__name__} for its unit")


def _those(cells: Cells, keep: np.ndarray) -> Cells:
    return cells[0][keep], cells[1][keep]


def cyclonic_vorticity(snapshot: Snapshot, mesh: Mesh) -> np.ndarray:
    """Relative vorticity at 850 hPa in 1/s, positive where it is cyclonic."""
    return mesh.vorticity(snapshot["U850"], snapshot["V850"]) * np.where(mesh.lat < 0, -1, 1)[:, None]


def _table(snapshot: Snapshot, mesh: Mesh, low: Cells, spin: np.ndarray, radius: float) -> pd.DataFrame:
    speed = np.hypot(snapshot["UBOT"], snapshot["VBOT"])
    return pd.DataFrame(
        {
            "lat": mesh.lat[low[0]],
            "lon": mesh.lon[low[1]],
            "psl": snapshot["PSL"][low].astype(float),
            "vorticity": spin.astype(float),
            "wind": speed[extreme_near(speed, mesh, low, radius)].astype(float),
        }
    )
