"""A cluster behind one cell: start ranks, train on them, watch from anywhere, leave nothing behind.

>>> engines = cluster.start(ranks=2)
>>> training = engines.train(run, "runs/deeplab")
>>> live.watch(training)
>>> engines.close()
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import builtins
    from collections.abc import Mapping, Sequence
    from typing import Any

    import pandas as pd

    from climlab_dl.parallel.cluster.engines import Engines
    from climlab_dl.parallel.cluster.slurm import Slurm
    from climlab_dl.parallel.cluster.sweeps import Sweep
    from climlab_dl.parallel.cluster.training import Training

__all__ = ["Slurm", "attach", "cleanup", "list", "start", "submit", "sweep"]


def start(
    ranks: int = 2,
    *,
    threads: int | None = None,
    timeout: float | None = None,
    hosts: "Sequence[str]" = (),
    slurm: "Slurm | None" = None,
) -> "Engines":
    """Start MPI ranks, on this machine, on several hosts or on a Slurm cluster, as engines for this notebook's work.

    On this machine ranks and controller listen on loopback only (the launcher of MPICH, ``mpiexec``, has a port of its
    own that it opens to all interfaces). From other hosts ranks connect over CurveZMQ, with keys in a private folder of
    the home directory, which they must share. Nothing of the user's own IPython profile is read.

    Parameters
    ----------
    ranks
        Number of MPI ranks.
    threads
        Threads of each rank's numerical libraries; by default the cores divided by the ranks.
    timeout
        Seconds until a start that is not ready is given up; by default two minutes, or a day in Slurm's queue.
    hosts
        Hosts that share the ranks evenly, such as ``("node1", "node2")``: reached by ssh without a password, with this
        environment and the home directory at the same paths. By default this machine has all ranks.
    slurm
        What to ask of Slurm, such as ``Slurm(nodes=8, ranks_per_node=4, time="01:00:00", account="m1234")``; its ranks
        then count.

    Returns
    -------
    Engines
        To be closed, or used as a context manager. When the kernel ends they end too.

    Raises
    ------
    FileNotFoundError, MemoryError, ValueError
        If something is missing; nothing has been started then.
    RuntimeError
        If the ranks do not come up; the message has their log, and none of them is left.
    """
    from climlab_dl.parallel.cluster.engines import Engines

    return Engines(ranks, threads=threads, timeout=timeout, hosts=hosts, slurm=slurm)


def attach(folder: str | Path) -> "Training":
    """Find a training again by its folder, from any kernel or machine that can read it.

    Raises
    ------
    FileNotFoundError
        If there is no run in that folder.
    ValueError
        If its description is damaged.
    """
    from climlab_dl.parallel.cluster.training import Training

    training = Training(folder)
    training.folder.described()
    return training


def list() -> "pd.DataFrame":  # noqa: A001
    """Show this user's clusters on this machine, a row each.

    Returns
    -------
    DataFrame
        By cluster (its private folder): ranks, processes that run, number of the kernel that started it and whether
        that still runs, folder and state of its training, whether that is detached, and whether :func:`cleanup` would
        end it.
    """
    import pandas as pd

    from climlab_dl.parallel.cluster.processes import marks
    from climlab_dl.parallel.cluster.record import records

    running = marks()
    rows = {
        str(record.folder): {
            "ranks": record.ranks,
            "processes": len(running.get(str(record.folder), ())),
            "kernel": record.kernel,
            "kernel_runs": record.has_kernel,
            "training": str(record.training or ""),
            "state": record.state(),
            "detached": record.detached,
            "orphan": record.is_orphan(),
        }
        for record in records()
    }
    columns = ["ranks", "processes", "kernel", "kernel_runs", "training", "state", "detached", "orphan"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("cluster")


def cleanup() -> "builtins.list[str]":
    """End clusters of this user on this machine that were left behind, and nothing else.

    Left behind is what has neither the kernel that started it nor a detached training that still runs.

    Returns
    -------
    list of str
        The clusters that were ended, by their folders.
    """
    from climlab_dl.parallel.cluster.record import end_orphans

    return end_orphans()


def sweep(runs: "Mapping[str, Any]", folder: str | Path, *, ranks: int = 2, at_once: int = 2) -> "Sweep":
    """Train several runs side by side on this machine, each on its share of the ranks; returns at once.

    >>> rates = {f"rate_{rate:g}": replace(run, optimizer=Adam(learning_rate=rate)) for rate in (1e-3, 3e-3, 1e-2)}
    >>> sweep = cluster.sweep(rates, "runs/rates", ranks=2, at_once=2)
    >>> live.watch(sweep)
    >>> sweep.stop("rate_0.01")

    Parameters
    ----------
    runs
        Runs by name.
    folder
        Gets a run folder for each name.
    ranks
        How many ranks there are for all of them.
    at_once
        How many runs train at a time, each on ``ranks // at_once`` ranks; the others wait for their turn, in order.

    Returns
    -------
    Sweep
        Shows itself as a table; to be closed, or used as a context manager.

    Raises
    ------
    ValueError
        If there is no run, or less than a rank for each of those that train at a time.
    FileNotFoundError, MemoryError, RuntimeError
        As for :func:`start`.
    """
    from climlab_dl.parallel.cluster.sweeps import Sweep

    return Sweep(runs, folder, ranks=ranks, at_once=at_once)


def submit(run: "Any", folder: str | Path, slurm: "Slurm") -> "Training":
    """Queue a Slurm batch job that trains a run (:func:`climlab_dl.parallel.cluster.slurm.submit`)."""
    from climlab_dl.parallel.cluster.slurm import submit

    return submit(run, folder, slurm)


def __getattr__(name: str) -> "Any":
    if name == "Slurm":
        from climlab_dl.parallel.cluster.slurm import Slurm

        return Slurm
    raise AttributeError(f"{__name__} has no {name!r}; it has {', '.join(__all__)}")
