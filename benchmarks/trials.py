"""A training on two ranks that something is done to, and what is said of it afterwards."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from climlab_dl import cluster, runs
from climlab_dl.parallel.cluster.processes import marks


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of a fault."""

    fault: str
    happened: str
    noticed: float | None = None
    lost: str = "0 steps"
    left: int = 0


class Trial:
    """Two ranks that train, until the end of the ``with``; then what is left of their processes is counted."""

    def __init__(self, run: runs.Run, folder: Path, **start: Any) -> None:
        self.engines = cluster.start(ranks=2, **start)
        self.training = self.engines.train(run, folder)
        self.left = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.engines.close()
        self.left = len(marks().get(self.engines.id, ()))

    def under_way(self, step: int) -> int:
        """Wait until a step has been taken; returns the latest one then."""
        return under_way(self.training, step)

    def healed(self, step: int) -> float:
        """Wait until the present ranks have trained past a step; returns how long that took."""

        def passed() -> bool:
            status = self.training.status()
            assert self.training.active(), self.training
            return status["pid"] == self.engines.reports[0].pid and status["step"] > step

        return until(passed)

    def lost(self, before: int) -> str:
        """Say which steps have to be done again after a fault that came after step ``before``."""
        latest = self.training.folder.latest()
        kept = int(latest.stem.removeprefix("step-")) if latest else 0
        return f"{max(0, before - kept)} steps since checkpoint {kept}"

    def failure(self) -> tuple[BaseException | None, float]:
        """Wait for the training to fail; returns its error and the seconds that took."""
        began = time.monotonic()
        try:
            self.training.wait(180)
        except Exception as error:
            return error, time.monotonic() - began
        return None, time.monotonic() - began


@dataclass(frozen=True, kw_only=True)
class Stumbling:
    """A loss that fails on one rank, at its twelfth use; defined here, where no rank can import it."""

    def prepare(self, statistics: Any) -> Callable:
        """Give the loss."""
        from climlab_dl.parallel import ranks
        from climlab_dl.training.losses import WeightedCrossEntropy

        loss, uses = WeightedCrossEntropy().prepare(statistics), iter(range(12))

        def stumble(logits: Any, mask: Any) -> Any:
            if ranks.rank() == 1 and next(uses, None) is None:
                raise ZeroDivisionError("the loss of rank 1 stumbled")
            return loss(logits, mask)

        return stumble


def tiny_run(source: Path) -> runs.Run:
    return replace(
        runs.small_tiramisu(source), steps=100_000, report_every=1, evaluate_every=100_000, checkpoint_every=5
    )


def until(condition: Callable[[], Any], seconds: float = 300.0) -> float:
    """Wait for a condition; returns how long that took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"waited {seconds:.0f} s")
        time.sleep(0.01)
    return time.monotonic() - began


def under_way(training: Any, step: int) -> int:
    until(lambda: training.status()["step"] >= step and len(training.progress()) >= step)
    return int(training.progress()["step"].iloc[-1])
