"""Seconds, rates and memory of work, beside the ceiling that the same machine shows at the same time.

On a shared machine a number by itself means little. So work and ceiling take turns (A B A B), the medians are told, and
what is compared between machines or days is the ratio of the two.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True, kw_only=True)
class Work:
    """Something that can be done again and again, and what one call of it amounts to.

    Parameters
    ----------
    call
        Does it.
    samples
        Snapshots, volumes or whatever is counted, in one call.
    flops
        Arithmetic of a sample by the papers' rule (:mod:`climlab_dl.performance.flops`); 0 where it is not counted.
    bytes
        Payload of a sample: what a file holds, what is copied, what travels; 0 where it is not counted.
    clock
        ``"cpu"``: seconds of this process on a core, which other work on the machine disturbs least. ``"wall"``: what
        waits for others, such as ranks or a GPU.
    """

    call: Callable[[], object]
    samples: int = 1
    flops: float = 0.0
    bytes: float = 0.0
    clock: Literal["cpu", "wall"] = "cpu"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of one call, a number a round."""

    cpu: tuple[float, ...]
    wall: tuple[float, ...]

    def by(self, clock: Literal["cpu", "wall"]) -> tuple[float, ...]:
        """Seconds by one of the clocks."""
        return self.cpu if clock == "cpu" else self.wall


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Median of the ratios of rounds, with the lowest and the highest."""

    median: float
    low: float
    high: float

    def times(self, factor: float) -> "Ratio":
        """Scale all three."""
        return Ratio(median=self.median * factor, low=self.low * factor, high=self.high * factor)

    def __str__(self) -> str:
        return f"{self.median:.2g} ({self.low:.2g}..{self.high:.2g})"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What was found of one case.

    Parameters
    ----------
    case
        Its name, such as ``"step tiramisu"``.
    samples
        How many were done while the clocks ran.
    wall, cpu
        Median seconds a sample by the clock on the wall, and of this process on a core.
    flops_per_second, bytes_per_second
        By the case's own clock; None where they are not counted.
    of_ceilings
        Share of the rate of what bounds it, in the same run, by the bound's name.
    peak_bytes
        Most memory that the first call held beyond what was there before it; None where the system does not tell.
    notes
        Sizes and whatever else belongs to the number.
    """

    case: str
    samples: int
    wall: float
    cpu: float
    flops_per_second: float | None = None
    bytes_per_second: float | None = None
    of_ceilings: dict[str, Ratio] = field(default_factory=dict)
    peak_bytes: int | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"{self.case}: {self.cpu * 1e3:.3g} CPU ms, {self.wall * 1e3:.3g} ms by the clock"]
        if self.flops_per_second:
            parts.append(f"{self.flops_per_second / 1e9:.3g} GFLOP/s")
        if self.bytes_per_second:
            parts.append(f"{self.bytes_per_second / 1e9:.3g} GB/s")
        parts += [f"{share} of {name}" for name, share in self.of_ceilings.items()]
        if self.peak_bytes is not None:
            parts.append(f"peak {self.peak_bytes / 2**20:.0f} MiB")
        return ", ".join(parts)


def alternate(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Let works take turns, so that whatever else the machine does troubles all alike.

    Parameters
    ----------
    works
        What to call, by name. A round calls each once; the first round, which also chooses kernels, is not counted.
    rounds
        How many are counted.

    Raises
    ------
    ValueError
        If ``rounds`` is below 1.
    """
    if rounds < 1:
        raise ValueError(f"rounds={rounds!r}: choose 1 or more, 5 gives a median")
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for _ in range(rounds + 1):
        for name, call in works.items():
            _settle()
            cpu, wall = time.process_time(), time.perf_counter()
            call()
            _settle()
            taken[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    return {
        name: Timing(cpu=tuple(cpu for cpu, _ in seconds[1:]), wall=tuple(wall for _, wall in seconds[1:]))
        for name, seconds in taken.items()
    }


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Compare two works round by round, each with its neighbour in time."""
    each = [one / other for one, other in zip(above, below, strict=True)]
    return Ratio(median=statistics.median(each), low=min(each), high=max(each))


def measure(
    case: str,
    work: Work,
    *,
    rounds: int,
    ceilings: Mapping[str, Work] | None = None,
    notes: dict[str, Any] | None = None,
) -> Measurement:
    """Measure work in turn with what bounds it; its memory by the first call, which is not timed.

    Parameters
    ----------
    case
        What it is called.
    work
        What to do.
    rounds
        How often.
    ceilings
        What bounds it, by name; compared by FLOP/s where both count them, else by bytes/s.
    notes
        Kept with the measurement.
    """
    ceilings = ceilings or {}
    with peak_memory() as peak:
        work.call()
    timings = alternate({case: work.call} | {name: bound.call for name, bound in ceilings.items()}, rounds)
    mine = timings[case]
    seconds = statistics.median(mine.by(work.clock)) / work.samples
    return Measurement(
        case=case, samples=rounds * work.samples, wall=statistics.median(mine.wall) / work.samples,
        cpu=statistics.median(mine.cpu) / work.samples,
        flops_per_second=work.flops / seconds if work.flops else None,
        bytes_per_second=work.bytes / seconds if work.bytes else None,
        # The ceilings are timed by the work's clock, so that cores count alike in both.
        of_ceilings={
            name: ratio(timings[name].by(work.clock), mine.by(work.clock)).times(_amounts(work, bound))
            for name, bound in ceilings.items()
        },
        peak_bytes=peak.bytes, notes=notes or {},
    )  # fmt: skip


class Peak:
    """Most memory held; ``bytes`` is None until it is known, and where the system does not tell."""

    bytes: int | None = None


@contextlib.contextmanager
def peak_memory() -> Iterator[Peak]:
    """Find how much more memory the body holds at its worst than there was before: the GPU's, else the process's.

    What the process has freed and kept counts as there before, so ask in a process that has done nothing else.
    """
    peak = Peak()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        yield peak
        peak.bytes = torch.cuda.max_memory_allocated() - before
        return
    start = _most_resident(reset=True)
    yield peak
    end = _most_resident()
    if start is not None and end is not None:
        peak.bytes = end - start


def _most_resident(*, reset: bool = False) -> int | None:
    """Largest resident size of this process so far, or from now on (Linux)."""
    try:
        if reset:
            _RESET.write_text("5")
        kibibytes = _STATUS.read_text().split("VmHWM:")[1].split()[0]
    except (OSError, IndexError):
        return None
    return int(kibibytes) * 1024


def _amounts(work: Work, bound: Work) -> float:
    """How much more one call of the work does than one of its bound."""
    if work.flops and bound.flops:
        return work.samples * work.flops / (bound.samples * bound.flops)
    return work.samples * work.bytes / (bound.samples * bound.bytes)


def _settle() -> None:
    """Wait for what a GPU still has to do."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
