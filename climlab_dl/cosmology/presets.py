"""How universes are simulated: presets, and what a preset must hold together."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from climlab_dl.cosmology.linear import TRANSFERS, Cosmology

Ranges = Mapping[str, tuple[float, float]]

# The published ranges of the CosmoFlow set of 2018 (Mathuriya et al. 2018, sec. IV).
COSMOFLOW = {"Omega_m": (0.25, 0.35), "sigma_8": (0.78, 0.95), "n_s": (0.9, 1.0)}
# What may be fixed where nobody asks for another value.
_USUAL = {"Omega_m": 0.31, "sigma_8": 0.82, "n_s": 0.96}


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How universes are simulated; a variation is ``dataclasses.replace(simulate.laptop(), steps=10)``.

    Parameters
    ----------
    box_size_mpc_h
        Side of the periodic cube in Mpc/h.
    particles
        Particles a side.
    voxels
        Voxels a side of the grid on which particles are counted.
    steps
        Steps from the start to the last redshift, at least one for each redshift.
    start
        Scale factor of the 2LPT start.
    mesh_factor
        Force mesh cells a side for each particle a side.
    redshifts
        When to count, with the same initial phases: the channels of the volume, in this order.
    ranges
        Parameters that vary, with their flat prior.
    fixed
        Parameters that do not.
    transfer
        Transfer function of the initial conditions, ``"eisenstein-hu"`` or ``"camb"``.
    constant_in_mpc
        Whether the cube is a constant in Mpc, with ``box_size_mpc_h`` its side at h = 0.7, as in the MLPerf set.
    """

    box_size_mpc_h: float
    particles: int
    voxels: int
    steps: int
    start: float
    ranges: Ranges
    mesh_factor: int = 1
    redshifts: tuple[float, ...] = (0.0,)
    fixed: Mapping[str, float] | None = None
    transfer: str = "eisenstein-hu"
    constant_in_mpc: bool = False

    def __post_init__(self) -> None:
        for name in ("box_size_mpc_h", "particles", "voxels", "steps", "mesh_factor"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} = {getattr(self, name)} is not positive")
        if self.particles % 2:
            raise ValueError(f"particles = {self.particles} a side is odd; take an even number")
        if not 0.02 <= self.start < 1:
            raise ValueError(f"start = {self.start} is not a scale factor in [0.02, 1); 0.1 to 0.25 serves")
        if not self.redshifts or min(self.redshifts) < 0 or len(set(self.redshifts)) < len(self.redshifts):
            raise ValueError(f"redshifts = {self.redshifts} are not distinct and >= 0; e.g. (0.0, 0.5, 1.5, 3.0)")
        if max(self.redshifts) > 1 / self.start - 1:
            raise ValueError(
                f"redshift {max(self.redshifts)} is before the start at a = {self.start} "
                f"(z = {1 / self.start - 1:.3g}); lower start"
            )
        if self.steps < len(self.edges()) - 1:
            raise ValueError(f"steps = {self.steps} are fewer than the redshifts {self.redshifts} need; raise steps")
        if self.transfer not in TRANSFERS:
            raise ValueError(f"transfer = {self.transfer!r} is not known; choose one of {', '.join(TRANSFERS)}")
        if not self.ranges:
            raise ValueError("ranges is empty: name at least one parameter that varies, with (lowest, highest)")
        for name, ends in self.ranges.items():
            if np.shape(ends) != (2,) or not ends[0] < ends[1]:
                raise ValueError(f"ranges[{name!r}] = {ends} is no range; give (lowest, highest)")
        names = {*(self.fixed or {}), *self.ranges}
        if not Cosmology.unknown(names) and (lacking := Cosmology.lacking(names)):
            fixed = {name: _USUAL[name] for name in lacking}
            raise ValueError(
                f"{', '.join(lacking)} neither varies (ranges has {', '.join(self.ranges)}) nor is fixed; add a "
                f"range, or fix it, as in dataclasses.replace(simulate.laptop(), fixed={fixed})"
            )
        for end in (0, 1):  # where a value cannot be, it is one of the ends
            self.cosmology({name: ends[end] for name, ends in self.ranges.items()})

    def cosmology(self, parameters: Mapping[str, float]) -> Cosmology:
        """Complete the varied parameters with the fixed ones."""
        return Cosmology.from_named({**(self.fixed or {}), **parameters})

    def box(self, cosmology: Cosmology) -> float:
        """Side of the cube in Mpc/h for this cosmology."""
        if self.constant_in_mpc:
            return float(int(self.box_size_mpc_h * cosmology.h / 0.7))
        return self.box_size_mpc_h

    def edges(self) -> NDArray[np.float64]:
        """Scale factors of the steps' ends: every redshift is one, and the longest gaps get the steps that are left."""
        edges = sorted({self.start, *(1 / (1 + z) for z in self.redshifts)})
        pieces = [1] * (len(edges) - 1)
        while sum(pieces) < self.steps and pieces:
            longest = int(np.argmax(np.diff(edges) / pieces))
            pieces[longest] += 1
        inner = [np.linspace(*pair, n, endpoint=False) for pair, n in zip(pairwise(edges), pieces, strict=True)]
        return np.concatenate([*inner, edges[-1:]])


def laptop() -> Preset:
    """64^3 particles in 256 Mpc/h at four redshifts, with the ranges of 2018: half a second each on one core."""
    return Preset(
        box_size_mpc_h=256, particles=64, voxels=64, steps=6, start=0.2, redshifts=(0, 0.5, 1.5, 3), ranges=COSMOFLOW
    )


def tour() -> Preset:
    """32^3 particles in 128 Mpc/h at two redshifts, with the wide ranges of the Quijote Latin hypercube.

    Small enough to be made by the hundred while one watches; the wide prior lets so little volume still say something.
    """
    wide = {"Omega_m": (0.1, 0.5), "sigma_8": (0.6, 1.0), "n_s": (0.8, 1.2)}
    return replace(laptop(), box_size_mpc_h=128, particles=32, voxels=32, steps=5, redshifts=(0, 1.5), ranges=wide)


def fine() -> Preset:
    """As :func:`laptop`, with a force mesh twice as fine and ten steps from a = 0.1."""
    return replace(laptop(), steps=10, start=0.1, mesh_factor=2)


def cosmoflow2018() -> Preset:
    """Match the sub-volumes of Mathuriya et al. 2018: 128^3 voxels of 2 Mpc/h today, one particle for each voxel.

    The original counted eight finer particles for each voxel: ``replace(cosmoflow2018(), particles=256)``, at eight
    times the cost.
    """
    return Preset(box_size_mpc_h=256, particles=128, voxels=128, steps=10, start=0.1, ranges=COSMOFLOW)


def mlperf() -> Preset:
    """Match the MLPerf HPC set: 512^3 particles and voxels, four parameters, four redshifts.

    The cube is constant in Mpc, as there. It takes some 40 GB and an hour of one core; for a trial, divide
    ``box_size_mpc_h``, ``particles`` and ``voxels`` by four, which gives one crop's size but with periodic sides.
    """
    ranges = {"Omega_m": (0.27, 0.33), "sigma_8": (0.72, 0.88), "N_spec": (0.864, 1.056), "H_0": (63.0, 77.0)}
    return Preset(
        box_size_mpc_h=512,
        particles=512,
        voxels=512,
        steps=10,
        start=0.1,
        redshifts=(0, 0.5, 1.5, 3),
        ranges=ranges,
        constant_in_mpc=True,
    )


def named(text: str) -> str | None:
    """Name of the preset that is written so into files, if it is one of those here."""
    presets = (laptop, tour, fine, cosmoflow2018, mlperf)
    return next((preset.__name__ for preset in presets if repr(preset()) == text), None)
