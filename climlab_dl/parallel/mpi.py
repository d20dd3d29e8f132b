"""What MPI tells of the ranks: how they are placed on nodes, and by which network they reach each other. No torch."""

import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SEGMENTS = "/dev/shm/mpich_shm_"  # noqa: S108


@dataclass(frozen=True, kw_only=True)
class World:
    """Where this process stands among the ranks."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    node: int = 0
    nodes: int = 1


def started() -> bool:
    """Whether an MPI launcher started this process, or it uses MPI already."""
    launched = {"PMI_RANK", "PMI_SIZE", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"} & set(os.environ)
    return bool(launched) or "mpi4py.MPI" in sys.modules


def place() -> World:
    """Return where this rank stands; all ranks call this."""
    from mpi4py import MPI

    everyone = MPI.COMM_WORLD
    neighbours = everyone.Split_type(MPI.COMM_TYPE_SHARED)
    leader = neighbours.bcast(everyone.rank)
    leaders = sorted(set(everyone.allgather(leader)))
    release_segments()
    return World(
        rank=everyone.rank,
        size=everyone.size,
        local_rank=neighbours.rank,
        local_size=neighbours.size,
        node=leaders.index(leader),
        nodes=len(leaders),
    )


def release_segments() -> None:
    """Remove the name of the memory that MPICH shares among a node's ranks; to be called after a collective.

    The memory stays for as long as a rank uses it. With its name it would outlive ranks that are killed: it would fill
    /dev/shm, and a Slurm job that is queued again, whose number MPICH makes the name of, would start on what the killed
    one left ("failed to unpack address, invalid bandwidth 0.00").
    """
    with contextlib.suppress(FileNotFoundError):  # no /proc: no Linux
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = Path(line.split(maxsplit=5)[-1])
            if str(path).startswith(_SEGMENTS):
                path.unlink(missing_ok=True)


def address(world: World) -> str:
    """Return this host's address by which the other nodes' ranks reach it; loopback if there is one node.

    A host's own name is no guide, because many systems have it mean an address of the loopback.
    """
    if world.nodes == 1:
        return "127.0.0.1"
    from mpi4py import MPI

    mine = (world.node, socket.gethostname())
    hosts: Sequence[tuple[int, str]] = MPI.COMM_WORLD.allgather(mine)
    other = next(host for node, host in hosts if node != world.node)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.connect((other, 9))  # sends nothing: the system says which way it would go
            return asking.getsockname()[0]
    except OSError as error:
        raise ConnectionError(
            f"{mine[1]} finds no way to {other}, where other ranks run ({error}); its name must have an address on "
            "every node"
        ) from error


def interface(host: str) -> str | None:
    """Return the network interface that has an address of this host, or None if none has."""
    import psutil

    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == host for each in addresses):
            return name
    return None


def shared_memory(world: World) -> str | None:
    """Open a file in memory that the ranks of one node share; all ranks call this, once in their lives.

    It has no name in any folder and is gone with the last rank, even if all are killed. Each rank keeps it open
    itself, so that none depends on another's life.

    Returns
    -------
    str
        Where this rank, and no other process, opens it.

    None if the ranks are on several nodes, or this system has no such files.
    """
    from mpi4py import MPI

    if world.nodes > 1 or not hasattr(os, "memfd_create"):
        return None
    made = os.memfd_create("climlab-dl") if world.rank == 0 else -1
    there = broadcast(f"/proc/{os.getpid()}/fd/{made}")
    opened = -1
    with contextlib.suppress(OSError):  # of ranks that are kept apart by containers of their own
        opened = made if world.rank == 0 else os.open(there, os.O_RDWR)
    if MPI.COMM_WORLD.allreduce(opened, MPI.MIN) < 0:
        return None
    return f"/proc/self/fd/{opened}"


def broadcast(value: Any) -> Any:
    """Give every rank the value of rank 0."""
    from mpi4py import MPI

    return MPI.COMM_WORLD.bcast(value)
