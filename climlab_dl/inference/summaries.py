"""What a trained CosmoFlow says of a volume, as a few numbers: the frozen summary that a posterior is built on."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from climlab_dl import cards
from climlab_dl.cosmology import faults, volumes
from climlab_dl.cosmology.spectrum import Ridge
from climlab_dl.cosmology.volumes import Volume
from climlab_dl.inference.likeness import Training
from climlab_dl.training import checkpoint
from climlab_dl.training.folder import checkpoint_of
from climlab_dl.training.precision import Precision
from climlab_dl.training.run import Run
from climlab_dl.training.universes import Universes

Array = NDArray[np.float64]
log = logging.getLogger(__name__)
_WITHOUT_UNIT = (
    ', in units of the prior\'s width: give posterior.fit the ends, as prior={"Omega_m": (0.1, 0.5), ...}, or write '
    "unitPar = 2 (physPar - low) / (high - low) - 1 into the files"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Summaries:
    """A trained network, or an ensemble, as a function from a volume to estimates of the parameters.

    Attributes
    ----------
    names
        Of the parameters.
    run
        What the network was trained on and how; of an ensemble, the first.
    models
        One, or several whose estimates are averaged: runs that differ in their seed err in part independently
        (Lakshminarayanan et al. 2017).
    symmetries
        Over how many of the cube's 48 symmetries the estimates are averaged: physics does not care how a box is turned,
        and the network's own remaining preference averages out.
    precision
        What the networks compute in: as they were trained, where this device can.
    sources
        The checkpoints.
    training
        What is known of the volumes that it was trained on.
    samples
        How many there were in each part, from which to which; nothing where the checkpoint does not say.
    head
        Ridge regression on the networks' features in the place of their dense parts; see :meth:`refitted`.
    """

    names: tuple[str, ...]
    run: Run = field(repr=False)
    models: tuple[torch.nn.Module, ...] = field(repr=False)
    mean: NDArray[np.float32] = field(repr=False)
    std: NDArray[np.float32] = field(repr=False)
    target_mean: Array = field(repr=False)
    target_std: Array = field(repr=False)
    log1p: bool = True
    symmetries: int = 8
    precision: Precision = field(default=Precision(), repr=False)
    sources: tuple[Path, ...]
    training: Training = field(default=Training(), repr=False)
    samples: Mapping[str, str] | None = field(default=None, repr=False)
    head: Ridge | None = field(default=None, repr=False)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *more: str | Path,
        symmetries: int = 8,
        device: str = "cpu",
        allow: Sequence[type] = (),
    ) -> "Summaries":
        """Read a checkpoint, or the best (else the latest) of a run's folder; several make an ensemble.

        ``allow`` names your own dataclasses that the run may hold, such as that of a network.

        Raises
        ------
        FileNotFoundError
            If there is no such file, or no checkpoint in the folder yet.
        ValueError
            If a network was not trained on volumes, or those of an ensemble not on the same ones.
        """
        if not 1 <= symmetries <= 48:
            raise ValueError(f"symmetries = {symmetries}; a cube has 48, so choose 1 to 48")
        first, *others = [cls._load(each, symmetries, device, allow) for each in (path, *more)]
        for other in others:
            if (other.run.data, other.names, other.samples) != (first.run.data, first.names, first.samples):
                raise ValueError(
                    f"{other.source} and {first.source} were not trained on the same universes and parameters, so that "
                    "one's held-out universes may be the other's training; train an ensemble with runs that differ in "
                    "their seed only: dataclasses.replace(run, seed=1)"
                )
        together = (first, *others)
        return replace(
            first,
            models=tuple(model for each in together for model in each.models),
            sources=tuple(source for each in together for source in each.sources),
        )

    @property
    def source(self) -> str:
        """The checkpoints, in words."""
        return ", ".join(map(str, self.sources))

    @classmethod
    def _load(cls, path: str | Path, symmetries: int, device: str, allow: Sequence[type]) -> "Summaries":
        path = checkpoint_of(path)
        state = checkpoint.load(path)
        facts = state["statistics"]
        if "targets" not in facts:
            raise ValueError(f"{path} is of a network that does not find parameters of volumes; give a CosmoFlow's run")
        run = Run.from_json(state["run"], allow=allow)
        targets = tuple(facts["targets"])
        outputs = len(targets) * getattr(run.loss, "outputs_per_target", 1)
        model = run.model.build(len(facts["channels"]), outputs)
        model.load_state_dict(state["model"])
        return cls(
            names=targets,
            run=run,
            models=(model.eval().to(device),),
            mean=np.asarray(facts["mean"], dtype=np.float32),
            std=np.asarray(facts["std"], dtype=np.float32),
            target_mean=np.asarray(facts["target_mean"], dtype=np.float64),
            target_std=np.asarray(facts["target_std"], dtype=np.float64),
            log1p=bool(facts["log1p"]),
            symmetries=symmetries,
            precision=run.precision.usable(torch.device(device)),
            sources=(path,),
            training=Training.of(facts, getattr(run.data, "redshifts", None)),
            samples=facts.get("samples"),
        )

    def _repr_html_(self) -> str:
        refit = "" if self.head is None else "last layer refitted"
        rows = {"checkpoints": self.sources, "parameters": self.names, "also": refit}
        rows |= {"redshifts": len(self.mean), "symmetries averaged": self.symmetries}
        return cards.card(rows, "Network for parameters")

    def __call__(self, volume: Volume) -> Array:
        """Estimates of the parameters, in physical units."""
        volume = self.at(volume)
        if self.head is not None:
            return self.head.predict(self._features(volume)[None])[0]
        estimates = np.mean([self._averaged(volume, model)[: len(self.names)] for model in self.models], axis=0)
        return estimates * self.target_std + self.target_mean

    def refitted(self, training: volumes.Source) -> "Summaries":
        """Fit the last layer anew, to the network's features of the universes that it was trained on.

        Steps of a few universes find features well and their weights less so: what is best for all the universes at
        once is a ridge regression, whose penalty is chosen by leaving out each in turn.

        Raises
        ------
        ValueError
            If the network does not say what its features are, or a volume does not tell its parameters.
        """
        for model in self.models:
            if not hasattr(model, "features"):
                raise ValueError(f"{self.source} is of a {type(model).__name__}, which has no features to refit")
        rows = []
        for volume in _watched(training, "features"):
            values = volume.parameters
            rows.append((self._features(self.at(volume)), [values[n] for n in self.names]))
        features, physical = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
        return replace(self, head=Ridge.fit(features, physical))

    def at(self, volume: Volume) -> Volume:
        """Only the redshifts that the network was trained on, in its order.

        Raises
        ------
        ValueError
            If the volume lacks one of them, or has another number, or holds what cannot be counts.
        """
        if fault := faults.of_counts(volume.counts):
            raise ValueError(
                f"{volume.source}: {fault}. The network was trained on counts of particles; give those, or the mean "
                "count times one plus the contrast"
            )
        return self.training.ordered(volume, len(self.mean))

    def warn(self, volume: Volume) -> bool:
        """Say in the log how a volume is read and differs from those of the training, and whether it had to be said."""
        ordered = self.at(volume)
        differences = list(self.training.differences(volume, ordered))
        readings = list(self.training.readings(volume, ordered))
        if readings:
            log.warning("%s: %s", volume.source, "; ".join(readings))
        if differences:
            log.warning(
                "%s has %s: nothing is known of how %s errs there", volume.source, "; ".join(differences), self.source
            )
        return bool(differences or readings)

    def universes(self) -> dict[str, list[Path]]:
        """Files that the network trained on and not; nothing is known of them where it learnt from other data.

        Raises
        ------
        ValueError
            If there are other universes now than when the training began.
        """
        data, known = self.run.data, {} if self.samples is None else {"samples": self.samples}
        return data.files(known) if isinstance(data, Universes) else {"training": [], "calibration": [], "held_out": []}

    def warn_of_learnt(self, sources: Iterable[Path]) -> None:
        """Say in the log if the network was trained on one of these files."""
        try:
            files = self.universes()
        except (FileNotFoundError, ValueError):  # the training's universes are no longer there
            return
        training, unseen = {path.resolve() for path in files["training"]}, files["held_out"]
        if learnt := [str(source) for source in sources if source.resolve() in training]:
            others = f"; held out, so that it has not seen them, are {unseen[0]} to {unseen[-1]}" if unseen else ""
            log.warning(
                "On a universe that the network was trained on it is too sure of itself: %s%s",
                learnt[0] if len(learnt) == 1 else f"{learnt[0]} to {learnt[-1]} ({len(learnt)} of them)",
                others,
            )

    def _features(self, volume: Volume) -> Array:
        """Features of all the networks, side by side."""
        return np.concatenate([self._averaged(volume, model.features) for model in self.models])

    def _averaged(self, volume: Volume, function: Any) -> Array:
        """Mean of what a function says of the normalised volume, over some of the cube's symmetries."""
        counts = volume.counts.astype(np.float32)
        normal = ((np.log1p(counts) if self.log1p else counts) - self.mean) / self.std
        device = next(self.models[0].parameters()).device
        found = []
        for index in np.linspace(0, 48, self.symmetries, endpoint=False).astype(int):
            turned = np.ascontiguousarray(np.moveaxis(volumes.symmetry(normal, int(index)), -1, 0))
            with torch.inference_mode(), self.precision.autocast(device):
                found.append(function(torch.from_numpy(turned)[None].to(device))[0].double().cpu().numpy())
        return np.mean(found, axis=0)

    def of(
        self, source: volumes.Source, prior: Mapping[str, tuple[float, float]] | None = None
    ) -> tuple[Array, Array, Array]:
        """Summaries, physical and scaled parameters (each: volumes, parameters), one volume in memory at a time.

        Where the prior is given, parameters are scaled to it, whatever the files say.

        Raises
        ------
        ValueError
            If a volume does not tell its parameters, or they lie outside the prior.
        """
        rows, warned = [], False
        for volume in _watched(source, "estimates"):
            physical = self._told(volume, volume.physical, "physPar, the parameters' values")
            if prior is None:
                unit = self._told(volume, volume.unit, "unitPar, the parameters in units of the prior", _WITHOUT_UNIT)
            else:
                unit = volumes.to_unit(physical, *np.array([prior[name] for name in self.names]).T)
                if np.abs(unit).max() > 1 + 1e-6:
                    raise ValueError(
                        f"{volume.source} has {dict(zip(self.names, physical.tolist(), strict=True))}, outside the "
                        f"prior {dict(prior)}; give the prior that the universes were drawn from"
                    )
            warned = warned or self.warn(volume)  # once: what is wrong with a set is wrong with all of its files
            rows.append((self(volume), physical, unit))
        if not rows:
            raise ValueError("no volumes were given; check the split")
        summaries, physical, unit = (np.array(column) for column in zip(*rows, strict=True))
        return summaries, physical, unit

    def _told(self, volume: Volume, values: Array | None, what: str, remedy: str = "") -> Array:
        """Values of the network's parameters that a volume tells, in the network's order."""
        missing = sorted(set(self.names) - set(volume.names))
        if values is not None and not missing:
            return values[[volume.names.index(name) for name in self.names]]
        lacking = f"the parameter {', '.join(missing)}" if missing else what
        raise ValueError(
            f"{volume.source} has not {lacking}. It is one of the universes of known parameters on which is seen how "
            f"{self.source} errs{remedy}"
        )


def _watched(source: volumes.Source, what: str) -> Iterator[Volume]:
    """Read volumes one at a time, with a bar where a network looks at them for more than two seconds."""
    from tqdm import tqdm

    total = len(source) if isinstance(source, Sized) and not isinstance(source, str) else None
    yield from tqdm(volumes.open(source), desc=what, unit="universe", total=total, delay=2, leave=False)
