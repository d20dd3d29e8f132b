"""A run that takes seconds: one convolution learns a threshold. Faults happen to order, where a test asks for them."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from climlab_dl.parallel import ranks
from climlab_dl.training.batches import Prepared, Samples
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.metrics import Segmentation
from climlab_dl.training.optimizers import Adam
from climlab_dl.training.run import Run
from climlab_dl.training.statistics import Statistics


@dataclass(frozen=True, kw_only=True)
class Points:
    """Noise, and a mask of where it exceeds 0.5.

    Parameters
    ----------
    seconds
        That reading a sample takes.
    broken
        A sample that rank 1 cannot read, or -1.
    unreadable
        Whether no rank can read any sample.
    deadly_step
        A step at which rank 1 is killed, once: the file ``killed`` says that it has been.
    killed
        Path of that file.
    """

    seconds: float = 0.0
    broken: int = -1
    unreadable: bool = False
    deadly_step: int = -1
    killed: str = ""

    def prepare(self, seed: int, statistics: Any = None) -> Prepared:
        reader = Reader(self)
        noise = reader.noise.reshape(1, -1)
        return Prepared(
            training=Samples(reader, range(16), seed=seed),
            held_out=Samples(reader, range(16, 20), seed=seed),
            channels=("noise",),
            targets=("background", "peak"),
            statistics=Statistics.of(noise, ("noise",), (noise > 0.5).astype(np.int64), 2),
            facts={},
            metrics=lambda: Segmentation(("background", "peak")),
        )


class Reader:
    def __init__(self, points: Points) -> None:
        self.points = points
        self.reads = 0
        self.shape = (1, 8, 8)
        self.noise = np.random.default_rng(0).normal(size=(20, 8, 8)).astype(np.float32)

    def read(self, index: int, out: np.ndarray) -> np.ndarray:
        time.sleep(self.points.seconds)
        if self.points.unreadable or (ranks.rank() == 1 and index == self.points.broken):
            raise OSError(f"sample {index} is damaged")
        self.reads += 1
        if ranks.rank() == 1 and self.reads == self.points.deadly_step and not Path(self.points.killed).exists():
            Path(self.points.killed).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        out[0] = self.noise[index]
        return (out[0] > 0.5).astype(np.int64)

    def describe(self, index: int) -> str:
        return f"sample {index}"


@dataclass(frozen=True, kw_only=True)
class Pixelwise:
    """One weight and one bias a class."""

    def build(self, channels: int, classes: int) -> torch.nn.Module:
        return torch.nn.Conv2d(channels, classes, kernel_size=1)


def run(steps: int = 20, **points: Any) -> Run:
    """Describe the run; keywords go to its data."""
    return Run(
        data=Points(**points),
        model=Pixelwise(),
        loss=WeightedCrossEntropy(),
        optimizer=Adam(learning_rate=0.1),
        steps=steps,
        report_every=1,
        evaluate_every=10,
        checkpoint_every=5,
        batch_size=1,
    )
