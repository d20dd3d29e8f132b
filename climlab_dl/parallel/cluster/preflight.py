"""What is checked before any long work: room on the machine, one MPI world, one set of versions."""

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

_log = logging.getLogger(__name__)

# Interpreter, torch, our package and one small network: what a rank takes before it holds any data.
_BYTES_PER_RANK = 600 * 2**20
_VERSIONS = ("climlab-dl", "torch", "numpy", "mpi4py", "ipyparallel")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a rank says of itself."""

    rank: int
    size: int
    total: int
    host: str
    pid: int
    mpi: str
    versions: dict[str, str]


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_share(ranks: int, hosts: int) -> int:
    """Check that hosts can share the ranks evenly; returns how many each has.

    Raises
    ------
    ValueError
        If ``ranks`` is no positive number, or no multiple of the number of hosts.
    """
    if ranks < 1:
        raise ValueError(f"ranks={ranks} must be at least 1")
    if ranks % hosts:
        raise ValueError(
            f"ranks={ranks} cannot be shared evenly by {hosts} hosts; {-(-ranks // hosts) * hosts} ranks can"
        )
    return ranks // hosts


def check_room(ranks: int, threads: int) -> None:
    """Check that the ranks fit into this machine's memory; a warning says if they have more threads than it has cores.

    Raises
    ------
    MemoryError
        If there is not enough free memory even to start them.
    """
    import psutil

    free, needed = psutil.virtual_memory().available, ranks * _BYTES_PER_RANK
    if free < needed:
        raise MemoryError(
            f"{ranks} ranks need about {needed / 2**30:.1f} GiB before they hold any data, and {free / 2**30:.1f} GiB "
            f"are free; start at most {free // _BYTES_PER_RANK} ranks or close other kernels"
        )
    if ranks * threads > cores():
        _log.warning(
            "%d ranks x %d threads share %d cores; training is fastest with one thread a core or fewer",
            ranks, threads, cores(),
        )  # fmt: skip


def report(search_path: Sequence[str]) -> Report:
    """Take part in an all-reduce and say where this rank runs; run on all ranks at once.

    Modules beside the notebook become importable as they are there: ``search_path`` is the notebook's ``sys.path``.
    """
    import socket
    from importlib.metadata import version

    from mpi4py import MPI

    from climlab_dl.parallel import mpi

    sys.path.extend(folder for folder in search_path if folder not in sys.path)
    world = MPI.COMM_WORLD
    total = world.allreduce(world.rank + 1)
    mpi.release_segments()
    return Report(
        rank=world.rank,
        size=world.size,
        total=total,
        host=socket.gethostname(),
        pid=os.getpid(),
        mpi=MPI.Get_library_version().splitlines()[0].strip("\0 "),
        versions={name: version(name) for name in _VERSIONS} | {"python": sys.version.split()[0]},
    )


def check_reports(reports: Sequence[Report], ranks: int) -> None:
    """Check that the ranks are one MPI world of the right size with one set of versions.

    Raises
    ------
    RuntimeError
        If they are not.
    """
    sizes = sorted({each.size for each in reports})
    if sizes != [ranks] or sorted(each.rank for each in reports) != list(range(ranks)):
        raise RuntimeError(
            f"{len(reports)} processes were to form one MPI world of {ranks}, and they see worlds of {sizes}: mpiexec "
            f"and mpi4py belong to different MPI libraries ({reports[0].mpi}). Keep one MPI in this environment"
        )
    wrong = {each.rank: each.total for each in reports if each.total != ranks * (ranks + 1) // 2}
    if wrong:
        raise RuntimeError(
            f"the sum of 1..{ranks} over the ranks is {ranks * (ranks + 1) // 2}, and ranks got {wrong}: this MPI "
            f"({reports[0].mpi}) does not reduce rightly across these processes"
        )
    for name, first in reports[0].versions.items():
        differing = {each.rank: each.versions[name] for each in reports if each.versions[name] != first}
        if differing:
            raise RuntimeError(
                f"rank 0 has {name} {first}, other ranks have {differing}; start all ranks from one environment"
            )
