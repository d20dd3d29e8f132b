"""Simulated universes with their parameters as training data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from climlab_dl.cosmology import volumes
from climlab_dl.parallel import ranks
from climlab_dl.training.batches import Prepared, Samples, check_reading, shared_statistics
from climlab_dl.training.cubes import Cubes
from climlab_dl.training.metrics import Parameters
from climlab_dl.training.parts import check_shares, same_samples, split, warn_of_few


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
    shuffle
        Split them at random, the same at every start, rather than in the order of their names.
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
    shuffle: bool = False
    log1p: bool = True
    targets: Literal["physical", "unit"] = "physical"
    symmetries: bool = True
    memory_gigabytes: float = 4.0
    workers: int = 2

    def __post_init__(self) -> None:
        check_shares(held_out=self.held_out, calibration=self.calibration)
        check_reading(memory_gigabytes=self.memory_gigabytes, workers=self.workers)
        for name, chosen in (("parameters", self.parameters), ("redshifts", self.redshifts)):
            if isinstance(chosen, str) or (chosen is not None and not 0 < len(set(chosen)) == len(chosen)):
                raise ValueError(f"{name}={chosen!r}: give a tuple that has each once, or None for all of the files'")
        if self.at_most is not None and self.at_most < 2:
            raise ValueError(f"at_most={self.at_most!r}: choose 2 universes or more to train on")
        if self.targets not in ("physical", "unit"):
            raise ValueError(f"targets={self.targets!r}: choose 'physical' or 'unit'")

    def files(self, known: dict[str, Any] | None = None) -> dict[str, list[Path]]:
        """Paths of the ``"training"``, ``"calibration"`` and ``"held_out"`` universes.

        Parameters
        ----------
        known
            The statistics of a checkpoint: universes other than it began with are refused.

        Raises
        ------
        ValueError
            If they are others.
        """
        found, parts, _ = self._split(known)
        return {name: [found[i] for i in part] for name, part in parts.items()}

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
            If a file holds no volume with parameters, what cannot be counts, or a volume of another kind than the
            others: of another size, box, order of redshifts or parameters, or periodic where they are not; if
            a parameter is the same in all that is trained on, lies elsewhere in what is not, or ``unitPar`` and
            ``physPar`` are not of one prior;
            if files are copies of one another.
        """
        with ranks.together("opening the universes"):
            found, parts, samples = self._split(known)
            reader = Cubes(found, self)
            training, calibration, held_out = parts.values()
        statistics = shared_statistics(reader, training, known)
        warn_of_few(training, held_out, "universe", "what a network finds by so few in other universes is")
        others = [*calibration, *held_out]
        if known is None:
            with ranks.together("looking through the other universes"):
                reader.look_through(others[ranks.rank() :: ranks.size()])
        facts = known or {
            **statistics.facts(), **reader.facts(training, others),
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

    def _split(self, known: dict[str, Any] | None) -> tuple[list[Path], dict[str, range], dict[str, str]]:
        """Files, which of them each part has, and what `same_samples` says of that."""
        found = volumes.files(self.source)
        if self.shuffle:
            found = [found[i] for i in np.random.default_rng(0).permutation(len(found))]
        training, calibration, held_out = split(len(found), self.calibration, self.held_out, what="universe")
        parts = {"training": training[: self.at_most], "calibration": calibration, "held_out": held_out}
        return found, parts, same_samples(known, self.source, lambda i: found[i].name, **parts)


__all__ = ["Universes"]
