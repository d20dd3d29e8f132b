"""Cores that this process may use."""

import os


def cores() -> int:
    """Count the cores that this process may use, as a batch system leaves it; all of them where that is not told."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
