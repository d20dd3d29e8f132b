"""From archives to batches: what is trained on, what is held out, in which order, and how it is varied.

The order is one seeded shuffle of all samples per epoch, which the ranks then share out (not the other way round, which
costs accuracy at scale). It depends on the seed and the epoch alone, and the variation of a sample on the seed, epoch
and sample; so one rank with batches of 8 sees what two ranks with batches of 4 see, and a training resumes mid-epoch.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from climlab_dl.parallel import ranks
from climlab_dl.training.metrics import Parameters, Segmentation
from climlab_dl.training.statistics import Statistics

Augment = Callable[[np.ndarray, np.ndarray, np.random.Generator], tuple[np.ndarray, np.ndarray]]
Batch = tuple[Tensor, Tensor, Tensor]


class Reader(Protocol):
    """Normalised samples by number."""

    def read(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels (channel, ...) in float32 and the target."""
        ...

    def describe(self, index: int) -> str:
        """Say where a sample comes from, for messages."""
        ...


class Samples(Dataset):
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

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, key: tuple[int, int]) -> Batch:
        epoch, number = key
        values, target = self.reader.read(self.indices[number])
        if self.augment is not None:
            values, target = self.augment(values, target, np.random.default_rng([self.seed, epoch, number]))
        tensors = torch.from_numpy(np.ascontiguousarray(values)), torch.from_numpy(np.ascontiguousarray(target))
        return *tensors, torch.tensor(number)

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
        Processes that read ahead; 0 where the samples are in memory.
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


class Order(Sampler[list[tuple[int, int]]]):
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

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
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


def training_batches(data: Prepared, order: Order, device: torch.device) -> Iterator[Batch]:
    """Yield (samples, targets, numbers) for this rank, without end, on the device."""
    loader = DataLoader(
        data.training,
        batch_sampler=order,
        num_workers=data.workers,
        # A fork would copy MPI's and HDF5's state in the middle of something.
        multiprocessing_context="forkserver" if data.workers else None,
        pin_memory=device.type == "cuda",
        generator=torch.Generator(),  # its own, so that making a loader leaves the network's random numbers alone
    )
    for values, target, numbers in loader:
        yield values.to(device, non_blocking=True), target.to(device, non_blocking=True), numbers


def held_out_batches(data: Prepared, batch_size: int, device: torch.device) -> Iterator[Batch]:
    """Yield this rank's share of the held-out samples, each of which exactly one rank has."""
    mine = [(0, number) for number in range(ranks.rank(), len(data.held_out), ranks.size())]
    batches = [mine[start : start + batch_size] for start in range(0, len(mine), batch_size)]
    loader = DataLoader(data.held_out, batch_sampler=batches, generator=torch.Generator())
    for values, target, numbers in loader:
        yield values.to(device), target.to(device), numbers


def split(count: int, *shares: float, what: str) -> list[range]:
    """Cut ``count`` samples in their order: the first part is what the shares, which follow in turn, leave.

    Raises
    ------
    ValueError
        If a part would be empty although its share is not 0.
    """
    sizes = [round(count * share) for share in shares]
    sizes = [count - sum(sizes), *sizes]
    if sizes[0] < 1 or any(size < 1 for size, share in zip(sizes[1:], shares, strict=True) if share > 0):
        raise ValueError(f"{count} {what} are too few to hold out {' and '.join(f'{share:.0%}' for share in shares)}")
    ends = np.cumsum([0, *sizes]).tolist()
    return [range(start, end) for start, end in itertools.pairwise(ends)]


def check_shares(**shares: float) -> None:
    """Refuse shares that are none.

    Raises
    ------
    ValueError
        Naming the share.
    """
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise ValueError(f"{name}={share!r}: choose a share of the samples, from 0 to below 1")
    if sum(shares.values()) >= 1:
        raise ValueError(f"{' + '.join(shares)} = {sum(shares.values()):g} leaves nothing to train on; lower them")
