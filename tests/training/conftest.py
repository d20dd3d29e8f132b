"""A tiny labelled archive, and a run that trains on it in a second."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from climlab_dl.climate import archive, synthetic
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.training.checkpoint import load
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.run import Run


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 synthetic snapshots of 16 x 32 with planted storms, 16 to train on."""
    path = tmp_path_factory.mktemp("archive") / "labelled.nc"
    return archive.save(synthetic.atmosphere(times=24, shape=(16, 32), seed=3), path)


@pytest.fixture(scope="session")
def tiny(labelled: Path) -> Callable[..., Run]:
    """``tiny(steps=3, ...)`` describes a run on the tiny archive."""

    def describe(**changes: Any) -> Run:
        settings: dict[str, Any] = {
            "data": ClimateArchive(source=str(labelled), channels=("TMQ", "U850", "V850", "PSL")),
            "model": Tiramisu(blocks=(1, 1), growth=4, kernel=3, stem=4, dropout=0.0, norm="none"),
            "loss": WeightedCrossEntropy(),
            "steps": 12,
            "batch_size": 2,
            "report_every": 4,
            "evaluate_every": 6,
            "checkpoint_every": 100,
        }
        return Run(**settings | changes)

    return describe


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Weights of the latest checkpoint."""
    latest = RunFolder(folder).latest()
    assert latest is not None
    return load(latest)["model"]


@pytest.fixture(scope="session")
def assert_same() -> Callable[[Path, Path], None]:
    """Assert that the latest checkpoints of two folders hold the same weights, bit by bit."""

    def compare(one: Path, other: Path) -> None:
        ours, theirs = weights(one), weights(other)
        assert ours.keys() == theirs.keys()
        assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []

    return compare
