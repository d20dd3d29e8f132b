"""Tiny runs for the scripts here, which are started with ``mpiexec -n N python tests/mpi/SCRIPT``."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.parallel import ranks
from climlab_dl.training.checkpoint import load
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.losses import SoftJaccard
from climlab_dl.training.optimizers import SGD
from climlab_dl.training.run import Run

CHANNELS = ("TMQ", "U850", "V850", "PSL")


def tiny(archive: str, **changes: Any) -> Run:
    """Describe a run on the tiny archive, with 17 snapshots to train on and 7 held out."""
    settings: dict[str, Any] = {
        "data": ClimateArchive(source=archive, channels=CHANNELS, held_out=0.3),
        "model": Tiramisu(blocks=(1, 1), growth=4, kernel=3, stem=4, dropout=0.0, norm="none"),
        "loss": SoftJaccard(),
        "optimizer": SGD(learning_rate=0.1),
        "steps": 4,
        "batch_size": 2,
        "report_every": 1,
        "evaluate_every": 4,
    }
    return Run(**settings | changes)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A loss that goes wrong on one rank at one of its calls."""

    rank: int
    call: int
    how: str

    def prepare(self, statistics: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        good, calls = SoftJaccard().prepare(statistics), iter(range(1, 1000))

        def loss(logits: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            value = good(logits, mask)
            if next(calls) != self.call or ranks.rank() != self.rank:
                return value
            if self.how == "raise":
                raise ArithmeticError("planted")
            if self.how == "terminate":
                os.kill(os.getpid(), signal.SIGTERM)
            return value * {"nan": float("nan"), "overflow": 1e25, "terminate": 1.0}[self.how]

        return loss


def weights(folder: Path | str) -> dict[str, torch.Tensor]:
    """Weights of the latest checkpoint."""
    latest = RunFolder(folder).latest()
    assert latest is not None
    return load(latest)["model"]


def assert_same(one: Path | str, other: Path | str) -> None:
    """Assert that the latest checkpoints of two folders hold the same weights, bit by bit."""
    ours, theirs = weights(one), weights(other)
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
