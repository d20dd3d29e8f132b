"""The guard of a cluster: a small process that ends the cluster when the one who started it is gone.

Its standard input is a pipe from the kernel. However the kernel ends (closed, crashed, killed), the pipe ends, and
then the guard ends the cluster's processes and removes its folder; if the record says that the training is detached,
not before that has ended.
"""

import contextlib
import signal
import sys
import time
from pathlib import Path

from climlab_dl.parallel.cluster import record
from climlab_dl.parallel.cluster.processes import marks


def outlast(training: Path, cluster: str) -> None:
    """Wait until a training has ended, or its ranks are gone."""
    from climlab_dl.training.folder import RunFolder

    folder = RunFolder(training)
    while (status := folder.status())["state"] in ("starting", "running"):
        if cluster not in marks():
            message = "the ranks died when no kernel was there to restart them"
            folder.write_status("failed", step=status["step"], steps=status["steps"], message=message)
        time.sleep(1.0)


def main() -> None:
    """Guard the cluster whose folder is the first argument."""
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    with contextlib.suppress(FileNotFoundError):
        found = record.read(folder)
        if found.detached and found.training:
            outlast(found.training, str(folder))
    record.end_cluster(folder)


if __name__ == "__main__":
    main()
