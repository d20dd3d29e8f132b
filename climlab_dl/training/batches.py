"""From archives to batches: what is trained on, what is held out, in which order, and how it is varied.

The order is one seeded shuffle of all samples per epoch, which the ranks then share out (not the other way round, which
costs accuracy at scale). It depends on the seed and the epoch alone, and the variation of a sample on the seed, epoch
and sample; so one rank with batches of 8 sees what two ranks with batches of 4 see, and a training resumes mid-epoch.
"""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from climlab_dl.parallel import ranks
from climlab_dl.training.ahead import Batch, Key, as_index, read_ahead
from climlab_dl.training.metrics import Parameters, Segmentation
from climlab_dl.training.statistics import Statistics

Augment = Callable[[np.ndarray, np.ndarray, np.random.Generator, np.ndarray], np.ndarray]
"""Writes a sample and its target, varied at random, to an array, and returns the target."""


class Reader(Protocol):
    """Normalised samples by number; several threads may ask for some at once."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample, channels first."""
        ...

    def read(self, index: int, out: np.ndarray) -> np.ndarray:
        """Write a sample to ``out``, float32 of this shape, and return its target."""
        ...

    def describe(self, index: int) -> str:
        """Say where a sample comes from, for messages."""
        ...


class Samples:
    """Samples that may be trained on, or that are held out; keys are (epoch, number).

    Parameters
    ----------
    reader
        Where they come from.
    indices
        Which of the reader's.
    augment
        How a sample is varied, if it is.
    seed
        Of the variation.
    """

    def __init__(
        self, reader: Reader, indices: Sequence[int], *, augment: Augment | None = None, seed: int = 0
    ) -> None:
        self.reader, self.indices, self.augment, self.seed = reader, indices, augment, seed
        self._thread = threading.local()

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, key: Key) -> Batch:
        values = np.empty(self.shape, dtype=np.float32)
        target = np.ascontiguousarray(self.read(key, values))
        return torch.from_numpy(values), as_index(torch.from_numpy(target)), torch.tensor(key[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a sample, channels first."""
        return self.reader.shape

    def read(self, key: Key, out: np.ndarray) -> np.ndarray:
        """Write a sample to an array, and return its target."""
        epoch, number = key
        if self.augment is None:
            return self.reader.read(self.indices[number], out)
        if getattr(self._thread, "plain", None) is None:
            self._thread.plain = np.empty(self.shape, dtype=np.float32)
        plain = self._thread.plain
        target = self.reader.read(self.indices[number], plain)
        return self.augment(plain, target, np.random.default_rng([self.seed, epoch, number]), out)

    def describe(self, number: int) -> str:
        """Say where a sample comes from."""
        return self.reader.describe(self.indices[number])


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Data ready for a training.

    Parameters
    ----------
    training, held_out
        The samples.
    channels, targets
        What goes into the network, and the classes or parameters that it is to find.
    statistics
        Of the training samples.
    facts
        What a checkpoint keeps, so that whoever has the network can normalise and name: plain types and tensors.
    metrics
        Makes an empty score.
    workers
        Threads that read ahead; 0 where the samples are ready in memory.
    group
        (rank, size) among the ranks that share out these training samples: all, or those of a node that holds its own.
    """

    training: Samples
    held_out: Samples
    channels: tuple[str, ...]
    targets: tuple[str, ...]
    statistics: Statistics
    facts: dict[str, Any]
    metrics: Callable[[], Segmentation | Parameters]
    workers: int = 0
    group: tuple[int, int] | None = None

    @property
    def sharing(self) -> tuple[int, int]:
        """(rank, size) among the ranks that share out the training samples."""
        return self.group or (ranks.rank(), ranks.size())


class Order:
    """The endless order of batches of this rank, from a place on.

    Parameters
    ----------
    count
        Samples to train on.
    batch_size
        Samples per rank and batch.
    accumulate
        Batches per step; an epoch is as many whole steps as there are samples for.
    seed
        Of the shuffles.
    epoch, offset
        The 1-based epoch, and how many of its samples the ranks that share them have had.
    sharing
        (rank, size) among those ranks.
    """

    def __init__(
        self, count: int, batch_size: int, *, accumulate: int, seed: int, epoch: int, offset: int,
        sharing: tuple[int, int] = (0, 1),
    ) -> None:  # fmt: skip
        self.count, self.batch_size, self.accumulate, self.seed = count, batch_size, accumulate, seed
        self.epoch, self.offset, self.sharing = epoch, offset, sharing

    def __iter__(self) -> Iterator[list[Key]]:
        epoch, start = self.epoch, self.offset
        rank, size = self.sharing
        everyone = self.batch_size * size
        while True:
            order = np.random.default_rng([self.seed, epoch]).permutation(self.count).tolist()
            while start + everyone * self.accumulate <= self.count:
                for _ in range(self.accumulate):
                    mine = start + self.batch_size * rank
                    yield [(epoch, number) for number in order[mine : mine + self.batch_size]]
                    start += everyone
            epoch, start = epoch + 1, 0


def steps_an_epoch(count: int, batch_size: int, accumulate: int, sharing: int) -> int:
    """Whole steps that there are samples for.

    Parameters
    ----------
    count
        Samples to train on.
    batch_size, accumulate
        Samples per rank and batch, and batches per step.
    sharing
        Ranks that share the samples out.

    Raises
    ------
    ValueError
        If there is none.
    """
    steps, fitting = count // (batch_size * accumulate * sharing), count // (accumulate * sharing)
    if not steps:
        raise ValueError(
            f"a step takes {batch_size * accumulate * sharing} samples (ranks {sharing} x batch_size {batch_size} x "
            f"accumulate {accumulate}), but there are {count} to train on; "
            + (f"choose batch_size={fitting} or less" if fitting else "take fewer ranks, or accumulate less")
        )
    return steps


def training_batches(data: Prepared, order: Order, device: torch.device) -> Generator[Batch, None, None]:
    """Give (samples, targets, numbers) for this rank, without end, as :func:`read_ahead` does."""
    return read_ahead(data.training, order, workers=data.workers, device=device)


def held_out_batches(data: Prepared, batch_size: int, device: torch.device) -> Generator[Batch, None, None]:
    """Give this rank's share of the held-out samples, each of which exactly one rank has."""
    mine = [(0, number) for number in range(ranks.rank(), len(data.held_out), ranks.size())]
    batches = [mine[start : start + batch_size] for start in range(0, len(mine), batch_size)]
    return read_ahead(data.held_out, batches, workers=data.workers, device=device)


class Measurable(Protocol):
    """Samples that have statistics."""

    def statistics(self, indices: range) -> Statistics:
        """Merge the statistics of some samples, before they are normalised."""
        ...


def shared_statistics(reader: Measurable, training: range, known: dict[str, Any] | None) -> Statistics:
    """Statistics of the training samples: those of a checkpoint, or by one pass, of which each rank does a share."""
    if known is not None:
        return Statistics.from_facts(known)
    with ranks.together("statistics of the training samples"):
        share = reader.statistics(training[ranks.rank() :: ranks.size()])
    return share.over_ranks()


def check_reading(*, memory_gigabytes: float, workers: int) -> None:
    """Refuse what is no size of a memory, and no number of threads.

    Raises
    ------
    ValueError
        Naming the one that is not.
    """
    if not memory_gigabytes >= 0:
        raise ValueError(f"memory_gigabytes={memory_gigabytes!r}: choose 0 (none) or more, 4 is usual")
    if not (isinstance(workers, int) and workers >= 0):
        raise ValueError(f"workers={workers!r}: choose a whole number of threads from 0, 2 is usual")
