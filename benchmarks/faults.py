"""What happens to a training when something breaks: each fault for real, on two ranks of this machine.

    python benchmarks/faults.py [--cycles 20]

writes benchmarks/faults.md. A small Tiramisu trains on a seeded atmosphere and checkpoints every fifth step.
"""

import argparse
import contextlib
import os
import platform
import random
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from climlab_dl import archive, cluster, live, runs, synthetic
from climlab_dl.parallel.cluster.engines import Engines
from climlab_dl.parallel.cluster.processes import marks
from climlab_dl.parallel.cluster.training import Training


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of a fault."""

    fault: str
    happened: str
    noticed: float | None = None
    lost: str = "-"
    left: int = 0


@dataclass(frozen=True, kw_only=True)
class Stumbling:
    """A loss that fails on one rank, at its twelfth use; defined here, where no rank can import it."""

    def prepare(self, statistics: Any) -> Callable:
        """Give the loss."""
        from climlab_dl.parallel import ranks
        from climlab_dl.training.losses import WeightedCrossEntropy

        loss, uses = WeightedCrossEntropy().prepare(statistics), iter(range(12))

        def stumble(logits: Any, mask: Any) -> Any:
            if ranks.rank() == 1 and next(uses, None) is None:
                raise ZeroDivisionError("the loss of rank 1 stumbled")
            return loss(logits, mask)

        return stumble


def tiny_run(source: Path) -> runs.Run:
    return replace(
        runs.small_tiramisu(source), steps=100_000, report_every=1, evaluate_every=100_000, checkpoint_every=5
    )


def until(condition: Callable[[], Any], seconds: float = 300.0) -> float:
    """Wait for a condition; returns how long that took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"waited {seconds:.0f} s")
        time.sleep(0.01)
    return time.monotonic() - began


def under_way(training: Training, step: int) -> int:
    """Wait until a training has reached a step; returns the step that it is at then."""
    until(lambda: training.status()["step"] >= step and len(training.progress()) >= step)
    return int(training.progress()["step"].iloc[-1])


def passed(training: Training, engines: Engines, step: int) -> bool:
    """Whether the present ranks have trained past a step."""
    status = training.status()
    return status["pid"] == engines.reports[0].pid and status["step"] > step


def lost(training: Training, before: int) -> str:
    """Say which steps have to be done again after a fault that came after step ``before``."""
    latest = training.folder.latest()
    kept = int(latest.stem.removeprefix("step-")) if latest else 0
    return f"{max(0, before - kept)} steps since checkpoint {kept}"


@contextlib.contextmanager
def two_ranks() -> Iterator[tuple[Engines, dict[str, int]]]:
    """Give two ranks and, after the body, how many of their processes are left."""
    left: dict[str, int] = {}
    seen: set[str] = set()
    engines = cluster.start(ranks=2)
    seen.add(engines.id)
    try:
        yield engines, left
    finally:
        seen.add(engines.id)
        engines.close()
        left["processes"] = sum(len(marks().get(mark, ())) for mark in seen)


def kill_rank(run: runs.Run, folder: Path, rank: int) -> Row:
    with two_ranks() as (engines, left):
        training = engines.train(run, folder)
        before = under_way(training, 12)
        os.kill(engines.reports[rank].pid, signal.SIGKILL)
        noticed = until(lambda: training.restarts == 1)
        message = training.status()["message"]
        redone = lost(training, before)
        healed = noticed + until(lambda: passed(training, engines, before))
    happened = f"“{message}”; past the step of the kill again after {healed:.1f} s"
    return Row(fault=f"SIGKILL to rank {rank}", happened=happened, noticed=noticed, lost=redone, left=left["processes"])


def kill_controller(run: runs.Run, folder: Path) -> Row:
    with two_ranks() as (engines, left):
        training = engines.train(run, folder)
        before = under_way(training, 12)
        os.kill(engines.controller_pid, signal.SIGKILL)
        noticed = until(lambda: training.restarts == 1)
        redone = lost(training, before)
        healed = noticed + until(lambda: passed(training, engines, before))
    happened = f"ranks and controller started again; past the step of the kill again after {healed:.1f} s"
    return Row(
        fault="SIGKILL to the controller", happened=happened, noticed=noticed, lost=redone, left=left["processes"]
    )


def exception_on_one_rank(run: runs.Run, folder: Path) -> Row:
    with two_ranks() as (engines, left):
        training = engines.train(replace(run, loss=Stumbling()), folder)
        until(lambda: training.status()["step"] >= 12)
        began = time.monotonic()
        try:
            training.wait(60)
            happened = "nothing"
        except ZeroDivisionError as error:
            rank = next(note for note in error.__notes__ if "rank" in note).partition(":")[0]
            happened = f"wait() raised ZeroDivisionError, “{error}”, with the note “{rank}”; ranks usable afterwards"
            assert engines.map(abs, [-1]) == [1]
        noticed = time.monotonic() - began
        redone = lost(training, 12)
    return Row(fault="exception on one rank", happened=happened, noticed=noticed, lost=redone, left=left["processes"])


def interrupt_rank(run: runs.Run, folder: Path, times: int = 5) -> Row:
    draw, waits = random.Random(0), []  # noqa: S311
    with two_ranks() as (engines, left):
        training = engines.train(run, folder)
        for number in range(times):
            under_way(training, 3 + training.status()["step"])
            time.sleep(draw.random())
            os.kill(engines.reports[number % 2].pid, signal.SIGINT)
            waits.append(until(lambda: not training.active()))
            assert training.status()["state"] == "stopped", training
            assert lost(training, training.status()["step"]).startswith("0 ")
            training.resume()
        training.stop()
    happened = f"{times} times: both ranks stopped at the same step with a checkpoint, and resumed"
    return Row(
        fault="SIGINT to one rank at a random moment",
        happened=happened,
        noticed=max(waits),
        lost="0 steps",
        left=left["processes"],
    )


def interrupt_watching(run: runs.Run, folder: Path) -> Row:
    with two_ranks() as (engines, left):
        training = engines.train(run, folder)
        before = under_way(training, 3)
        sent: list[float] = []

        def interrupt() -> None:
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Timer(1.5, interrupt).start()
        with open(os.devnull, "w") as silent, contextlib.redirect_stdout(silent):
            live.watch(training)
        noticed = time.monotonic() - sent[0]
        under_way(training, before + 5)
        training.stop()
    happened = "live.watch returned, and the training went on"
    return Row(
        fault="interrupting the watching cell",
        happened=happened,
        noticed=noticed,
        lost="0 steps",
        left=left["processes"],
    )


def kill_kernel(source: Path, folder: Path, *, detach: bool) -> Row:
    script = f"""
        import sys, time
        from climlab_dl import cluster
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from faults import tiny_run
        engines = cluster.start(ranks=2)
        training = engines.train(tiny_run({str(source)!r}), {str(folder)!r}, detach={detach})
        print(engines.id, flush=True)
        time.sleep(600)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    kernel = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert kernel.stdout is not None
    mark = kernel.stdout.readline().strip()
    training = cluster.attach(folder)
    before = under_way(training, 12)
    kernel.kill()
    kernel.communicate()
    if not detach:
        noticed = until(lambda: mark not in marks() and mark not in cluster.list().index)
        happened = f"the guard ended the ranks; attach() says “{training.status()['state']}”"
        return Row(
            fault="SIGKILL to the kernel", happened=happened, noticed=noticed, lost=lost(training, before), left=0
        )
    under_way(training, before + 10)
    training.stop()
    noticed = until(lambda: mark not in marks())
    happened = f"trained on; stopped from another process by attach() at step {training.status()['step']}"
    return Row(
        fault="SIGKILL to the kernel, detach=True",
        happened=f"{happened}; its ranks were gone {noticed:.1f} s later",
        lost="0 steps",
        left=len(marks().get(mark, ())),
    )


def ports_taken(run: runs.Run, folder: Path) -> Row:
    listeners = []
    for port in range(32768, 60999, 2):
        listener = socket.socket()
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            listener.close()
            continue
        listeners.append(listener)
        if len(listeners) == 10_000:
            break
    try:
        with two_ranks() as (engines, left):
            training = engines.train(run, folder)
            under_way(training, 3)
            training.stop()
    finally:
        for listener in listeners:
            listener.close()
    happened = f"started and trained beside {len(listeners)} ports in use: every port is one that the system gave"
    return Row(fault="ports taken", happened=happened, lost="0 steps", left=left["processes"])


def disk_full(run: runs.Run, folder: Path) -> Row | None:
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)],  # noqa: S607
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        return None
    try:
        with two_ranks() as (engines, left):
            training = engines.train(run, folder / "run")
            began = time.monotonic()
            try:
                training.wait(60)
                happened = "nothing"
            except Exception as error:
                happened = f"wait() raised {type(error).__name__}: {str(error)[:120]} (seconds are from the start)"
            noticed = time.monotonic() - began
    finally:
        subprocess.run(["umount", str(folder)], check=True)  # noqa: S607
    return Row(fault="disk full", happened=happened, noticed=noticed, lost="what did not fit", left=left["processes"])


def cycles(count: int) -> Row:
    begun, ended = [], []
    handles = len(os.listdir("/proc/self/fd"))
    for _ in range(count):
        began = time.monotonic()
        engines = cluster.start(ranks=2)
        begun.append(time.monotonic() - began)
        assert engines.map(abs, [-1, -2]) == [1, 2]
        began = time.monotonic()
        engines.close()
        ended.append(time.monotonic() - began)
        assert engines.id not in marks()
    grown = len(os.listdir("/proc/self/fd")) - handles
    happened = (
        f"all worked; start {min(begun):.1f} to {max(begun):.1f} s, close {min(ended):.1f} to {max(ended):.1f} s; "
        f"{grown} more open files in the kernel"
    )
    return Row(fault=f"{count} start/stop cycles", happened=happened, left=0)


def write(rows: list[Row], path: Path) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
        cwd=path.parent,
    ).stdout.strip()
    machine = f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.0f}, {platform.system()}"
    lines = [
        "# Faults",
        "",
        f"Made by `python benchmarks/faults.py` on {datetime.now(UTC):%Y-%m-%d}, commit {commit}: {machine}, Python",
        f"{platform.python_version()}. Two ranks train a small Tiramisu that checkpoints every fifth step. Seconds are",
        "from the fault until the handle in the notebook knew of it; a busy machine makes them longer.",
        "",
        "| fault | what happened | seconds to notice | lost | processes left |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        noticed = "-" if row.noticed is None else f"{row.noticed:.2f}"
        lines.append(f"| {row.fault} | {row.happened} | {noticed} | {row.lost} | {row.left} |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=20)
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        source = archive.save(synthetic.atmosphere(times=12, shape=(24, 48), seed=0), folder / "atmosphere.nc")
        run = tiny_run(source)
        faults: list[Callable[[], Row | None]] = [
            lambda: kill_rank(run, folder / "rank1", 1),
            lambda: kill_rank(run, folder / "rank0", 0),
            lambda: kill_controller(run, folder / "controller"),
            lambda: exception_on_one_rank(run, folder / "exception"),
            lambda: interrupt_rank(run, folder / "interrupt"),
            lambda: interrupt_watching(run, folder / "watching"),
            lambda: kill_kernel(source, folder / "kernel", detach=False),
            lambda: kill_kernel(source, folder / "detached", detach=True),
            lambda: ports_taken(run, folder / "ports"),
            lambda: disk_full(run, folder / "full"),
            lambda: cycles(arguments.cycles),
        ]
        for fault in faults:
            if row := fault():
                rows.append(row)
                print(row, flush=True)
                write(rows, Path(__file__).with_name("faults.md"))


if __name__ == "__main__":
    main()
