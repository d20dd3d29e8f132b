"""Batches that threads read ahead, into memory that is used again and again.

Reading, turning round and normalising let go of the interpreter's lock, so that threads do what would cost processes a
copy of every sample.
"""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from climlab_dl.training.batches import Samples

Batch = tuple[Tensor, Tensor, Tensor]
Key = tuple[int, int]


def read_ahead(
    samples: "Samples", order: Iterable[list[Key]], *, workers: int, device: torch.device
) -> Generator[Batch, None, None]:
    """Yield (samples, targets, numbers) on the device; on a CPU samples are overwritten once the next are asked for.

    Parameters
    ----------
    samples
        What is read.
    order
        The keys of each batch.
    workers
        Threads that read ahead, each one batch; with 0 a batch is read when it is asked for.
    device
        Where batches are wanted. They reach a GPU on a stream of their own, before they are asked for.
    """
    slots = [_Slot(device) for _ in range(workers + 1)]
    if not workers:
        for keys in order:
            yield _arrived(slots[0].fill(samples, keys))
        return
    pool, coming = ThreadPoolExecutor(workers, thread_name_prefix="input"), deque[Future[Batch]]()
    try:
        for number, keys in enumerate(order):
            # The slot of the batch that has just been given back.
            coming.append(pool.submit(slots[number % len(slots)].fill, samples, keys))
            if len(coming) > workers:
                yield _arrived(coming.popleft().result())
        while coming:
            yield _arrived(coming.popleft().result())
    finally:
        pool.shutdown(cancel_futures=True)


class _Slot:
    """Memory of one batch."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._on_gpu = device, device.type == "cuda"
        self._values = self._targets = torch.empty(0)
        self._stream = torch.cuda.Stream(device) if self._on_gpu else None

    def fill(self, samples: "Samples", keys: list[Key]) -> Batch:
        """Read a batch, and bring it to the device."""
        numbers = torch.tensor([number for _, number in keys])
        if self._stream is None:
            values, targets = self._read(samples, keys)
            return values, as_index(targets), numbers
        with torch.cuda.stream(self._stream):  # which makes its GPU the one of this thread
            values, targets = (part.to(self._device, non_blocking=True) for part in self._read(samples, keys))
            targets = as_index(targets)
        self._stream.synchronize()
        return values, targets, numbers

    def _read(self, samples: "Samples", keys: list[Key]) -> tuple[Tensor, Tensor]:
        self._values = self._room(self._values, (len(keys), *samples.shape), torch.float32)
        for place, key in enumerate(keys):
            target = np.asarray(samples.read(key, self._values[place].numpy()))
            if not place:
                kind = torch.from_numpy(np.empty(0, target.dtype)).dtype
                self._targets = self._room(self._targets, (len(keys), *target.shape), kind)
            self._targets[place].numpy()[...] = target
        return self._values, self._targets

    def _room(self, there: Tensor, shape: tuple[int, ...], kind: torch.dtype) -> Tensor:
        if there.shape == shape and there.dtype == kind:
            return there
        return torch.empty(shape, dtype=kind, pin_memory=self._on_gpu)


def as_index(targets: Tensor) -> Tensor:
    """Copy targets; classes, which travel in bytes, become the 64-bit numbers that losses and metrics index with."""
    return targets.clone() if targets.is_floating_point() else targets.to(torch.int64, copy=True)


def _arrived(batch: Batch) -> Batch:
    """Say that the stream which computes uses what came by another, lest its memory be given away too early."""
    for part in batch:
        if part.is_cuda:
            part.record_stream(torch.cuda.current_stream(part.device))
    return batch
