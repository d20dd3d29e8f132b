"""From parameters to universes: a design over the prior, and one file of particle counts for each of its points.

    design = simulate.design(64, seed=0)
    engines.map(simulate.into("universes", design), range(64))

Point ``i`` of a design is the same universe, bit for bit on a CPU, whichever rank makes it and however many there are.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from climlab_dl.cosmology import volumes
from climlab_dl.cosmology.linear import Cosmology
from climlab_dl.cosmology.presets import Preset, Ranges, cosmoflow2018, fine, laptop, mlperf, named, tour
from climlab_dl.words import counted

__all__ = [
    "Design",
    "Preset",
    "cosmoflow2018",
    "design",
    "fine",
    "into",
    "laptop",
    "mlperf",
    "path_of",
    "share",
    "simulate",
    "tour",
    "universe",
    "volume",
]

_ENTRY = re.compile(r"(\w+)=((?:\([^)]*\)|\{[^}]*\}|[^,()]+))")
"""Name and value of an entry of a preset, as its repr has them."""

Sampling = Literal["sobol", "latin", "uniform"]


@dataclass(frozen=True, kw_only=True)
class Design:
    """Points of the prior that are to be simulated: ``unit`` (points, parameters) in [-1, 1), and how."""

    preset: Preset
    unit: NDArray[np.float64]
    seed: int

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, in the columns' order."""
        return tuple(self.preset.ranges)

    @property
    def physical(self) -> NDArray[np.float64]:
        """Parameters in physical units (points, parameters)."""
        low, high = np.array(list(self.preset.ranges.values())).T
        return (high + low) / 2 + self.unit * (high - low) / 2

    def table(self) -> pd.DataFrame:
        """One row a universe."""
        return pd.DataFrame(self.physical, columns=list(self.names)).rename_axis("universe")

    def noise_seed(self, index: int) -> int:
        """Seed of the initial conditions of one point, independent of all others and of the ranks."""
        return int(np.random.SeedSequence(self.seed, spawn_key=(index,)).generate_state(1, np.uint64)[0] >> 1)

    def __repr__(self) -> str:
        spans = ", ".join(f"{name} {low:g}..{high:g}" for name, (low, high) in self.preset.ranges.items())
        preset = self.preset
        return f"{counted(len(self), 'universe')} of {preset.voxels}^3 voxels at redshifts {preset.redshifts}: {spans}"


def design(
    n: int, ranges: Ranges | None = None, seed: int = 0, *, preset: Preset | None = None, sampling: Sampling = "sobol"
) -> Design:
    """Choose points that fill the prior.

    Parameters
    ----------
    n
        Number of universes.
    ranges
        Parameters that vary and their flat prior; the preset's if None.
    seed
        Of the points and of the initial conditions.
    preset
        How to simulate; :func:`laptop` if None.
    sampling
        ``"sobol"`` (point i does not depend on n, so a design can be extended), ``"latin"`` or ``"uniform"``.

    Raises
    ------
    ValueError
        If a range is none, a parameter is unknown, or one that a cosmology needs neither varies nor is fixed.
    """
    from scipy.stats import qmc

    preset = preset or laptop()
    if ranges is not None:
        preset = replace(preset, ranges=dict(ranges))
    if n < 1:
        raise ValueError(f"n = {n} universes cannot be simulated; ask for at least one")
    dimensions = len(preset.ranges)
    generator = np.random.default_rng(seed)
    if sampling == "sobol":
        points = qmc.Sobol(dimensions, rng=generator).random_base2(int(np.ceil(np.log2(n))))[:n]
    elif sampling == "latin":
        points = qmc.LatinHypercube(dimensions, rng=generator).random(n)
    elif sampling == "uniform":
        points = generator.random((n, dimensions))
    else:
        raise ValueError(f"sampling = {sampling!r} is not known; choose sobol, latin or uniform")
    return Design(preset=preset, unit=2 * points - 1, seed=seed)


def universe(
    parameters: Mapping[str, float] | Cosmology, preset: Preset | None = None, seed: int = 0, device: str = "cpu"
) -> NDArray[np.int16]:
    """Simulate one universe and count its particles.

    Parameters
    ----------
    parameters
        Those that vary, by name; the preset's ``fixed`` and the defaults of :class:`Cosmology` complete them.
    preset
        How to simulate; :func:`laptop` if None.
    seed
        Of the initial conditions. The same seed is the same universe on any machine's CPU, and to rounding on a GPU.
    device
        Where torch computes.

    Returns
    -------
    NDArray[np.int16]
        Counts (voxels, voxels, voxels, redshifts); every channel sums to the number of particles.
    """
    import torch

    from climlab_dl.cosmology import particles

    preset = preset or laptop()
    cosmology = parameters if isinstance(parameters, Cosmology) else preset.cosmology(parameters)
    box, edges = preset.box(cosmology), preset.edges()
    found: dict[float, NDArray[np.int16]] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # universes are parallel among themselves; threads within one only wait for each other
    try:
        noise = particles.white_noise(preset.particles, seed).to(device)
        modes = particles.linear_modes(noise, cosmology, box, preset.transfer)
        mesh = preset.mesh_factor * preset.particles
        for a, positions in particles.evolve(modes, cosmology.Omega_m, box, edges, mesh):
            for z in preset.redshifts:
                if np.isclose(a, 1 / (1 + z)):
                    found[z] = particles.counts(positions, preset.voxels, box).to(torch.int16).cpu().numpy()
    finally:
        torch.set_num_threads(threads)
    return np.stack([found[z] for z in preset.redshifts], axis=-1)


def volume(
    parameters: Mapping[str, float], preset: Preset | None = None, seed: int = 0, device: str = "cpu"
) -> volumes.Volume:
    """Simulate as :func:`universe` does; the counts with all that is known of them."""
    preset = preset or laptop()
    return volumes.Volume(
        counts=universe(parameters, preset, seed, device),
        names=tuple(parameters),
        physical=np.array(list(parameters.values()), dtype=np.float64),
        redshifts=np.asarray(preset.redshifts, dtype=np.float64),
        box_size_mpc_h=preset.box(preset.cosmology(parameters)),
        source=Path(f"universe of seed {seed}"),
        attributes={"seed": seed, "transfer": preset.transfer, "simulation": repr(preset)},
    )


def path_of(folder: str | Path, index: int) -> Path:
    """Where universe ``index`` of a design is kept."""
    return Path(folder) / f"universe_{index:05d}.h5"


def simulate(design: Design, folder: str | Path, index: int, device: str = "cpu") -> Path:
    """Simulate one point of a design into a file, unless it is there already.

    A file is written beside and renamed, so an interrupted design is continued by asking for it again. Its layout is
    :func:`climlab_dl.cosmology.volumes.save`'s.

    Raises
    ------
    IndexError
        If the design has no such point.
    ValueError
        If the file that is there is another universe than this point's.
    """
    if not 0 <= index < len(design):
        raise IndexError(f"universe {index} is not in the design, which has {len(design)} (0 to {len(design) - 1})")
    path, preset, seed = path_of(folder, index), design.preset, design.noise_seed(index)
    if path.exists():
        _must_be(path, design, index)
        return path
    physical = dict(zip(design.names, design.physical[index].tolist(), strict=True))
    made = volume(physical, preset, seed, device)
    return volumes.save(replace(made, unit=design.unit[index], source=path), path)


def into(folder: str | Path, design: Design, device: str = "cpu") -> Callable[[int], Path]:
    """:func:`simulate` with all but the index given, for ``engines.map``."""
    return partial(simulate, design, Path(folder).absolute(), device=device)


def share(design: Design, folder: str | Path, rank: int = 0, ranks: int = 1, device: str = "cpu") -> Iterator[Path]:
    """Simulate one rank's share of a design (every ``ranks``-th point), yielding each file when it is complete."""
    for index in range(rank, len(design), ranks):
        yield simulate(design, folder, index, device)


def _must_be(path: Path, design: Design, index: int) -> None:
    attributes = volumes.attributes(path)
    seed, made, wanted = design.noise_seed(index), str(attributes.get("simulation", "")), repr(design.preset)
    remedy = "Choose an empty folder, or delete the file."
    if attributes.get("seed") != seed:
        differs = f"its seed is {attributes.get('seed')}, that of the design's point {index} is {seed}"
    elif made != wanted:
        differs = f"it was made with another preset ({_difference(made, wanted)})"
        if name := named(made):
            remedy = f"To go on with these, take preset=simulate.{name}(); or choose an empty folder."
    else:
        return
    raise ValueError(f"{path} is another universe: {differs}. {remedy}")


def _difference(made: str, wanted: str) -> str:
    """Say by which numbers one preset differs from another, both as they are written into files."""
    of_file, of_design = (dict(_ENTRY.findall(text)) for text in (made, wanted))
    names = [name for name in of_design if of_file.get(name) != of_design[name]]
    return ", ".join(f"{name} {of_file.get(name, 'unknown')} instead of {of_design[name]}" for name in names)
