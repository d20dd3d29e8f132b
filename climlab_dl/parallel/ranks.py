"""Ranks: join them, leave them, and agree on numbers and on failures.

Ranks come from MPI (``mpiexec``, Slurm with PMI, ipyparallel's MPI engines) or from ``torchrun``; a single process
is one rank and needs no process group. Tensors on GPUs travel by NCCL, those on CPUs by gloo.

Every collective has a name and a timeout, and a failure of one rank becomes a failure of all: see :func:`agree`.
"""

import contextlib
import os
import traceback
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor

from climlab_dl.parallel import failures, meeting
from climlab_dl.parallel.cores import cores
from climlab_dl.parallel.memory import keep_freed
from climlab_dl.parallel.mpi import World

_world: World | None = None
# Trainings one after the other find theirs again: each holds sockets and threads until the ranks part.
_groups: dict[tuple[int, ...], dist.ProcessGroup] = {}


def join(*, timeout: float = 600.0) -> World:
    """Become a rank; harmless if this process already is one.

    Parameters
    ----------
    timeout
        Seconds after which a collective that some rank does not reach raises ConnectionError.

    Raises
    ------
    RuntimeError
        If Slurm started several tasks that do not know of each other: each would train alone.
    """
    global _world
    if _world is None:
        failures.print_once()  # before torch wraps what prints errors
        _world = meeting.meet(timeout)
        if _world.size > 1 and not torch.cuda.is_available():
            keep_freed()  # a rank among ranks is a process of its own, not somebody's notebook
        if _world.local_size > 1 and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(max(1, cores() // _world.local_size))
        if torch.cuda.is_available():
            torch.cuda.set_device(device())
    return _world


def leave() -> None:
    """Close the connections that :func:`join` opened; a rank still waiting for this one gets a ConnectionError."""
    global _world
    _groups.clear()
    meeting.part()
    _world = None


@contextlib.contextmanager
def joined(*, timeout: float = 600.0) -> Iterator[World]:
    """Be a rank in the body, and leave afterwards unless this process was a rank before."""
    before = _world
    try:
        yield join(timeout=timeout)
    except (Exception, KeyboardInterrupt) as error:
        if before is None and (store := meeting.store()) is not None:
            failures.settle(error, store, rank(), size())
        raise
    finally:
        if before is None:
            leave()


def world() -> World:
    """Return where this process stands; a single rank before :func:`join`."""
    return _world or World()


def rank() -> int:
    """Return the number of this rank, 0 to ``size() - 1``."""
    return world().rank


def size() -> int:
    """Return how many ranks there are."""
    return world().size


def device() -> torch.device:
    """Return the device that this rank computes on: its own GPU where there are GPUs."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", world().local_rank % torch.cuda.device_count())


def group(members: list[int]) -> dist.ProcessGroup:
    """Return the group of some ranks, made once; only its members need to know, and it has the ranks' timeout."""
    key = tuple(members)
    if key not in _groups:
        made = dist.new_group(members, timeout=meeting.timeout(), use_local_synchronization=True)
        assert isinstance(made, dist.ProcessGroup)
        _groups[key] = made
    return _groups[key]


@contextlib.contextmanager
def collective(name: str) -> Iterator[None]:
    """Name the collective that the body waits for, should it fail.

    Raises
    ------
    ConnectionError
        In place of the transport's own error: a rank is gone, or did not come within the timeout.
    """
    try:
        yield
    except RuntimeError as error:
        raise ConnectionError(
            f"rank {rank()} of {size()} could not finish the collective {name!r}: another rank is gone or did not "
            f"reach it in time. Look for the first failure in the other ranks' output. ({error})"
        ) from error


def sum(values: Tensor, name: str) -> Tensor:  # noqa: A001
    """Element-wise sum over ranks, the same on every rank; ``values`` is left alone."""
    return _reduced(values, name, dist.ReduceOp.SUM)


def largest(values: Tensor, name: str) -> Tensor:
    """Element-wise maximum over ranks, the same on every rank; ``values`` is left alone."""
    return _reduced(values, name, dist.ReduceOp.MAX)


def mean(values: Tensor, name: str) -> Tensor:
    """Element-wise mean over ranks, the same on every rank."""
    return sum(values, name) / size()


def gather(values: Tensor, name: str) -> Tensor:
    """Collect tensors of one shape and type from all ranks: (rank, ...), on every rank."""
    if size() == 1:
        return values[None]
    parts = values.new_empty((size(), *values.shape))
    with collective(name):
        dist.all_gather_single(parts, values[None].contiguous())
    return parts


def broadcast(values: Tensor, name: str, *, source: int = 0) -> Tensor:
    """Overwrite ``values`` with those of rank ``source``."""
    if size() > 1:
        with collective(name):
            dist.broadcast(values, source)
    return values


def broadcast_text(text: str, name: str, *, source: int = 0) -> str:
    """Give every rank the text of rank ``source``."""
    if size() == 1:
        return text
    encoded = torch.frombuffer(bytearray(text.encode() or b" "), dtype=torch.uint8)
    length = broadcast(torch.tensor([len(encoded)]), name, source=source)
    if rank() != source:
        encoded = torch.empty(int(length), dtype=torch.uint8)
    return bytes(broadcast(encoded, name, source=source).tolist()).decode().strip()


def barrier(name: str) -> None:
    """Wait for all ranks."""
    sum(torch.zeros(1), name)


def agree(values: list[float], name: str, error: Exception | None = None) -> list[float]:
    """Sum numbers over ranks, or fail on all ranks together.

    Parameters
    ----------
    values
        As many on every rank.
    name
        What the ranks are doing, for messages.
    error
        What went wrong on this rank, if something did.

    Returns
    -------
    list of float
        The sums, the same on every rank.

    Raises
    ------
    Exception
        ``error`` itself on the rank that has it.
    RuntimeError
        On the other ranks, with the traceback of the lowest rank that has an error.
    """
    if size() == 1:
        if error is not None:
            raise error
        return values
    totals = sum(torch.tensor([*values, float(error is not None)], dtype=torch.float64), name).tolist()
    if totals.pop() == 0:
        return totals
    first = -int(largest(torch.tensor(-size() if error is None else -rank()), name))
    story = broadcast_text("".join(traceback.format_exception(error)) if error else "", name, source=first)
    if error is not None:
        raise error
    consequence = RuntimeError(
        f"rank {first} failed in {name!r}, so rank {rank()} ends too. Rank {first} said:\n{story}"
    )
    failures.silence(consequence)
    raise consequence


@contextlib.contextmanager
def together(name: str) -> Iterator[None]:
    """Run the body, which has no collectives, on all ranks; an exception on one is raised on all (:func:`agree`)."""
    error = None
    try:
        yield
    except ConnectionError:
        raise  # The ranks cannot agree any more: leaving is what frees the others.
    except Exception as caught:
        error = caught
    agree([], name, error)


def _reduced(values: Tensor, name: str, how: dist.ReduceOp.RedOpType) -> Tensor:
    total = values.detach().clone()
    if size() > 1:
        with collective(name):
            dist.all_reduce(total, op=how)
    return total
