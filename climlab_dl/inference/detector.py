"""A trained network, ready to look at snapshots: weights, what it was trained on, and where they came from."""

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from climlab_dl.climate.fields import CLASSES
from climlab_dl.parallel import ranks
from climlab_dl.training import checkpoint
from climlab_dl.training.folder import checkpoint_of
from climlab_dl.training.run import Run

# Probabilities of so many bytes are kept, so that a slider that goes back does not compute again.
CACHE_BYTES = 256 * 2**20


@dataclass(frozen=True, kw_only=True, eq=False)
class Detector:
    """A network for masks with the statistics that its fields are normalised with.

    Attributes
    ----------
    model
        The network: (batch, channel, lat, lon) to logits (batch, class, lat, lon).
    channels, classes
        Names of what goes in and comes out, in order.
    mean, std
        One number a channel; the network takes (field - mean) / std.
    stride
        Rows and columns have to be multiples of it.
    grid
        Latitudes and longitudes of the snapshots that it was trained on, where the checkpoint knows them.
    source, sha256, step
        The checkpoint's path and fingerprint, and after how many steps it was written.
    """

    model: torch.nn.Module = field(repr=False)
    channels: tuple[str, ...]
    classes: tuple[str, ...] = CLASSES
    mean: np.ndarray = field(repr=False)
    std: np.ndarray = field(repr=False)
    stride: int = 1
    grid: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    source: str = ""
    sha256: str = ""
    step: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _recent: "OrderedDict[bytes, np.ndarray]" = field(default_factory=OrderedDict, repr=False)

    @classmethod
    def load(cls, path: str | Path) -> "Detector":
        """Read a checkpoint, or the best (else the latest) of a run's folder, onto this rank's GPU if it has one.

        Raises
        ------
        FileNotFoundError
            No such file or folder, or a folder without a checkpoint.
        ValueError
            The file is damaged, or the run is not one that makes masks.
        """
        path = checkpoint_of(path)
        return _read(path, _fingerprint(path))

    def __reduce__(self) -> tuple[Any, ...]:
        # Travels to engines and workers as its checkpoint's path: each process reads it once.
        if not self.source:
            raise TypeError("a detector that was not loaded from a checkpoint cannot be sent to another process")
        return _read, (Path(self.source), self.sha256)

    def __dask_tokenize__(self) -> Any:
        return self.sha256 or id(self)

    @property
    def device(self) -> torch.device:
        """Where the network's weights lie."""
        return next((weight.device for weight in self.model.parameters()), torch.device("cpu"))

    def probabilities(self, fields: np.ndarray) -> np.ndarray:
        """Probability of each class at each pixel of one snapshot.

        Parameters
        ----------
        fields
            float32 (channel, lat, lon) in the channels' units, latitude ascending; NaN where there are no data.

        Returns
        -------
        ndarray
            float32 (class, lat, lon), summing to one over classes; NaN where any channel has no data.
        """
        fields = np.ascontiguousarray(fields, np.float32)
        key = hashlib.blake2b(fields.tobytes() + str(fields.shape).encode(), digest_size=16).digest()
        # One snapshot at a time keeps the memory bounded, and the processor's threads to one network; other threads
        # go on reading files meanwhile.
        with self._lock:
            found = self._recent.get(key)
            if found is None:
                found = self._recent[key] = self._forward(fields)
            self._recent.move_to_end(key)
            while sum(one.nbytes for one in self._recent.values()) > CACHE_BYTES and len(self._recent) > 1:
                self._recent.popitem(last=False)
        return found

    def _forward(self, fields: np.ndarray) -> np.ndarray:
        unknown = ~np.isfinite(fields).all(axis=0)
        normal = (fields - self.mean[:, None, None]) / self.std[:, None, None]
        # What is unknown is taken for average; its own answer is withheld below.
        normal = np.nan_to_num(normal, nan=0.0, posinf=0.0, neginf=0.0)
        rows, columns = normal.shape[1:]
        below, beside = -rows % self.stride, -columns % self.stride
        normal = np.pad(normal, [(0, 0), (0, below), (0, 0)], mode="edge")
        normal = np.pad(normal, [(0, 0), (0, 0), (0, beside)], mode="wrap")
        with torch.inference_mode():
            logits = self.model(torch.from_numpy(normal)[None].to(self.device))[0, :, :rows, :columns]
            found = torch.softmax(logits.float(), dim=0).cpu().numpy()
        return np.where(unknown, np.float32(np.nan), found)


def _fingerprint(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=4)
def _read(path: Path, sha256: str) -> Detector:
    # The fingerprint is part of the key: a checkpoint that was written over is read anew.
    state = checkpoint.load(path)
    facts = state["statistics"]
    if "classes" not in facts:
        raise ValueError(f"{path} is of a network that does not make masks (it names no classes)")
    model = Run.from_json(state["run"]).model.build(len(facts["channels"]), len(facts["classes"]))
    model.load_state_dict(state["model"])
    return Detector(
        model=model.to(ranks.device()).eval(),
        channels=tuple(facts["channels"]),
        classes=tuple(facts["classes"]),
        mean=np.asarray(facts["mean"], np.float32),
        std=np.asarray(facts["std"], np.float32),
        stride=int(getattr(model, "stride", 1)),
        grid=(np.asarray(facts["lat"]), np.asarray(facts["lon"])) if "lat" in facts else None,
        source=str(path),
        sha256=sha256,
        step=int(state.get("step", 0)),
    )
