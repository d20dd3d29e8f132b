"""Cost of driving a training from a notebook: the same run on engines that are watched, and under plain mpiexec.

    python benchmarks/overhead.py [--pairs 5]

writes benchmarks/overhead.md. The two take turns, so that what else the machine does falls on both alike.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import psutil

from climlab_dl import archive, cluster, live, runs, synthetic
from climlab_dl.parallel.cluster.engines import Engines
from climlab_dl.parallel.cluster.processes import mpiexec
from climlab_dl.training.folder import RunFolder

_FIRST, _LAST, _STEPS = 20, 180, 200


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Milliseconds a step: of rank 0's processor, and by the clock."""

    processor: float
    clock: float


def measure(folder: RunFolder) -> Cost:
    """Follow rank 0 of a training from step 20 to 180."""
    marks = []
    for step in (_FIRST, _LAST):
        while (status := reached(folder)) < step:
            time.sleep(0.02)
        used = psutil.Process(folder.status()["pid"]).cpu_times()
        marks.append((status, used.user + used.system, time.monotonic()))
    (step, processor, clock), (last, last_processor, last_clock) = marks
    return Cost(
        processor=1000 * (last_processor - processor) / (last - step), clock=1000 * (last_clock - clock) / (last - step)
    )


def reached(folder: RunFolder) -> int:
    """Step of the latest report."""
    return len(folder.progress()) if folder.run_json.exists() else 0


def on_engines(engines: Engines, run: runs.Run, path: Path) -> Cost:
    training = engines.train(run, path)
    # As in a notebook: somebody looks twice a second.
    looking = threading.Thread(target=live.watch, args=(training,))
    looking.start()
    cost = measure(training.folder)
    training.wait()
    looking.join()
    return cost


def under_mpiexec(run: runs.Run, path: Path) -> Cost:
    folder = RunFolder(path)
    folder.begin(run.to_json())
    command = [mpiexec(), "-n", "2", sys.executable, "-m", "climlab_dl.parallel.cluster.batch", str(path)]
    started = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    cost = measure(folder)
    started.wait()
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    pairs = parser.parse_args().pairs
    costs: dict[str, list[Cost]] = {"engines": [], "mpiexec": []}
    with tempfile.TemporaryDirectory() as scratch, cluster.start(ranks=2, threads=1) as engines:
        source = archive.save(synthetic.atmosphere(times=12, shape=(24, 48), seed=0), Path(scratch) / "atmosphere.nc")
        run = replace(
            runs.small_tiramisu(source), steps=_STEPS, report_every=1, evaluate_every=_STEPS, checkpoint_every=_STEPS
        )
        for pair in range(pairs):
            turns: list[tuple[str, Callable[[Path], Cost]]] = [
                ("engines", lambda path: on_engines(engines, run, path)),
                ("mpiexec", lambda path: under_mpiexec(run, path)),
            ]
            for name, turn in turns if pair % 2 == 0 else turns[::-1]:
                costs[name].append(turn(Path(scratch) / f"{name}{pair}"))
                print(name, costs[name][-1], flush=True)
    write(costs, Path(__file__).with_suffix(".md"))


def write(costs: dict[str, list[Cost]], path: Path) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
        cwd=path.parent,
    ).stdout.strip()
    machine = f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.0f}, {platform.system()}"
    lines = [
        "# Driving a training from a notebook",
        "",
        f"Made by `python benchmarks/overhead.py` on {datetime.now(UTC):%Y-%m-%d}, commit {commit}: {machine}, Python",
        f"{platform.python_version()}. The same run (small Tiramisu, 24 x 48, two ranks) by turns on engines",
        "that `live.watch` follows and under plain `mpiexec`; milliseconds a step between steps 20 and 180.",
        "",
        "| | engines, median | mpiexec, median | ratio of pairs, median (smallest to largest) |",
        "|---|---|---|---|",
    ]
    for measure_of, words in (("processor", "processor time of rank 0"), ("clock", "clock")):
        ours, plain = ([getattr(cost, measure_of) for cost in costs[name]] for name in ("engines", "mpiexec"))
        ratios = sorted(a / b for a, b in zip(ours, plain, strict=True))
        lines.append(
            f"| {words} | {statistics.median(ours):.1f} | {statistics.median(plain):.1f} | "
            f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) |"
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
