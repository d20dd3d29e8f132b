"""A trained network: its weights, ready for inference, with what its fields are normalised with."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from torch.nn.modules.dropout import _DropoutNd

from climlab_dl.climate.fields import CLASSES
from climlab_dl.models.dense import DroppedRelu, JoinedConv2d
from climlab_dl.models.fold import fold
from climlab_dl.models.layers import wrap
from climlab_dl.parallel import ranks
from climlab_dl.training import checkpoint
from climlab_dl.training.run import Run

# One map (lat, lon) for each channel; an array (channel, lat, lon) is that too.
Fields = Sequence[np.ndarray] | np.ndarray
# Rows at a time: of 16 channels and 1,152 columns half a megabyte, which a core's cache holds.
BAND = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """A network for masks with the statistics of its training.

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
    layout
        How the model reads its maps fastest: with the channels of a pixel together, or each channel by itself.
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
    layout: torch.memory_format = torch.channels_last
    source: str = ""
    sha256: str = ""
    step: int = 0

    @property
    def dropouts(self) -> list[torch.nn.Module]:
        """Layers that drop some of their features while training."""
        return [
            layer
            for layer in self.model.modules()
            if (isinstance(layer, DroppedRelu) and layer.dropout > 0) or (isinstance(layer, _DropoutNd) and layer.p > 0)
        ]

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return next((weight.device for weight in self.model.parameters()), torch.device("cpu"))

    @torch.inference_mode()
    def probabilities(self, fields: Fields, *, dropout_seed: int | None = None) -> torch.Tensor:
        """Probability of each class at each pixel of one snapshot; for one thread at a time.

        Parameters
        ----------
        fields
            float32 (lat, lon) for each channel, in its units, latitude ascending; NaN where there are no data.
        dropout_seed
            Drop features as in training, drawn from this seed; None for none.

        Returns
        -------
        Tensor
            float32 (class, lat, lon), summing to one over classes; NaN where any channel has no data.
        """
        normal, known = self._normalised(fields)
        if not known.all():  # What is unknown is taken for average; its own answer is withheld below.
            normal.nan_to_num_(0.0, 0.0, 0.0)
        rows, columns = normal.shape[2:]
        logits = self._logits(to_stride(normal, self.stride), dropout_seed)[0, :, :rows, :columns]
        found = torch.softmax(logits.float().contiguous(), dim=0)
        return found if known.all() else found.masked_fill_(~known, torch.nan)

    def _normalised(self, fields: Fields) -> tuple[torch.Tensor, torch.Tensor]:
        """Fields in units of their spread, written as the convolutions read them; and where all channels have data."""
        rows, columns = fields[0].shape
        shape = (1, len(self.channels), rows, columns)
        normal = torch.empty(shape, device=self.device, memory_format=self.layout)
        known = torch.empty((1, rows, columns), dtype=torch.bool, device=self.device)
        mean, std = (torch.from_numpy(numbers).to(self.device)[:, None, None] for numbers in (self.mean, self.std))
        # A band of rows at a time stays in the cache from the first step to the last.
        for start in range(0, rows, BAND):
            band = slice(start, start + BAND)
            found = torch.from_numpy(np.stack([field[band] for field in fields])).to(self.device)
            found.sub_(mean).div_(std)
            known[0, band] = torch.isfinite(found.sum(0))
            normal[0, :, band] = found
        return normal, known

    def _logits(self, normal: torch.Tensor, dropout_seed: int | None) -> torch.Tensor:
        if dropout_seed is None:
            return self.model(normal)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(dropout_seed)
            try:
                for layer in self.dropouts:
                    layer.train()
                return self.model(normal)
            finally:
                self.model.eval()


def to_stride(normal: torch.Tensor, stride: int) -> torch.Tensor:
    """Lengthen maps (batch, channel, lat, lon) to whole strides: the last row again, and the first columns."""
    if below := -normal.shape[2] % stride:
        normal = F.pad(normal, (0, 0, 0, below), mode="replicate")
    if beside := -normal.shape[3] % stride:
        normal = wrap(normal, 0, beside)
    return normal


def fingerprint(path: Path) -> str:
    """SHA-256 of a file.

    Raises
    ------
    FileNotFoundError
        No such file, saying what would be one.
    """
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist (looked from {Path.cwd()}); give a run's folder, as engines.train or climlab-dl "
            "train fills it, or one of the *.pt files in its checkpoints/"
        )
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=16)
def read(path: Path, sha256: str, allow: tuple[type, ...] = ()) -> Network:
    """Read a checkpoint once a process, onto this rank's GPU if it has one.

    The fingerprint is part of what it is remembered by: a checkpoint that was written over is read anew.

    Raises
    ------
    ValueError
        The file is damaged or has another fingerprint, or the run is not one that makes masks.
    """
    if fingerprint(path) != sha256:
        raise ValueError(f"{path} was written over since the detector was loaded; load it again with Detector.load")
    state = checkpoint.load(path)
    facts: dict[str, Any] = state["statistics"]
    if "classes" not in facts:
        raise ValueError(
            f"{path} is of a network that does not make masks (it names no classes); give the run of a DeepLab or a "
            "Tiramisu, or this one to posterior.fit"
        )
    description = Run.from_json(state["run"], allow=allow).model
    model = description.build(len(facts["channels"]), len(facts["classes"]))
    model.load_state_dict(state["model"])
    # A dense network writes features side by side for each layer, which is fastest where each channel is by itself.
    dense = any(isinstance(part, JoinedConv2d) for part in model.modules())
    layout = torch.contiguous_format if dense else torch.channels_last
    return Network(
        model=fold(model).to(ranks.device(), memory_format=layout),  # pyright: ignore[reportCallIssue]
        layout=layout,
        channels=tuple(facts["channels"]),
        classes=tuple(facts["classes"]),
        mean=np.asarray(facts["mean"], np.float32),
        std=np.asarray(facts["std"], np.float32),
        stride=int(getattr(description, "stride", 1)),
        grid=(np.asarray(facts["lat"]), np.asarray(facts["lon"])) if "lat" in facts else None,
        source=str(path),
        sha256=sha256,
        step=int(state.get("step", 0)),
    )
