"""Where and with what a training runs, for whoever finds its folder."""

import contextlib
import platform
import socket
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from climlab_dl.parallel import ranks
from climlab_dl.parallel.cores import cores


def environment(seed: int) -> dict[str, Any]:
    """Return versions, host, ranks, threads, device, the commit of this code and the seed."""
    here = ranks.world()
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    found = None
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        found = subprocess.run(git, capture_output=True, text=True, timeout=5, check=False)
    packages = ("climlab-dl", "torch", "numpy", "xarray", "mpi4py")
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
        "commit": found.stdout.strip() or None if found and found.returncode == 0 else None,
        "ranks": here.size,
        "nodes": here.nodes,
        "threads_per_rank": torch.get_num_threads(),
        "cores": cores(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "cpu",
        "seed": seed,
    }
