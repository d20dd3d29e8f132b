"""Simulated universes with their parameters as training data."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from climlab_dl.cosmology import checks, volumes
from climlab_dl.cosmology.volumes import Volume
from climlab_dl.parallel import ranks
from climlab_dl.training.batches import Prepared, Samples, check_shares, same_samples, shared_statistics, split
from climlab_dl.training.metrics import Parameters
from climlab_dl.training.statistics import Statistics, merged


@dataclass(frozen=True, kw_only=True)
class Universes:
    """One volume a file, split by universe: training, then calibration (for posteriors), then held out.

    Parameters
    ----------
    source
        Files of volumes: a folder, at any depth, or a glob pattern.
    parameters
        Names of the parameters to find; all of the files' by default.
    redshifts
        Which of the files' redshifts to look at, in this order; all by default.
    held_out
        Share of the universes that neither network nor posterior learns from: scores are of these.
    calibration
        Share of the universes that the network never trains on, from which a posterior learns how it errs.
    at_most
        Train on the first so many of the others only, for a learning curve with one held-out part.
    log1p
        Take the logarithm of one plus the count (MLPerf), else the count; either is then normalised.
    targets
        ``"physical"``: parameters less their training mean, over their standard deviation (Mathuriya et al. 2018).
        ``"unit"``: the prior as -1 to 1 (MLPerf), for networks whose output is bounded, and for files that do not tell
        the physical values, such as MLPerf's TFRecords: errors are then in units of half the prior.
    symmetries
        Turn and mirror each volume at random (the 48 symmetries of the cube) and, where it is periodic, shift it.
    memory_gigabytes
        Archives up to this size, as counts of two bytes, are kept in each rank's memory.
    workers
        Threads per rank that read ahead, for archives that are not.
    """

    source: str | Path
    parameters: tuple[str, ...] | None = None
    redshifts: tuple[float, ...] | None = None
    held_out: float = 0.2
    calibration: float = 0.0
    at_most: int | None = None
    log1p: bool = True
    targets: Literal["physical", "unit"] = "physical"
    symmetries: bool = True
    memory_gigabytes: float = 4.0
    workers: int = 2

    def __post_init__(self) -> None:
        check_shares(held_out=self.held_out, calibration=self.calibration)
        if self.at_most is not None and self.at_most < 2:
            raise ValueError(f"at_most={self.at_most!r}: choose 2 universes or more to train on")
        if self.targets not in ("physical", "unit"):
            raise ValueError(f"targets={self.targets!r}: choose 'physical' or 'unit'")

    def files(self) -> dict[str, list[Path]]:
        """Paths of the ``"training"``, ``"calibration"`` and ``"held_out"`` universes."""
        found = volumes.files(self.source)
        names = ("training", "calibration", "held_out")
        return {name: [found[i] for i in part] for name, part in zip(names, self._split(len(found)), strict=True)}

    def prepare(self, seed: int, known: dict[str, Any] | None = None) -> Prepared:
        """Find the universes, split them and find their statistics; every rank calls this.

        Parameters
        ----------
        seed
            Of the augmentation.
        known
            The statistics of a checkpoint, which spare the pass over the volumes.

        Raises
        ------
        ValueError
            If a file holds no volume with parameters, or what cannot be counts.
        """
        with ranks.together("opening the universes"):
            reader = _Volumes(volumes.files(self.source), self)
            training, calibration, held_out = self._split(len(reader.paths))
            samples = same_samples(
                known, self.source, lambda index: reader.paths[index].name,
                training=training, calibration=calibration, held_out=held_out,
            )  # fmt: skip
        statistics = shared_statistics(reader, training, known)
        facts = known or {
            **statistics.facts(), **reader.target_scale(training), **reader.seen(training),
            "targets": list(reader.parameters), "log1p": self.log1p, "samples": samples,
        }  # fmt: skip
        mean, std = facts["target_mean"].numpy(), facts["target_std"].numpy()
        reader.normalise(statistics, mean, std)
        return Prepared(
            training=Samples(reader, training, augment=reader.vary if self.symmetries else None, seed=seed),
            held_out=Samples(reader, held_out),
            channels=reader.channels,
            targets=reader.parameters,
            statistics=statistics,
            facts=facts,
            metrics=lambda: Parameters(reader.parameters, mean, std),
            workers=0 if reader.in_memory else self.workers,
        )

    def _split(self, count: int) -> list[range]:
        training, *others = split(count, self.calibration, self.held_out, what="universes")
        return [training[: self.at_most], *others]


class _Volumes:
    """Reads volumes, from memory or one file after the other."""

    def __init__(self, paths: list[Path], data: Universes) -> None:
        self.paths, self.log1p, self.redshifts, self.targets = paths, data.log1p, data.redshifts, data.targets
        first = self._open(0)
        absent = [name for name in data.parameters or () if name not in first.names]
        if absent or not first.names:
            raise ValueError(
                f"{paths[0]} has no parameter {', '.join(absent) or 'values'} (it has "
                f"{', '.join(first.names) or 'no names'}); training needs namePar, and unitPar or physPar"
            )
        # Files that tell only one of the two are learnt from in the terms that they use.
        self.scaled_only = first.physical is None and data.targets == "unit"
        self.parameters = data.parameters or first.names
        shifts = np.zeros(first.counts.shape[-1]) if first.redshifts is None else first.redshifts
        self.channels = tuple(f"z={shift:g}" for shift in shifts)
        self.shape = (first.counts.shape[-1], *first.counts.shape[:-1])
        self.periodic, self.box_size_mpc_h = first.periodic, first.box_size_mpc_h
        self.told_redshifts = None if first.redshifts is None else first.redshifts.tolist()
        self.mean, self.std = Statistics.empty(self.channels).scale(3)
        self.target_mean, self.target_std = np.zeros(len(self.parameters)), np.ones(len(self.parameters))
        self._table = np.zeros((len(self.channels), 2**16), dtype=np.float32)
        self.in_memory = float(len(paths)) * first.counts.nbytes <= data.memory_gigabytes * 2**30
        self._kept = [self._load(index, keep=True) for index in range(len(paths))] if self.in_memory else []
        self._seen: dict[int, list[np.ndarray]] = {}  # parameters by number of the volume, scaled and physical
        self._mean_counts: dict[int, np.ndarray] = {}

    def statistics(self, indices: range) -> Statistics:
        """Merge the statistics of some volumes, one after the other, and note their parameters."""
        parts = [Statistics.empty(self.channels)]
        for index in indices:
            counts, *self._seen[index] = self._counts(index)
            self._mean_counts[index] = counts.mean((1, 2, 3), dtype=np.float64)
            parts.append(Statistics.of(self._values(counts), self.channels))
        return merged(parts)

    def target_scale(self, training: range) -> dict[str, torch.Tensor]:
        """Middle and half width of each parameter, from those that all ranks together have noted of some universes."""
        table = np.zeros((len(training), 2, len(self.parameters)))
        for index, noted in self._seen.items():
            table[index] = noted
        unit, physical = np.moveaxis(ranks.sum(torch.from_numpy(table), "parameters").numpy(), 1, 0)
        if self.targets == "physical":
            low, high = _spread(physical)
        elif self.scaled_only:
            high = np.ones(len(self.parameters))
            low = -high
        else:
            low, high = volumes.scaling(unit, physical)
        return {"target_mean": torch.from_numpy((low + high) / 2), "target_std": torch.from_numpy((high - low) / 2)}

    def seen(self, training: range) -> dict[str, Any]:
        """Tell what kind of volumes these are, so that who asks the network of others can be warned."""
        table = np.zeros((len(training), len(self.channels)))
        for index, noted in self._mean_counts.items():
            table[index] = noted
        means = ranks.sum(torch.from_numpy(table), "mean counts")
        span = {"lowest_mean_count": means.amin(0).tolist(), "highest_mean_count": means.amax(0).tolist()}
        side = {"cells_a_side": self.shape[-1], "box_size_mpc_h": self.box_size_mpc_h}
        return {**side, "redshifts": self.told_redshifts, **span}

    def normalise(self, statistics: Statistics, target_mean: np.ndarray, target_std: np.ndarray) -> None:
        """From now on give (value - mean) / std, of volumes and parameters."""
        self.mean, self.std = statistics.scale(3)
        self.target_mean, self.target_std = target_mean, target_std
        # Looking a count up is ten times as fast as its logarithm. Negative ones never get here.
        with np.errstate(invalid="ignore", divide="ignore"):
            possible = self._values(np.arange(2**16).astype(np.uint16).view(np.int16))
        self._table = (possible - self.mean[:, :, 0, 0]) / self.std[:, :, 0, 0]

    def read(self, index: int, out: np.ndarray) -> np.ndarray:
        """Write one volume to an array (redshift, x, y, z), and return its parameters, both normalised."""
        counts, _, physical = self._counts(index)
        if counts.dtype == np.int16:
            for table, one, values in zip(self._table, counts.view(np.uint16), out, strict=True):
                np.take(table, one, out=values, mode="clip")  # as all are in the table, which saves a copy
        else:
            np.subtract(self._values(counts), self.mean, out=out)
            np.divide(out, self.std, out=out)
        return ((physical - self.target_mean) / self.target_std).astype(np.float32)

    def vary(self, values: np.ndarray, target: np.ndarray, random: np.random.Generator, out: np.ndarray) -> np.ndarray:
        """Turn, mirror and, in a periodic box, shift: none of it changes what the universe is made of."""
        if self.periodic:
            values = np.roll(values, random.integers(values.shape[1:]), axis=(1, 2, 3))
        turned = volumes.symmetry(np.moveaxis(values, 0, -1), int(random.integers(48)))
        out[...] = np.moveaxis(turned, -1, 0)
        return target

    def describe(self, index: int) -> str:
        """Name the file."""
        return str(self.paths[index])

    def _values(self, counts: np.ndarray) -> np.ndarray:
        values = counts.astype(np.float32)
        return np.log1p(values) if self.log1p else values

    def _counts(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._kept[index] if self.in_memory else self._load(index)

    def _open(self, index: int) -> Volume:
        found = list(itertools.islice(volumes.read(self.paths[index]), 2))
        if len(found) != 1:
            raise ValueError(
                f"{self.paths[index]} holds {'several' if found else 'no'} volumes; training takes one a file"
            )
        return found[0] if self.redshifts is None else found[0].at(self.redshifts)

    def _load(self, index: int, *, keep: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        volume = self._open(index)
        if volume.counts.shape != (*self.shape[1:], self.shape[0]) or set(self.parameters) - set(volume.names):
            raise ValueError(
                f"{self.paths[index]} holds a volume {volume.counts.shape} of {', '.join(volume.names)}; expected "
                f"{(*self.shape[1:], self.shape[0])} of {', '.join(self.parameters)}, as in {self.paths[0]}"
            )
        told, expected = volume.redshifts, self.told_redshifts
        if (
            told is not None
            and expected is not None
            and (len(told) != len(expected) or not np.allclose(told, expected))
        ):
            raise ValueError(
                f"{self.paths[index]} has redshifts {', '.join(f'{z:g}' for z in told)}; expected "
                f"{', '.join(f'{z:g}' for z in expected)}, as in {self.paths[0]}. To take them by their values, "
                f"wherever they lie in a file: redshifts={tuple(expected)}"
            )
        if fault := checks.impossible(volume.counts):
            raise ValueError(f"{self.paths[index]}: {fault}; leave it out, or convert it to counts")
        columns = [volume.names.index(name) for name in self.parameters]
        physical = volume.unit if self.scaled_only else volume.physical
        unit = volume.unit if self.targets == "unit" else physical
        if unit is None or physical is None:
            lacking, other = ("physPar", "unit") if volume.physical is None else ("unitPar", "physical")
            raise ValueError(f"{self.paths[index]} has no {lacking}; learn from it with targets={other!r}")
        # Kept as they are stored: in four bytes a number a study's universes would not fit into a laptop.
        counts = np.moveaxis(volume.counts, -1, 0)
        return np.ascontiguousarray(counts) if keep else counts, unit[columns], physical[columns]


def _spread(physical: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean less and plus one standard deviation."""
    std = physical.std(axis=0)
    if not (std > 0).all():
        raise ValueError("a parameter has the same value in all training universes; leave it out of parameters")
    return physical.mean(axis=0) - std, physical.mean(axis=0) + std


__all__ = ["Universes"]
