"""Where the ranks of a job meet, and part: over MPI, or as torchrun's. The only place that starts torch.distributed."""

import gc
import os
import socket
import sys
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import FileStore, PrefixStore, Store, TCPStore  # pyright: ignore[reportPrivateImportUsage]

from climlab_dl.parallel import mpi
from climlab_dl.parallel.mpi import World


@dataclass(kw_only=True)
class _Meeting:
    """What this process opened to meet the others, and is to close again."""

    timeout: timedelta | None = None
    store: Store | None = None
    owns_process_group: bool = False
    set_interface: bool = False


_now = _Meeting()
_memory: Store | None = None


def meet(timeout: float) -> World:
    """Find the other ranks of this job; a process that nobody started with others is alone.

    Raises
    ------
    RuntimeError
        If Slurm started several tasks that do not know of each other: each would train alone.
    """
    if dist.is_initialized():
        place = _from_torch()
    elif "TORCHELASTIC_RUN_ID" in os.environ:
        _start_process_group("env://", timeout)
        place = _from_torch()
    elif mpi.started():
        place = _from_mpi(timeout)
    else:
        place = World()
    _refuse_lonely_slurm_tasks(place)
    return place


def part() -> None:
    """Close what :func:`meet` opened."""
    global _now
    if _now.owns_process_group and dist.is_initialized():
        # A group that outlives its parent ends the interpreter with "terminate called".
        gc.collect()
        dist.destroy_process_group()
    if _now.set_interface:
        os.environ.pop("GLOO_SOCKET_IFNAME", None)
    _now = _Meeting()


def timeout() -> timedelta | None:
    """Return after how long a collective gives up; None where torch's own default holds."""
    return _now.timeout


def store() -> Store | None:
    """Return where the ranks of MPI leave words for each other, outside of collectives."""
    return _now.store


def _from_mpi(timeout: float) -> World:
    """Meet over MPI, which tells every rank of this job, and of no other, where."""
    place = mpi.place()
    if place.size == 1:
        return place
    address = mpi.address(place)
    if "GLOO_SOCKET_IFNAME" not in os.environ and sys.platform == "linux" and (interface := mpi.interface(address)):
        # Left to itself gloo takes the address of the host's name, which may lead nowhere, or beyond this host.
        os.environ["GLOO_SOCKET_IFNAME"] = interface
        _now.set_interface = True
    _now.store = _meeting_place(place, address, timeout)
    _start_process_group(None, timeout, store=_now.store, rank=place.rank, world_size=place.size)
    return place


def _meeting_place(place: World, address: str, timeout: float) -> Store:
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
    _now.timeout = timedelta(seconds=timeout)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    # Else each rank would connect to every other one, thousands of them, before it needs to.
    os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")
    dist.init_process_group(backend, init_method=init_method, timeout=_now.timeout, **place)
    _now.owns_process_group = True


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
