"""The processes of a cluster: found by a mark in their environment, ended together.

Controller, ranks and whatever these start inherit the mark, so nothing depends on parents being alive or on lists of
process numbers being complete, and no process of anybody else can be hit.
"""

import contextlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil

MARK = "CLIMLAB_DL_CLUSTER"  # the cluster's folder
KERNEL = "CLIMLAB_DL_KERNEL"  # number and start of the process that started it


def mpiexec() -> str:
    """Path of the MPI launcher: beside this interpreter (the ``mpich`` wheel), else from PATH.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise FileNotFoundError(
            f"no mpiexec in {beside.parent} nor on PATH; `pip install mpich` brings one, a cluster has it as a module"
        )
    return found


def marks() -> dict[str, list[psutil.Process]]:
    """Find this user's processes that carry a mark, by cluster."""
    found: dict[str, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK)
        except (psutil.Error, OSError):  # gone meanwhile, or somebody else's
            continue
        if mark:
            found.setdefault(mark, []).append(process)
    return found


def alive(pid: int, started: float | None = None) -> bool:
    """Whether a process of this machine runs: the number, and if given the time it started (Unix seconds)."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return started is None or abs(process.create_time() - started) < 1.0
    except psutil.Error:
        return False


def cancel(name: str) -> None:
    """End Slurm jobs of this user by their name; harmless if there are none, or no Slurm."""
    if shutil.which("scancel"):
        subprocess.run(["scancel", "--me", f"--name={name}"], capture_output=True, check=False)  # noqa: S607


def end(cluster: str, *, grace: float = 1.0) -> int:
    """End every process of a cluster: ask, wait ``grace`` seconds, then kill. Returns how many there were."""
    ended = 0
    deadline = time.monotonic() + grace
    while processes := marks().get(cluster):
        ended = max(ended, len(processes))
        urgent = time.monotonic() >= deadline
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill() if urgent else process.terminate()
        psutil.wait_procs(processes, timeout=1.0 if urgent else grace)
    return ended
