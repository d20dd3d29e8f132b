"""Ranks: join them, leave them, and agree on numbers and on failures. The only place that starts torch.distributed.

Ranks come from MPI (``mpiexec``, Slurm with PMI, ipyparallel's MPI engines) or from ``torchrun``; a single process
is one rank and needs no process group. Tensors on GPUs travel by NCCL, those on CPUs by gloo.

Every collective has a name and a timeout, and a failure of one rank becomes a failure of all: see :func:`agree`.
"""

import contextlib
import gc
import os
import socket
import sys
import traceback
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import FileStore, PrefixStore, Store, TCPStore  # pyright: ignore[reportPrivateImportUsage]

from climlab_dl.parallel import failures, mpi
from climlab_dl.parallel.memory import keep_freed
from climlab_dl.parallel.mpi import World

_world: World | None = None
_owns_process_group = False
_timeout: timedelta | None = None
_store: Store | None = None
_memory: Store | None = None
_set_interface = False


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
    global _world, _owns_process_group
    if _world is None:
        failures.print_once()  # before torch wraps what prints errors
        if dist.is_initialized():
            _world = _from_torch()
        elif "TORCHELASTIC_RUN_ID" in os.environ:
            _start_process_group("env://", timeout)
            _world = _from_torch()
        elif mpi.started():
            _world = _from_mpi(timeout)
        else:
            _world = World()
        _refuse_lonely_slurm_tasks(_world)
        if _world.size > 1 and not torch.cuda.is_available():
            keep_freed()  # a rank among ranks is a process of its own, not somebody's notebook
        if _world.local_size > 1 and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // _world.local_size))
        if torch.cuda.is_available():
            torch.cuda.set_device(device())
    return _world


def leave() -> None:
    """Close the connections that :func:`join` opened; a rank still waiting for this one gets a ConnectionError."""
    global _world, _owns_process_group, _timeout, _store, _set_interface
    if _owns_process_group and dist.is_initialized():
        # A group that outlives its parent ends the interpreter with "terminate called".
        gc.collect()
        dist.destroy_process_group()
    if _set_interface:
        os.environ.pop("GLOO_SOCKET_IFNAME", None)
    _world, _owns_process_group, _timeout, _store, _set_interface = None, False, None, None, False


@contextlib.contextmanager
def joined(*, timeout: float = 600.0) -> Iterator[World]:
    """Be a rank in the body, and leave afterwards unless this process was a rank before."""
    before = _world
    try:
        yield join(timeout=timeout)
    except (Exception, KeyboardInterrupt) as error:
        if before is None and _store is not None:
            failures.settle(error, _store, rank(), size())
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
    """Make a group of some ranks, of which only its members need to know; its collectives have the ranks' timeout."""
    made = dist.new_group(members, timeout=_timeout, use_local_synchronization=True)
    assert isinstance(made, dist.ProcessGroup)
    return made


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


def _from_mpi(timeout: float) -> World:
    """Meet over MPI, which tells every rank of this job, and of no other, where."""
    global _store, _set_interface
    place = mpi.place()
    if place.size == 1:
        return place
    address = mpi.address(place)
    if "GLOO_SOCKET_IFNAME" not in os.environ and sys.platform == "linux" and (interface := mpi.interface(address)):
        # Left to itself gloo takes the address of the host's name, which may lead nowhere, or beyond this host.
        os.environ["GLOO_SOCKET_IFNAME"] = interface
        _set_interface = True
    _store = _meet(place, address, timeout)
    _start_process_group(None, timeout, store=_store, rank=place.rank, world_size=place.size)
    return place


def _meet(place: World, address: str, timeout: float) -> Store:
    """Meet in memory on one node, else at a port of rank 0 that is free.

    A TCPStore asks for the name of each peer, for loopback's too, and so waits for the site's resolver.
    """
    global _memory
    waiting = timedelta(seconds=timeout)
    if _memory is None and (path := mpi.shared_memory(place)):
        # Kept for good, as the ranks of MPI are: whenever one leaves or dies, the others' is still there.
        _memory = FileStore(path, -1)  # with a number of ranks the last to leave would remove the path
    if _memory is not None:
        _memory.set_timeout(waiting)
        return PrefixStore(mpi.broadcast(uuid.uuid4().hex), _memory)
    if place.rank == 0:
        listener = socket.create_server((address, 0))
        address, port = mpi.broadcast((address, listener.getsockname()[1]))
        return TCPStore(
            address, port, place.size, True, waiting, wait_for_workers=False, master_listen_fd=listener.detach()
        )
    address, port = mpi.broadcast(None)
    return TCPStore(address, port, place.size, False, waiting)


def _start_process_group(init_method: str | None, timeout: float, **place: Any) -> None:
    global _owns_process_group, _timeout
    _timeout = timedelta(seconds=timeout)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    # Else each rank would connect to every other one, thousands of them, before it needs to.
    os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")
    dist.init_process_group(backend, init_method=init_method, timeout=_timeout, **place)
    _owns_process_group = True


def _from_torch() -> World:
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return World(
        rank=dist.get_rank(),
        size=dist.get_world_size(),
        local_rank=local_rank,
        local_size=local_size,
        node=int(os.environ.get("GROUP_RANK", 0)),
        nodes=max(1, dist.get_world_size() // local_size),
    )


def _refuse_lonely_slurm_tasks(place: World) -> None:
    tasks = int(os.environ.get("SLURM_STEP_NUM_TASKS", 1))
    if "SLURM_PROCID" in os.environ and place.size == 1 and tasks > 1:
        raise RuntimeError(
            f"srun started {tasks} tasks, but this one sees no other rank and would train alone. Use srun --mpi=pmi2 "
            "for MPICH or --mpi=pmix for Open MPI (srun --mpi=list shows what this Slurm has), or mpiexec."
        )
