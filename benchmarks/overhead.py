"""Cost of driving a training from a notebook: the same run on engines that are watched, and under plain mpiexec.

    python benchmarks/overhead.py [--pairs 5] [--out overhead.md]

writes benchmarks/overhead.md. The two take turns, so that what else the machine does falls on both alike.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from records import made_by

from climlab_dl import archive, cluster, live, runs, synthetic
from climlab_dl.parallel.cluster.engines import Engines
from climlab_dl.parallel.cluster.processes import mpiexec
from climlab_dl.training.folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Size:
    """Snapshots of a size, and the steps between which is measured."""

    shape: tuple[int, int]
    first: int
    last: int


# Steps of about 25 ms and of half a second of a core.
SIZES = (Size(shape=(24, 48), first=20, last=180), Size(shape=(160, 320), first=3, last=15))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Milliseconds a step: of rank 0's processor, by the clock, and of the processor of this process."""

    processor: float
    clock: float
    kernel: float


def measure(folder: RunFolder, size: Size) -> Cost:
    """Follow rank 0 of a training."""
    marks = []
    for step in (size.first, size.last):
        while not folder.run_json.exists() or folder.status()["step"] < step:
            time.sleep(0.05)
        status = folder.status()
        used = psutil.Process(status["pid"]).cpu_times()
        marks.append((status["step"], used.user + used.system, time.monotonic(), time.process_time()))
    steps, *costs = (after - before for before, after in zip(*marks, strict=True))
    processor, clock, kernel = (1000 * cost / steps for cost in costs)
    return Cost(processor=processor, clock=clock, kernel=kernel)


def on_engines(engines: Engines, run: runs.Run, path: Path, size: Size) -> Cost:
    training = engines.train(run, path)
    # As in a notebook: somebody looks twice a second.
    looking = threading.Thread(target=live.watch, args=(training,))
    looking.start()
    cost = measure(training.folder, size)
    training.wait()
    looking.join()
    return cost


def under_mpiexec(run: runs.Run, path: Path, size: Size) -> Cost:
    folder = RunFolder(path)
    folder.begin(run.to_json())
    command = [mpiexec(), "-n", "2", sys.executable, "-m", "climlab_dl.parallel.cluster.batch", str(path)]
    started = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})
    cost = measure(folder, size)
    started.wait()
    return cost


def compare(engines: Engines, size: Size, pairs: int, scratch: Path) -> str:
    """Take turns; returns the rows of the table."""
    name = " x ".join(str(number) for number in size.shape)
    source = archive.save(synthetic.atmosphere(times=12, shape=size.shape, seed=0), scratch / f"{name}.nc")
    steps = size.last + 1
    run = replace(
        runs.small_tiramisu(source), steps=steps, report_every=1, evaluate_every=100 * steps, checkpoint_every=steps
    )
    costs: dict[str, list[Cost]] = {"engines": [], "mpiexec": []}
    for pair in range(pairs):
        turns: list[tuple[str, Callable[[Path], Cost]]] = [
            ("engines", lambda path: on_engines(engines, run, path, size)),
            ("mpiexec", lambda path: under_mpiexec(run, path, size)),
        ]
        for who, turn in turns if pair % 2 == 0 else turns[::-1]:
            costs[who].append(turn(scratch / f"{name} {who} {pair}"))
            print(name, who, costs[who][-1], flush=True)
    rows = ""
    for measure_of, words in (("processor", "processor of rank 0"), ("clock", "clock")):
        ours, plain = ([getattr(cost, measure_of) for cost in costs[who]] for who in ("engines", "mpiexec"))
        ratios = sorted(a / b for a, b in zip(ours, plain, strict=True))
        rows += (
            f"| {name} | {words} | {statistics.median(ours):.1f} | {statistics.median(plain):.1f} | "
            f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) | {min(ours) / min(plain):.3f} |\n"
        )
    kernel = statistics.median(cost.kernel for cost in costs["engines"])
    return rows + f"| {name} | processor of the watching process | {kernel:.1f} | - | - | - |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    asked = parser.parse_args()
    pairs = asked.pairs
    with tempfile.TemporaryDirectory() as scratch, cluster.start(ranks=2, threads=1) as engines:
        rows = "".join(compare(engines, size, pairs, Path(scratch)) for size in SIZES)
    asked.out.write_text(
        f"# Driving a training from a notebook\n\n{made_by('overhead.py')}\n"
        f"The same run (small Tiramisu, two ranks) {pairs} times by turns on engines that `live.watch` follows in a\n"
        "terminal, and under plain `mpiexec`; milliseconds a step. On a busy machine only processor time tells.\n\n"
        "| grid | | engines, median | mpiexec, median | ratio of pairs, median (smallest to largest) | of smallest |\n"
        f"|---|---|---|---|---|---|\n{rows}",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
