"""What is checked before any long work: room on the machine, one MPI world, one set of versions."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from climlab_dl.parallel.cores import cores
from climlab_dl.words import counted

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
    gpus: tuple[str, ...] = ()


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
            f"{counted(ranks, 'rank')} would take about {needed / 2**30:.1f} GiB before any data, and "
            f"{free / 2**30:.1f} GiB are free; start at most {free // _BYTES_PER_RANK}, or close other kernels"
        )
    if ranks * threads > cores():
        _log.warning(
            "%s x %s share %s; training is fastest with one thread a core or fewer",
            counted(ranks, "rank"), counted(threads, "thread"), counted(cores(), "core"),
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
        gpus=_gpus(),
    )


def _gpus() -> tuple[str, ...]:
    """Identify the GPUs that this process sees, in CUDA's order."""
    if not Path("/proc/driver/nvidia/version").exists():  # else every start would wait for torch
        return ()
    import torch

    return tuple(str(torch.cuda.get_device_properties(number).uuid) for number in range(torch.cuda.device_count()))


def check_reports(reports: Sequence[Report], ranks: int) -> None:
    """Check that the ranks are one MPI world of the right size with one set of versions, and a GPU each if any has one.

    Raises
    ------
    RuntimeError
        If they are not.
    """
    sizes = sorted({each.size for each in reports})
    if sizes != [ranks] or sorted(each.rank for each in reports) != list(range(ranks)):
        processes = counted(len(reports), "process", "processes")
        raise RuntimeError(
            f"{processes} started to form one MPI world of {ranks}, and see worlds of {sizes}: mpiexec and mpi4py "
            f"belong to different MPI libraries ({reports[0].mpi}). Keep one MPI in this environment"
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
    check_gpus({each.rank: (each.host, each.gpus) for each in reports})


def check_gpus(seen: Mapping[int, tuple[str, Sequence[str]]]) -> None:
    """Check that each rank has a GPU of its own, or none has one.

    Parameters
    ----------
    seen
        By rank: its host, and the GPUs that it sees there. A host's ranks take theirs in turn, as
        :func:`climlab_dl.parallel.ranks.device` does.

    Raises
    ------
    RuntimeError
        If some ranks see no GPU while others do, or two would share one.
    """
    without = [rank for rank, (_, gpus) in seen.items() if not gpus]
    if without and len(without) < len(seen):
        hosts = sorted({seen[rank][0] for rank in without})
        raise RuntimeError(
            f"ranks {without} on {', '.join(hosts)} see no GPU and the other ranks do: use hosts that all have GPUs, "
            "or hide them with CUDA_VISIBLE_DEVICES="
        )
    taken: dict[tuple[str, str], int] = {}
    places: dict[str, int] = {}
    for rank, (host, gpus) in sorted(seen.items()):
        if not gpus:
            continue
        place = places[host] = places.get(host, -1) + 1
        gpu = gpus[place % len(gpus)]
        if (other := taken.setdefault((host, gpu), rank)) != rank:
            count = len({gpu for name, gpus in seen.values() if name == host for gpu in gpus})
            raise RuntimeError(
                f"ranks {other} and {rank} would share GPU {gpu} of {host}, which has {count} for its ranks: start at "
                f"most {counted(count, 'rank')} there, or hide GPUs with CUDA_VISIBLE_DEVICES= to train on the CPU"
            )
