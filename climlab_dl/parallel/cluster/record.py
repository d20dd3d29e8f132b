"""The record of each cluster of this user on this machine: who started it, and what trains there.

A cluster's folder is private (mode 0700) and holds its keys, its IPython profile, its log and ``cluster.json``. The
folder's path is the cluster's id and the mark of its processes.
"""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from climlab_dl.files import write_text
from climlab_dl.parallel.cluster.processes import KERNEL, alive, cancel, end, marks

_PREFIX = "climlab-dl-cluster-"


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is known of a cluster.

    Attributes
    ----------
    folder
        Its private folder.
    ranks
        How many it was started with.
    kernel, kernel_started
        Process that started it: number, and Unix seconds of that process's start.
    training
        Run folder that its ranks fill or have filled, or None.
    detached
        Whether that training may go on without the kernel.
    """

    folder: Path
    ranks: int
    kernel: int
    kernel_started: float
    training: Path | None
    detached: bool

    @property
    def has_kernel(self) -> bool:
        """Whether the process that started it still runs."""
        return alive(self.kernel, self.kernel_started)

    def state(self) -> str:
        """State of its training in words, or "idle"."""
        if self.training is None:
            return "idle"
        from climlab_dl.training.folder import RunFolder

        with contextlib.suppress(FileNotFoundError):
            return RunFolder(self.training).status()["state"]
        return "folder is gone"

    def is_orphan(self) -> bool:
        """Whether nobody is left whom it serves: no kernel, and no detached training that still runs."""
        return not (self.has_kernel or (self.detached and self.state() in ("starting", "running")))


def new_folder(*, shared: bool = False) -> Path:
    """Make a private folder for a cluster: a temporary one, or one in the home folder, which compute nodes see too."""
    if not shared:
        return Path(tempfile.mkdtemp(prefix=_PREFIX))
    _shared().mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_shared()))


def _shared() -> Path:
    """Where the folders of clusters lie whose engines run on other nodes."""
    return Path.home() / ".cache" / "climlab-dl"


def write(folder: Path, ranks: int, *, training: Path | None = None, detached: bool = False) -> None:
    """Record that this process has a cluster, and what trains there."""
    this = psutil.Process()
    facts: dict[str, Any] = {"ranks": ranks, "kernel": this.pid, "kernel_started": this.create_time()}
    facts |= {"training": str(training) if training else None, "detached": detached}
    write_text(folder / "cluster.json", json.dumps(facts))


def read(folder: Path) -> Record:
    """Read the record of a cluster.

    Raises
    ------
    FileNotFoundError
        If there is none.
    """
    facts = json.loads((folder / "cluster.json").read_text(encoding="utf-8"))
    training = Path(facts.pop("training")) if facts["training"] else facts.pop("training")
    return Record(folder=folder, training=training, **facts)


def records() -> Iterator[Record]:
    """Find this user's clusters on this machine, wherever the jobs that started them have their temporary files."""
    places = (Path(tempfile.gettempdir()), _shared())
    here = [str(folder) for place in places for folder in place.glob(f"{_PREFIX}*")]
    for folder in sorted({*here, *marks()}):
        with contextlib.suppress(FileNotFoundError):
            if Path(folder).stat().st_uid == os.getuid():
                yield read(Path(folder))


def end_orphans() -> list[str]:
    """End the clusters that serve nobody any more, and remove their folders; returns these."""
    known = {str(record.folder): record.is_orphan() for record in records()}
    # Processes whose folder is gone, as on a machine whose temporary files were swept.
    known |= {folder: _lost_kernel(left[0]) for folder, left in marks().items() if folder not in known}
    orphans = [folder for folder, orphan in known.items() if orphan]
    for folder in orphans:
        end_cluster(Path(folder))
    return orphans


def end_cluster(folder: Path) -> None:
    """End a cluster's processes, here and in its Slurm job if it has one, and remove its folder."""
    if folder.parent == _shared():
        cancel(folder.name)  # only a job of Slurm's is there; without one scancel would go looking for a controller
    end(str(folder))
    shutil.rmtree(folder, ignore_errors=True)


def _lost_kernel(process: psutil.Process) -> bool:
    """Whether the process that started a marked process is gone."""
    try:
        pid, started = process.environ()[KERNEL].split()
    except psutil.NoSuchProcess:
        return False
    return not alive(int(pid), float(started))
