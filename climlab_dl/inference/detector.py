"""What looks at snapshots: one trained network, or several opinions averaged, and how far they agree."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from climlab_dl import cards
from climlab_dl.climate.grid import same_axis
from climlab_dl.inference.network import Fields, Network, fingerprint, read
from climlab_dl.training.folder import checkpoint_of

# One network at a time keeps the memory bounded, and the processor's threads to one network; other threads go on
# reading files meanwhile.
_LOCK = threading.Lock()


@dataclass(frozen=True, kw_only=True, eq=False)
class Detector:
    """One network for masks, or several whose probabilities are averaged.

    Attributes
    ----------
    networks
        With their weights and statistics, of the same channels, classes and grid.
    dropout_passes
        How many times each network looks, with dropout as in training (Gal and Ghahramani 2016); 0 for once without.
    seed
        Of dropout. A pass drops the same features in every snapshot, so that no mask depends on which came before.
    allow
        Descriptions from outside this package that the networks' runs hold.
    cache_bytes
        Answers of so many bytes are kept, so that a slider that goes back does not compute again.
    """

    networks: tuple[Network, ...]
    dropout_passes: int = 0
    seed: int = 0
    allow: tuple[type, ...] = ()
    cache_bytes: int = 256 * 2**20
    _recent: "OrderedDict[bytes, np.ndarray]" = field(default_factory=OrderedDict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.networks:
            raise ValueError("networks is empty; give at least one")
        first, *others = self.networks
        for other in others:
            for name in ("channels", "classes"):
                ours, theirs = getattr(first, name), getattr(other, name)
                if ours != theirs:
                    raise ValueError(
                        f"{other.source} has the {name} {', '.join(theirs)}, {first.source} has {', '.join(ours)}; "
                        "an ensemble needs the same in the same order"
                    )
            if not _same(first.grid, other.grid):
                raise ValueError(
                    f"{other.source} was trained on another grid than {first.source}; an ensemble needs one grid"
                )
        if self.dropout_passes < 0 or self.dropout_passes == 1:
            raise ValueError(
                f"dropout_passes is {self.dropout_passes}; give 2 or more to average over, or 0 to look once without "
                "dropout"
            )
        if self.dropout_passes and (without := [one for one in self.networks if not one.dropouts]):
            raise ValueError(
                f"dropout_passes is {self.dropout_passes}, but {without[0].source or 'the network'} has no dropout; "
                "give 0, train a network that has some, such as Tiramisu(dropout=0.2), or give several checkpoints "
                "for an ensemble"
            )

    @classmethod
    def load(
        cls, path: str | Path, *more: str | Path, dropout_passes: int = 0, seed: int = 0, allow: Sequence[type] = ()
    ) -> "Detector":
        """Read a checkpoint, or the best (else the latest) of a run's folder, onto this rank's GPU if it has one.

        Parameters
        ----------
        path, *more
            Several make an ensemble, for instance of runs that differ in their seed (Lakshminarayanan et al. 2017).
        dropout_passes, seed
            As of the class.
        allow
            Your own dataclasses that the run may hold, such as that of a network: a file only names its parts.

        Raises
        ------
        FileNotFoundError
            No such file or folder, or a folder without a checkpoint.
        ValueError
            A file is damaged, a run is not one that makes masks, networks differ in channels, classes or grid, or
            have no dropout that ``dropout_passes`` could use; or a run holds a part that is neither this package's
            nor in ``allow``.
        """
        paths = [checkpoint_of(one).absolute() for one in (path, *more)]
        return _load([(one, fingerprint(one)) for one in paths], dropout_passes, seed, tuple(allow))

    def __reduce__(self) -> tuple[Any, ...]:
        # Travels to engines and workers as its checkpoints' paths: each process reads them once.
        if not all(network.source for network in self.networks):
            raise TypeError("a detector that was not loaded from a checkpoint cannot be sent to another process")
        paths = [(Path(network.source), network.sha256) for network in self.networks]
        return _load, (paths, self.dropout_passes, self.seed, self.allow)

    def _repr_html_(self) -> str:
        grid = self.grid and f"{len(self.grid[0])} x {len(self.grid[1])}"
        rows = {"checkpoints": [f"{Path(one.source).name or 'in memory'}, step {one.step}" for one in self.networks]}
        rows |= {"folder": Path(self.networks[0].source).parent if self.networks[0].source else ""}
        rows |= {"channels": self.channels, "classes": self.classes, "trained on": grid or ""}
        rows |= {"passes with dropout": self.dropout_passes or ""}
        return cards.card(rows, "Detector")

    def __dask_tokenize__(self) -> Any:
        return self.identity or id(self)

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of what goes in, in order."""
        return self.networks[0].channels

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of what comes out, in order."""
        return self.networks[0].classes

    @property
    def grid(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Latitudes and longitudes of the snapshots that the networks were trained on, where they are known."""
        return self.networks[0].grid

    @property
    def mean(self) -> np.ndarray:
        """Mean of each channel over the training, averaged over the networks."""
        return np.stack([network.mean for network in self.networks]).mean(axis=0, dtype=np.float32)

    @property
    def identity(self) -> str:
        """What decides on the answers: fingerprints of the weights, and dropout; empty without a checkpoint."""
        passes = f"dropout_passes={self.dropout_passes} seed={self.seed}" if self.dropout_passes else ""
        return " ".join(filter(None, [*(network.sha256 for network in self.networks), passes]))

    @property
    def uncertainties(self) -> tuple[str, ...]:
        """Names of what `look` can add to the probabilities; a single opinion has nothing to disagree with."""
        alone = len(self.networks) * max(1, self.dropout_passes) == 1
        return ("entropy",) if alone else ("entropy", "mutual_information")

    def look(self, fields: Fields, *, uncertainty: bool = False) -> np.ndarray:
        """Probability of each class at each pixel of one snapshot.

        Parameters
        ----------
        fields
            (lat, lon) for each channel, in its units, latitude ascending; NaN where there are no data.
        uncertainty
            Add the `uncertainties` behind the classes.

        Returns
        -------
        ndarray
            float32 (class, lat, lon), summing to one over classes; NaN where any channel has no data. Uncertainties
            are in nats: the entropy of the averaged probabilities, and that part of it by which networks or passes
            disagree, the mutual information of class and network (Depeweg et al. 2018, sec. 3).
        """
        fields = [np.asarray(field, np.float32) for field in fields]
        with _LOCK:
            if not self.cache_bytes:
                return self._average(fields, uncertainty)
            digest = hashlib.sha256(str((fields[0].shape, uncertainty)).encode())
            for field in fields:
                digest.update(np.ascontiguousarray(field).data)
            key = digest.digest()
            found = self._recent.get(key)
            if found is None:
                found = self._recent[key] = self._average(fields, uncertainty)
            self._recent.move_to_end(key)
            while sum(one.nbytes for one in self._recent.values()) > self.cache_bytes and len(self._recent) > 1:
                self._recent.popitem(last=False)
        return found

    @torch.inference_mode()
    def _average(self, fields: Fields, uncertainty: bool) -> np.ndarray:
        total, entropies, count = torch.zeros(()), torch.zeros(()), 0
        for opinion in self._opinions(fields):
            total, count = total + opinion if count else opinion, count + 1
            if uncertainty:
                entropies = entropies + torch.special.entr(opinion).sum(0)
        probabilities = total / count if count > 1 else total
        if uncertainty:
            entropy = torch.special.entr(probabilities).sum(0)
            # Rounding must not make negative what cannot be.
            parts = [entropy, (entropy - entropies / count).clamp_(min=0)][: len(self.uncertainties)]
            probabilities = torch.cat([probabilities, torch.stack(parts)])
        return probabilities.cpu().numpy()

    def _opinions(self, fields: Fields) -> Iterator[torch.Tensor]:
        for member, network in enumerate(self.networks):
            if not self.dropout_passes:
                yield network.probabilities(fields)
            for number in range(self.dropout_passes):
                seed = np.random.SeedSequence([self.seed, member, number]).generate_state(1)[0]
                yield network.probabilities(fields, dropout_seed=int(seed))


def _load(paths: list[tuple[Path, str]], dropout_passes: int, seed: int, allow: tuple[type, ...]) -> Detector:
    networks = tuple(read(*each, allow) for each in paths)
    return Detector(networks=networks, dropout_passes=dropout_passes, seed=seed, allow=allow)


def _same(ours: tuple[np.ndarray, np.ndarray] | None, theirs: tuple[np.ndarray, np.ndarray] | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return all(map(same_axis, ours, theirs))
