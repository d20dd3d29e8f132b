"""How long a training step takes on many ranks: compute, what of the exchange shows, stragglers, and input.

What the exchange takes is in :mod:`climlab_dl.performance.collectives`. All times are in seconds, sizes in bytes, rates
in bytes per second. Which constants are known, which are fitted, and how near the model comes to what was published is
in :mod:`climlab_dl.performance.machines`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil, inf, log, log2
from statistics import NormalDist
from typing import Literal

import pandas as pd

from climlab_dl.performance.collectives import Machine, Route, all_reduce

# The gradients by input and by weights cost a forward pass each; they are there while the backward pass still runs.
_BACKWARD = 2 / 3
_EULER = 0.5772156649015329


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What one rank does in a step.

    Parameters
    ----------
    name
        For tables.
    seconds
        Of a step on one rank, with nothing to wait for.
    samples
        In a step of one rank.
    gradient_bytes
        That ranks average after each step.
    sample_bytes
        Size of a sample as it is read.
    """

    name: str
    seconds: float
    gradient_bytes: float
    samples: int = 1
    sample_bytes: float = 0.0

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"seconds={self.seconds!r}: choose the seconds of a step, above 0")
        if self.gradient_bytes < 0 or self.sample_bytes < 0:
            raise ValueError(f"{self.name}: gradient_bytes and sample_bytes are sizes, from 0")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where samples come from.

    Parameters
    ----------
    rank_rate
        Bytes per second that a rank's reader yields, from wherever it reads.
    total_rate
        Bytes per second that a shared file system gives all ranks together; infinite where each node has its own disk.
    delay
        Mean in seconds of the delays, exponentially distributed, that a shared file system adds to reads.
    """

    rank_rate: float = inf
    total_rate: float = inf
    delay: float = 0.0

    def seconds(self, workload: Workload, ranks: int) -> float:
        """Time in which a rank gets the samples of a step, read ahead of the step."""
        each = min(self.rank_rate, self.total_rate / ranks)
        return workload.samples * workload.sample_bytes / each

    def late(self, ranks: int) -> float:
        """By how much the latest of all ranks' reads is later than one rank's: the mean maximum of exponentials."""
        return self.delay * (_harmonic(ranks) - 1)


@dataclass(frozen=True, kw_only=True)
class Technique:
    """How gradients are exchanged.

    Parameters
    ----------
    route
        ``"ring"``: all ranks in one ring, node by node. ``"tree"``: recursive halving and doubling over all ranks,
        whatever node they are on (Rabenseifner 2004). ``"hierarchical"``: reduce-scatter in the node, ``"tree"`` across
        nodes, all-gather in the node (Kurth et al. 2018, sec. V-A3).
    compression
        Size of what travels over that of the gradients; 0.5 for half precision.
    lag
        1 applies the gradient of the step before, whose exchange has a whole step (Kurth et al. 2018, sec. V-B4).
    bucket_bytes
        Gradients travel in pieces of this size, the first as soon as the backward pass has it.
    """

    route: Route = "hierarchical"
    compression: float = 1.0
    lag: Literal[0, 1] = 0
    bucket_bytes: float = 25 * 2**20

    def __post_init__(self) -> None:
        if self.route not in ("ring", "tree", "hierarchical"):
            raise ValueError(f"route={self.route!r}: choose 'ring', 'tree' or 'hierarchical'")
        if not 0 < self.compression <= 1:
            raise ValueError(f"compression={self.compression!r}: choose above 0 to 1; half precision is 0.5")
        if self.lag not in (0, 1):
            raise ValueError(f"lag={self.lag!r}: choose 0 or 1")
        if not self.bucket_bytes > 0:
            raise ValueError(f"bucket_bytes={self.bucket_bytes!r}: choose a size above 0")


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step, taken apart; seconds.

    Attributes
    ----------
    compute
        Of one rank.
    exchange
        What the exchange takes in all.
    exposed
        What of it the ranks wait for.
    straggling
        What they wait for the slowest of them.
    input
        What they wait for samples.
    """

    compute: float
    exchange: float
    exposed: float
    straggling: float
    input: float

    @property
    def seconds(self) -> float:
        """The whole step."""
        return self.compute + self.exposed + self.straggling + self.input

    @property
    def efficiency(self) -> float:
        """Share of the step that is compute: the rate per rank over that of one rank with nothing to wait for."""
        return self.compute / self.seconds


def step(machine: Machine, workload: Workload, technique: Technique, source: Source, ranks: int) -> Step:
    """Take a step of a training apart.

    Parameters
    ----------
    machine, workload, technique, source
        What trains, how, and on what.
    ranks
        How many.

    Returns
    -------
    Step
        Steps are synchronous: the ranks wait for the slowest, for lagged gradients too, because they agree at each
        step on how it went.
    """
    if ranks < 1:
        raise ValueError(f"ranks={ranks!r}: choose a whole number from 1")
    size = workload.gradient_bytes * technique.compression
    buckets = max(1, ceil(size / technique.bucket_bytes))
    each = all_reduce(machine, size / buckets, ranks, technique.route)
    exchange = buckets * each
    if technique.lag:
        exposed = max(0.0, exchange - workload.seconds)
    else:
        # The last bucket begins when the backward pass ends, or when the others, begun with the first, have gone.
        exposed = max(each, exchange - workload.seconds * _BACKWARD * (1 - 1 / buckets))
    if ranks > 1:
        exposed += 2 * log2(ranks) * machine.across.latency  # the agreement, a few bytes
    straggling = workload.seconds * machine.spread * largest_of(machine.nodes(ranks)) + source.late(ranks)
    busy = workload.seconds + exposed + straggling
    waiting = max(0.0, source.seconds(workload, ranks) - busy)
    return Step(compute=workload.seconds, exchange=exchange, exposed=exposed, straggling=straggling, input=waiting)


def largest_of(count: int) -> float:
    """Mean of the largest of so many standard normal numbers, to 5 % (Blom 1958); 0 for one."""
    return NormalDist().inv_cdf((count - 0.375) / (count + 0.25))


def sweep(
    machine: Machine,
    workload: Workload,
    techniques: Mapping[str, tuple[Technique, Source]],
    ranks: Iterable[int],
) -> pd.DataFrame:
    """Compare techniques over numbers of ranks.

    Returns
    -------
    pandas.DataFrame
        A row per technique and number of ranks: machine, workload, technique, ranks, efficiency, samples_per_s, and the
        parts of a step in seconds.
    """
    rows = []
    for name, (technique, source) in techniques.items():
        for count in ranks:
            taken = step(machine, workload, technique, source, count)
            rows.append(
                {
                    "machine": machine.name, "workload": workload.name, "technique": name, "ranks": count,
                    "efficiency": taken.efficiency, "samples_per_s": count * workload.samples / taken.seconds,
                    "seconds": taken.seconds, "exchange": taken.exchange, "exposed": taken.exposed,
                    "straggling": taken.straggling, "input": taken.input,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def _harmonic(count: int) -> float:
    """1 + 1/2 + ... + 1/count, to 1e-3."""
    return 1.0 if count == 1 else log(count) + _EULER + 1 / (2 * count) - 1 / (12 * count**2)
