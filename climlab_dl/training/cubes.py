"""Cubes of counts with their parameters, read from memory or from their files, as samples to train on."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from climlab_dl.cosmology import faults, volumes
from climlab_dl.cosmology.volumes import Volume
from climlab_dl.parallel import ranks
from climlab_dl.training.parts import refuse_apart
from climlab_dl.training.statistics import Statistics, merged

if TYPE_CHECKING:
    from climlab_dl.training.universes import Universes


class Cubes:
    """Reads the volumes of some files, all of one kind, from memory or one file after the other."""

    def __init__(self, paths: list[Path], data: "Universes") -> None:
        self.paths, self.log1p, self.redshifts, self.targets = paths, data.log1p, data.redshifts, data.targets
        first = self._open(0)
        if not first.names:
            raise ValueError(f"{paths[0]} names no parameters; training needs namePar, and unitPar or physPar")
        if absent := [name for name in data.parameters or () if name not in first.names]:
            raise ValueError(f"{paths[0]} has no {', '.join(absent)}; choose of what it has: parameters={first.names}")
        # Files that tell only one of the two are learnt from in the terms that they use.
        self.scaled_only = first.physical is None and data.targets == "unit"
        self.parameters = data.parameters or first.names
        self._first, self._chosen = faults.outline(first), data.parameters or ()
        shifts = np.zeros(first.counts.shape[-1]) if first.redshifts is None else first.redshifts
        self.channels = tuple(f"z={shift:g}" for shift in shifts)
        self.shape = (first.counts.shape[-1], *first.counts.shape[:-1])
        self.mean, self.std = Statistics.empty(self.channels).scale(3)
        self.target_mean, self.target_std = np.zeros(len(self.parameters)), np.ones(len(self.parameters))
        self._table = np.zeros((len(self.channels), 2**16), dtype=np.float32)
        self.in_memory = float(len(paths)) * first.counts.nbytes <= data.memory_gigabytes * 2**30
        self._kept = [self._load(index, keep=True) for index in range(len(paths))] if self.in_memory else []
        self._noted: dict[int, tuple[np.ndarray, int]] = {}  # parameters of both kinds, mean counts; digest: by number

    def statistics(self, indices: range) -> Statistics:
        """Merge the statistics of some volumes, one after the other, and note what else of them is asked for later."""
        each = (Statistics.of(self._values(self._note(index)), self.channels) for index in indices)
        return merged([Statistics.empty(self.channels), *each])

    def look_through(self, indices: Sequence[int]) -> None:
        """Read volumes that are not trained on once, so that one that is not like the others ends no training later."""
        for index in indices:
            self._note(index)

    def facts(self, training: range, others: Sequence[int]) -> dict[str, Any]:
        """Middle and half width of each parameter, and what kind of volumes these are, to compare others to.

        Parameters
        ----------
        training, others
            The volumes of which all ranks together have taken the `statistics`, and those they have looked through.

        Raises
        ------
        ValueError
            If a parameter is the same in all that is trained on, scaled and physical ones are not of one prior,
            parameters lie elsewhere in the others, or volumes are copies of one another or of far other mean counts.
        """
        table = np.zeros((len(self.paths), 2 * len(self.parameters) + len(self.channels)))
        digests = torch.zeros(len(self.paths), dtype=torch.int64)
        for index, (row, digest) in self._noted.items():
            table[index], digests[index] = row, digest
        digests = ranks.sum(digests, "digests of the counts").tolist()
        table = ranks.sum(torch.from_numpy(table), "parameters and mean counts").numpy()
        looked = (*training, *others)
        sources = [self.paths[index] for index in looked]
        if fault := faults.of_copies(sources, [digests[index] for index in looked]):
            raise ValueError(fault)
        unit, physical, means = np.split(table, [len(self.parameters), 2 * len(self.parameters)], axis=1)
        if fault := faults.of_means(sources, means[list(looked)], self._first.redshifts):
            raise ValueError(fault)
        both = [index for index in looked if np.isfinite(unit[index]).all()]
        told = [self.paths[index] for index in both]
        if fault := faults.of_relation(unit[both], physical[both], self.parameters, told):
            raise ValueError(f"{self.paths[0].parent}: {fault}")
        if others:
            refuse_apart(physical[training], physical[others], self.parameters)
        low, high = self._ends(unit[training], physical[training])
        return {
            "target_mean": torch.from_numpy((low + high) / 2),
            "target_std": torch.from_numpy((high - low) / 2),
            "cells_a_side": self.shape[-1],
            "box_size_mpc_h": self._first.box_size_mpc_h,
            "redshifts": None if self._first.redshifts is None else self._first.redshifts.tolist(),
            "lowest_mean_count": means[training].min(0).tolist(),
            "highest_mean_count": means[training].max(0).tolist(),
        }

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
        if self._first.periodic:
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

    def _ends(self, unit: np.ndarray, physical: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.targets == "physical":
            mean, std = physical.mean(axis=0), physical.std(axis=0)
            if same := [name for name, one in zip(self.parameters, std, strict=True) if not one > 0]:
                raise ValueError(
                    f"{', '.join(same)} has one value in all training universes; leave it out of parameters"
                )
            return mean - std, mean + std
        if self.scaled_only:
            return -np.ones(len(self.parameters)), np.ones(len(self.parameters))
        return volumes.scaling(unit, physical, self.parameters)

    def _note(self, index: int) -> np.ndarray:
        counts, unit, physical = self._counts(index)
        means = counts.mean((1, 2, 3), dtype=np.float64)
        self._noted[index] = np.concatenate([unit, physical, means]), faults.digest(counts)
        return counts

    def _counts(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._kept[index] if self.in_memory else self._load(index)

    def _open(self, index: int) -> Volume:
        found = list(itertools.islice(volumes.read(self.paths[index]), 2))
        if len(found) != 1:
            raise ValueError(
                f"{self.paths[index]} holds {'several' if found else 'no'} volumes; training takes one a file"
            )
        if fault := next(faults.of_facts(found[0]), ""):
            raise ValueError(f"{self.paths[index]}: {fault}; correct it, or leave the file out")
        return found[0] if self.redshifts is None else found[0].at(self.redshifts)

    def _load(self, index: int, *, keep: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        volume = self._open(index)
        if differs := next(faults.between(volume, self._first, self._chosen), ""):
            raise ValueError(f"{self.paths[index]} has {differs}")
        if fault := faults.of_counts(volume.counts):
            raise ValueError(f"{self.paths[index]}: {fault}; leave it out, or convert it to counts")
        columns = [volume.names.index(name) for name in self.parameters]
        physical = volume.unit if self.scaled_only else volume.physical
        if physical is None or (volume.unit is None and self.targets == "unit"):
            lacking, other = ("physPar", "unit") if volume.physical is None else ("unitPar", "physical")
            raise ValueError(f"{self.paths[index]} has no {lacking}; learn from it with targets={other!r}")
        unit = np.full(len(volume.names), np.nan) if volume.unit is None else volume.unit
        # Kept as they are stored: in four bytes a number a study's universes would not fit into a laptop.
        counts = np.moveaxis(volume.counts, -1, 0)
        return np.ascontiguousarray(counts) if keep else counts, unit[columns], physical[columns]
