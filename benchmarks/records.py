"""The head of a record: which script made it, when, of which commit, and on what machine."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path


def made_by(script: str) -> str:
    """Say when and where a script of this folder has been run, in one sentence that goes on."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    ).stdout.strip()
    day, machine = f"{datetime.now(UTC):%Y-%m-%d}", f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.0f}"
    return (
        f"Made by `python benchmarks/{script}` on {day}, commit {commit}: {machine},\n"
        f"{platform.system()}, Python {platform.python_version()}."
    )
