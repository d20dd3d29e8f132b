"""The rules by which heuristics labels, with their published thresholds: `Cyclones` and `Rivers`."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import xarray as xr

from climlab_dl.climate.cyclone_extent import Extent
from climlab_dl.climate.cyclones import CORES, ContourCriteria, VorticityCriteria
from climlab_dl.climate.fields import CYCLONE, RIVER
from climlab_dl.climate.mesh import Mesh
from climlab_dl.climate.river_shapes import AxisShape, BoxShape, TransportShape, regions_of
from climlab_dl.climate.rivers import Above, AboveLocal, AbovePercentile, Ridge

log = logging.getLogger(__name__)
NO_CENTRES = pd.DataFrame({"lat": [], "lon": []})

# Vorticity (1/s) and pressure rise (Pa) of TECA's criteria by grid spacing in degrees. At 0.25 they are TECA's. At
# 2.5 they are ours: the forecast of 2011-10-11 has hurricane Irwin at 1.0e-4 1/s and 860 Pa, tropical storm Banyan at
# 8.5e-5 and 440, and nothing else in the tropics above 5e-5 and 180. Between, vorticity falls as spacing^-0.5.
TECA = {0.25: (1.6e-4, 400.0), 0.5: (1.1e-4, 400.0), 1.0: (8e-5, 350.0), 2.5: (5e-5, 300.0)}


def _nearest(spacing: float) -> float:
    """Resolution of the preset that is nearest to a spacing in degrees, as a ratio."""
    return min(TECA, key=lambda resolution: abs(np.log(resolution / spacing)))


@dataclass(frozen=True, kw_only=True)
class Cyclones:
    """A rule for the class cyclone: where the centres are, and which cells around them belong to it.

    Parameters
    ----------
    centres
        The criteria for a centre.
    flags
        Flags (``has_warm_core``, ``has_thickness``) without which a centre is not marked in a mask.
    extent
        The criteria for the cells around it.
    """

    centres: VorticityCriteria | ContourCriteria = field(default_factory=VorticityCriteria)
    flags: tuple[str, ...] = ("has_warm_core", "has_thickness")
    extent: Extent = field(default_factory=Extent)

    def __post_init__(self) -> None:
        if unknown := set(self.flags) - {f"has_{core}" for core in CORES}:
            raise ValueError(f"flags={self.flags}: no flag {sorted(unknown)}; there are has_warm_core, has_thickness")

    @classmethod
    def kurth(cls) -> "Cyclones":
        """Return the very loose criteria behind the labels of Kurth et al. (2018), for any grid.

        850 hPa vorticity of 1e-5 1/s, a pressure rise of 100 Pa and a warm core of 0.1 K, here within 45 degrees of
        the equator and where the ground lies below 900 hPa. On fine analyses it marks tropical cyclones,
        depressions and many subtropical lows. On coarse model weather (the T63 sample archive), which resolves
        no hurricanes, it marks lows whose core is warmer than what surrounds it: two or three a snapshot, at
        least one in nearly nine of ten, half of them within 30 degrees. A network trained on that learns to
        find such lows, not hurricanes. The published labels kept only centres on TECA's tracks: to do so, pass
        ``label`` the result of ``stitch``.
        """
        loose = VorticityCriteria(
            vorticity=1e-5,
            pressure_rise=100.0,
            warm_core=0.1,
            latitude=45.0,
            surface_pressure=90e3,
            spacing=None,
        )
        return cls(centres=loose, flags=("has_warm_core",))

    @classmethod
    def teca(cls, resolution: float = 0.25) -> "Cyclones":
        """Return TECA's criteria (those of GFDL) for a grid spacing of 0.25, 0.5, 1 or 2.5 degrees.

        TECA lists centres without a warm core too and lets the track decide; a mask shows those with both flags.
        Fields of a spacing more than a factor of two away are refused; `teca_for` chooses for the fields.
        """
        if resolution not in TECA:
            raise ValueError(f"resolution={resolution}: there are presets for {sorted(TECA)} degrees; take the nearest")
        vorticity, rise = TECA[resolution]
        return cls(centres=VorticityCriteria(vorticity=vorticity, pressure_rise=rise, spacing=resolution))

    @classmethod
    def teca_for(cls, fields: xr.Dataset) -> "Cyclones":
        """Return TECA's criteria at the preset nearest to the spacing of the fields' latitudes."""
        return cls.teca(_nearest(float(np.median(np.abs(np.diff(fields["lat"].values))))))

    @classmethod
    def tempest(cls) -> "Cyclones":
        """Return TempestExtremes' criteria (Ullrich et al. 2021), the same for 0.25 to 2.5 degrees.

        Radii widen to 1.5 grid steps where a grid is coarser than they are.
        """
        return cls(centres=ContourCriteria(), flags=())

    def refuse_other_grids(self, mesh: Mesh) -> None:
        """Raise ValueError where the mesh is over twice as coarse or fine as the grids that the thresholds are for.

        Where it is finer or coarser than any preset's, the nearest preset passes with a warning in the log.
        """
        if not isinstance(self.centres, VorticityCriteria):
            return
        meant = self.centres.spacing
        if meant is None or 0.5 <= mesh.lat_step / meant <= 2.0:
            return
        if (better := _nearest(mesh.lat_step)) != meant:
            raise ValueError(
                f"the cyclone rule's vorticity ({self.centres.vorticity:g} 1/s) is for a grid of {meant:g} degrees, "
                f"and the fields have {mesh.lat_step:.3g}, where storms show another. Take Cyclones.teca_for(fields), "
                f"here the same as Cyclones.teca({better:g}), or spacing=None with thresholds of your own"
            )
        log.warning(
            "no preset of TECA's criteria is for %.3g degrees; that for %g finds %s centres than it should",
            mesh.lat_step,
            meant,
            "more" if mesh.lat_step < meant else "fewer",
        )

    def needed(self, available: Collection[str]) -> tuple[str, ...]:
        """Fields that the rule cannot do without."""
        flagged = [name for core, pair in CORES.items() if f"has_{core}" in self.flags for name in pair]
        return (*self.centres.needed(available), *flagged, *self.extent.fields)

    def find(self, snapshot: Mapping[str, np.ndarray], mesh: Mesh) -> pd.DataFrame:
        """Return the centres that have all the flags."""
        found = self.centres.centres(snapshot, mesh)
        return found.loc[found[list(self.flags)].all(axis=1)] if self.flags else found

    def paint(self, mask: np.ndarray, centres: pd.DataFrame, snapshot: Mapping[str, np.ndarray], mesh: Mesh) -> None:
        """Write the class into the mask (lat, lon)."""
        self.extent.paint(mask, CYCLONE, centres, snapshot, mesh)


@dataclass(frozen=True, kw_only=True)
class Rivers:
    """A rule for the class river: which cells are moist enough, and which regions of them have its shape.

    Parameters
    ----------
    where
        The criteria for a cell.
    shape
        The criteria for a connected region.
    clear_of_cyclones
        Degrees around the centre of a cyclone within which no cell counts; 0 for none.
    """

    where: Above | AbovePercentile | AboveLocal | Ridge
    shape: BoxShape | AxisShape | TransportShape = field(default_factory=BoxShape)
    clear_of_cyclones: float = 0.0

    @classmethod
    def kurth(cls, threshold: float = 21.0) -> "Rivers":
        """Return the rule of the labels of Kurth et al. (2018): TMQ damped with 19 degrees above 21 or 24 kg/m2."""
        return cls(where=Above(field="TMQ", threshold=threshold, damping=19.0))

    @classmethod
    def ivt(cls, threshold: float = 250.0) -> "Rivers":
        """Return the rule of Rutz et al. (2014): IVT above 250 kg/m/s over a length of 2000 km; twice as long as wide.

        IVT is damped with 10 degrees, because the trade winds carry as much without being rivers.
        """
        return cls(
            where=Above(field="IVT", threshold=threshold, damping=10.0), shape=AxisShape(length=2000.0, ratio=2.0)
        )

    @classmethod
    def guan_waliser(cls, limit: xr.DataArray, floor: float = 100.0) -> "Rivers":
        """Return the rule of Guan & Waliser (2015); it needs IVT and its parts TUQ and TVQ.

        ``limit`` is the local 85th percentile of IVT in the season, ``heuristics.local_percentile(ivt, 85)`` of the
        fields of that season; ``fields.groupby("time.season").map(...)`` goes through a whole archive.
        """
        return cls(where=AboveLocal(limit=limit, floor=floor), shape=TransportShape())

    @classmethod
    def tempest(cls) -> "Rivers":
        """Return TempestLR: ridges of IVT of at least 4e5 km2 poleward of 15 degrees, 8 degrees from any cyclone."""
        return cls(where=Ridge(), shape=AxisShape(area=4e5), clear_of_cyclones=8.0)

    def needed(self, available: Collection[str]) -> tuple[str, ...]:
        """Fields that the rule cannot do without."""
        return (*self.where.fields, *self.shape.fields)

    def find(self, centres: pd.DataFrame, snapshot: Mapping[str, np.ndarray], mesh: Mesh) -> np.ndarray:
        """Return the cells (lat, lon) of rivers, given the cyclones' centres."""
        cells = self.where.cells(snapshot, mesh)
        if self.clear_of_cyclones:
            for lat, lon in zip(centres["lat"], centres["lon"], strict=True):
                near = mesh.patch(lat, lon, self.clear_of_cyclones)
                cells[near.rows, near.columns] &= near.distance > self.clear_of_cyclones
        regions = regions_of(cells, mesh, self.shape.connectivity)
        if not regions.count:
            return cells
        return np.append(False, self.shape.keep(regions, snapshot))[regions.labels]

    def paint(self, mask: np.ndarray, centres: pd.DataFrame, snapshot: Mapping[str, np.ndarray], mesh: Mesh) -> None:
        """Write the class into the mask (lat, lon)."""
        mask[self.find(centres, snapshot, mesh)] = RIVER
