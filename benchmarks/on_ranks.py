"""What benchmarks/ranks.py has ranks do: ``mpiexec -n N python benchmarks/on_ranks.py JSON CASE... --rounds R``."""

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from climlab_dl.models.deeplab import DeepLab
from climlab_dl.parallel import ranks
from climlab_dl.parallel.allreduce import Exchange, GradientExchange
from climlab_dl.parallel.mpi import World
from climlab_dl.parallel.nodes import Nodes
from climlab_dl.training.optimizers import Adam
from climlab_dl.training.resume import RunningStatistics

Arms = dict[str, Callable[[], Any]]
SMALL = 4096  # bytes
NETWORK, LAT, LON = DeepLab.mlperf(), 256, 384
WIDTH, DEPTH, SAMPLES = 1330, 4, 256  # dense layers of seven million weights, as many as the first CosmoFlow has


def in_turn(arms: Arms, rounds: int) -> dict[str, dict[str, float]]:
    """Let arms take turns after one round that does not count; medians of seconds, of the slowest rank and of a core.

    An arm that gives None on a rank was not for that rank.
    """
    seconds: dict[str, list[list[float]]] = {name: [] for name in arms}
    for turn in range(rounds + 1):
        for name, arm in arms.items():
            ranks.barrier(name)
            wall, processor = time.perf_counter(), time.process_time()
            took_part = arm() is not None
            spent = [time.perf_counter() - wall, time.process_time() - processor]
            slowest = ranks.largest(torch.tensor(spent if took_part else [0.0, 0.0], dtype=torch.float64), name)
            if turn:
                seconds[name].append(slowest.tolist())
    return {
        name: {
            "seconds": statistics.median(wall for wall, _ in times),
            "least": min(wall for wall, _ in times),
            "processor": statistics.median(processor for _, processor in times),
        }
        for name, times in seconds.items()
    }


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Be the only rank in the body."""
    world, ranks._world = ranks._world, World()
    try:
        yield
    finally:
        ranks._world = world


class Training:
    """A step as the training loop takes it."""

    def __init__(self, model: nn.Module, values: Tensor, exchange: Exchange) -> None:
        self.model, self.values = model, values
        self.exchange: GradientExchange = exchange.start(list(model.parameters()))
        self.optimizer, self.running = Adam(learning_rate=1e-4).build(model.parameters()), RunningStatistics(model)

    def step(self) -> bool:
        """Take one."""
        self.exchange.begin()
        self.exchange.last(True)
        loss = self.model(self.values).square().mean()
        loss.backward()
        self.exchange.send()
        ranks.agree([loss.item(), 0.0, float(not self.exchange.finite())], "step")
        self.running.average()
        if self.exchange.receive(scale=1.0) is not None:
            self.optimizer.step()
        return True


def weak(rounds: int) -> dict[str, Any]:
    """One rank while the others wait; all of them; all of them without each other."""
    torch.manual_seed(0)
    model = NETWORK.build(16, 3)
    values = torch.randn(1, 16, LAT, LON)
    with alone():
        single = Training(model, values, Exchange())
    together = Training(model, values, Exchange())

    def by_itself() -> bool:
        with alone():
            return single.step()

    arms: Arms = {
        "one rank": lambda: by_itself() if ranks.rank() == 0 else None,
        "all ranks": together.step,
        "all ranks apart": by_itself,
    }
    return {"ranks": ranks.size(), "lat": LAT, "lon": LON, "arms": in_turn(arms, rounds)}


def all_reduce(rounds: int) -> dict[str, Any]:
    """Average a gradient that lies as a backward pass leaves it: as trainings do, and by MPI; also sum one buffer."""
    from mpi4py import MPI

    with torch.device("meta"):
        shapes = [weights.shape for weights in NETWORK.build(16, 3).parameters()]
    gradients, weights = [torch.ones(shape) for shape in shapes], [nn.Parameter(torch.zeros(shape)) for shape in shapes]
    whole = torch.zeros(sum(gradient.numel() for gradient in gradients))
    # NumPy's memory is of huge pages, where the system has them; torch's, in which gradients lie, is not.
    small, huge, exchange = torch.zeros(SMALL // 4), np.zeros_like(whole.numpy()), Exchange().start(weights)

    def as_trainings_do() -> bool:
        exchange.begin()
        for parameter, gradient in zip(weights, gradients, strict=True):
            parameter.grad = gradient
        exchange.send()
        assert exchange.finite()
        return exchange.receive() is not None

    def summed(values: Tensor) -> bool:
        dist.all_reduce(values)
        return True

    def by_mpi(values: np.ndarray) -> bool:
        MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, values)
        return True

    def averaged_by_mpi() -> bool:
        for gradient in gradients:
            by_mpi(gradient.numpy())
            gradient.div_(ranks.size())
            assert all(bound.isfinite() for bound in torch.aminmax(gradient))
        return True

    arms: Arms = {
        "exchange": as_trainings_do,
        "mpi4py": lambda: by_mpi(whole.numpy()),
        "mpi4py, huge pages": lambda: by_mpi(huge),
        "mpi4py averaged": averaged_by_mpi,
        "all_reduce": lambda: summed(whole),
        "small": lambda: summed(small),
    }
    return {"ranks": ranks.size(), "bytes": whole.nbytes, "arms": in_turn(arms, rounds)}


EXCHANGES = {
    "flat": Exchange(),
    "hierarchical": Exchange(route="hierarchical"),
    "flat, fp16": Exchange(compression="fp16"),
    "hierarchical, fp16": Exchange(route="hierarchical", compression="fp16"),
    "flat, lag": Exchange(lag=1),
    "hierarchical, fp16, lag": Exchange(route="hierarchical", compression="fp16", lag=1),
}
BUCKET = 7.0  # MB, a layer of the network below
STEPS = 4  # in a row, and then the end of the last exchange, lest a lagged one goes on while others have their turn


def nodes(rounds: int) -> dict[str, Any]:
    """Pairs of ranks within and across nodes; then trainings by each exchange, and without one."""
    here = ranks.world()
    values = torch.randn(SAMPLES, WIDTH)
    trainings: Arms = {}

    def several(training: Training) -> bool:
        for _ in range(STEPS):
            training.step()
        training.exchange.state()
        return True

    for name, exchange in EXCHANGES.items():
        model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH)))
        training = Training(model, values, replace(exchange, bucket_megabytes=BUCKET))
        trainings[name] = lambda training=training: several(training)
    with alone():
        single = Training(nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))), values, Exchange())

    def by_itself() -> bool:
        with alone():
            return several(single)

    weights = DEPTH * WIDTH * (WIDTH + 1)
    sizes = {"small": torch.zeros(SMALL // 4), "large": torch.zeros(weights)}
    layout = Nodes(None)
    first = {"within": here.node == 0, "across": here.local_rank == 0, "flat": True}
    groups = {"within": layout.within, "across": layout.across, "flat": None}

    def summed(pair: str, size: str) -> bool | None:
        if not first[pair]:
            return None
        dist.all_reduce(sizes[size], group=groups[pair])
        return True

    messages: Arms = {
        f"{pair} {size}": (lambda pair=pair, size=size: summed(pair, size)) for pair in groups for size in sizes
    }
    return {
        "ranks": here.size, "nodes": here.nodes, "bytes": weights * 4,
        "messages": in_turn(messages, rounds), "steps": STEPS,
        "arms": in_turn({"apart": by_itself, **trainings}, rounds),
    }  # fmt: skip


def main() -> None:
    global NETWORK, LAT, LON
    cases = {"weak": weak, "all_reduce": all_reduce, "nodes": nodes}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="+", choices=cases)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--toy", action="store_true", help="small networks and gradients")
    asked = parser.parse_args()
    if asked.toy:
        NETWORK, LAT, LON = DeepLab.small(), 32, 48
    torch.set_num_threads(1)
    with ranks.joined(timeout=120):
        found = {case: cases[case](asked.rounds) | {"rounds": asked.rounds} for case in asked.cases}
        if ranks.rank() == 0:
            asked.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
