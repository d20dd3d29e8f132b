"""One rank of 10 and of 10,000: ``python tests/mpi/one_of_many.py FOLDER`` trains for three steps as each.

torch's fake process group stands for the other ranks: its collectives return at once with what this rank gave. Prints
JSON of routes and numbers of ranks: calls of functions, megabytes more than before, and what the folder holds.
"""

import cProfile
import json
import os
import pstats
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from climlab_dl.climate.fields import CLASSES
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.parallel.allreduce import Exchange
from climlab_dl.training.batches import Prepared, Samples
from climlab_dl.training.loop import train
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.metrics import Segmentation
from climlab_dl.training.optimizers import SGD
from climlab_dl.training.run import Run
from climlab_dl.training.statistics import Statistics

FOLDER = Path(sys.argv[1])
EXCHANGES = {"flat": Exchange(), "hierarchical": Exchange(route="hierarchical", ranks_per_node=2, lag=1)}
CHANNELS, SHAPE = ("TMQ", "U850"), (8, 16)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """As many snapshots as three steps of all ranks need, each drawn when it is read."""

    count: int = 40_000

    shape = (len(CHANNELS), *SHAPE)

    def prepare(self, seed: int, known: dict[str, Any] | None = None) -> Prepared:
        values = np.empty(self.shape, dtype=np.float32)
        statistics = Statistics.of(values, CHANNELS, self.read(0, values), len(CLASSES)).over_ranks()
        return Prepared(
            training=Samples(self, range(self.count)), held_out=Samples(self, range(8)), channels=CHANNELS,
            targets=CLASSES, statistics=statistics, facts=statistics.facts(), metrics=lambda: Segmentation(CLASSES),
        )  # fmt: skip

    def read(self, index: int, out: np.ndarray) -> np.ndarray:
        random = np.random.default_rng(index)
        random.standard_normal(out=out, dtype=np.float32)
        return random.integers(0, 3, SHAPE)

    def describe(self, index: int) -> str:
        return f"noise {index}"


def run(route: str) -> Run:
    return Run(
        data=Noise(), model=Tiramisu(blocks=(1, 1), growth=4, kernel=3, stem=4, dropout=0.2, norm="batch"),
        loss=WeightedCrossEntropy(), optimizer=SGD(learning_rate=0.1), steps=3, batch_size=1, report_every=1,
        evaluate_every=3, checkpoint_every=3, logs=("mlperf",), exchange=EXCHANGES[route],
    )  # fmt: skip


def trained(route: str, ranks: int) -> dict[str, Any]:
    """What rank 0 of so many costs and leaves."""
    folder, before = FOLDER / f"{route} {ranks}", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    profile = cProfile.Profile()
    profile.enable()
    reports = list(train(run(route), folder))
    profile.disable()
    dist.destroy_process_group()
    assert [report.step for report in reports] == [1, 2, 3]
    statistics: Any = pstats.Stats(profile)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    files = {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return {"calls": statistics.total_calls, "megabytes": more, "files": files}


def main() -> None:
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    torch.set_num_threads(1)
    for route in EXCHANGES:  # once before, so that what is loaded and compiled on first use counts for none
        trained(route, 4)
    print(json.dumps({route: {ranks: trained(route, ranks) for ranks in (10, 10_000)} for route in EXCHANGES}))


if __name__ == "__main__":
    main()
