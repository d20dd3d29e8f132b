"""What happens to a training when something breaks: each fault for real, on two ranks of this machine.

    python benchmarks/faults.py [--cycles 50]
    python benchmarks/faults.py --fault exception --out /tmp/faults.md

writes benchmarks/faults.md, or some of the faults elsewhere. A small Tiramisu trains on a seeded atmosphere and
checkpoints every fifth step.
"""

import argparse
import contextlib
import importlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from records import made_by
from trials import Row, Stumbling, Trial, tiny_run, under_way, until

from climlab_dl import archive, cluster, live, runs, synthetic
from climlab_dl.parallel.cluster.processes import marks

# The tests' two hosts of network namespaces.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "parallel"))


def killed(run: runs.Run, folder: Path, who: str, pid: Callable[[Trial], int]) -> Row:
    with Trial(run, folder) as trial:
        before = trial.under_way(12)
        os.kill(pid(trial), signal.SIGKILL)
        noticed = until(lambda: trial.training.restarts == 1)
        message = trial.training.status()["message"]
        lost = trial.lost(before)
        healed = noticed + trial.healed(before)
    happened = f"“{message}”; past the step of the kill again after {healed:.1f} s"
    return Row(fault=f"SIGKILL to {who}", happened=happened, noticed=noticed, lost=lost, left=trial.left)


def exception_on_one_rank(run: runs.Run, folder: Path) -> Row:
    with Trial(replace(run, loss=Stumbling()), folder) as trial:
        until(lambda: trial.training.status()["step"] >= 12)
        error, noticed = trial.failure()
        assert isinstance(error, ZeroDivisionError), error
        rank = next(note for note in error.__notes__ if "rank" in note).partition(":")[0]
        assert trial.engines.map(abs, [-1]) == [1]
        lost = trial.lost(12)
    happened = f"wait() raised ZeroDivisionError, “{error}”, with the note “{rank}”; ranks usable afterwards"
    return Row(fault="exception on one rank", happened=happened, noticed=noticed, lost=lost, left=trial.left)


def interrupted_rank(run: runs.Run, folder: Path, times: int = 5) -> Row:
    draw, waits = random.Random(0), []  # noqa: S311
    with Trial(run, folder) as trial:
        training = trial.training
        for number in range(times):
            trial.under_way(3 + training.status()["step"])
            time.sleep(draw.random())
            os.kill(trial.engines.reports[number % 2].pid, signal.SIGINT)
            waits.append(until(lambda: not training.active()))
            assert training.status()["state"] == "stopped", training
            assert trial.lost(training.status()["step"]).startswith("0 ")
            training.resume()
        training.stop()
    happened = f"{times} times: both ranks stopped at the same step with a checkpoint, and resumed"
    return Row(fault="SIGINT to one rank at a random moment", happened=happened, noticed=max(waits), left=trial.left)


def interrupted_watching(run: runs.Run, folder: Path) -> Row:
    with Trial(run, folder) as trial:
        before = trial.under_way(3)
        sent: list[float] = []

        def interrupt() -> None:
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Timer(1.5, interrupt).start()
        with open(os.devnull, "w") as silent, contextlib.redirect_stdout(silent):
            live.watch(trial.training)
        noticed = time.monotonic() - sent[0]
        trial.under_way(before + 5)
        trial.training.stop()
    happened = "live.watch returned, and the training went on"
    return Row(fault="interrupting the watching cell", happened=happened, noticed=noticed, left=trial.left)


def kernel_with(source: Path, folder: Path, *, detach: bool) -> tuple[subprocess.Popen[str], str, Any, int]:
    """Start a training from another process; returns that, its cluster, the training, and a step that it has taken."""
    script = f"""
        import signal, sys
        from climlab_dl import cluster
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell has started all this with &
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from trials import tiny_run
        with cluster.start(ranks=2) as engines:
            training = engines.train(tiny_run({str(source)!r}), {str(folder)!r}, detach={detach})
            print(engines.id, flush=True)
            training.wait()
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    kernel = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert kernel.stdout is not None
    mark = kernel.stdout.readline().strip()
    training = cluster.attach(folder)
    return kernel, mark, training, under_way(training, 12)


def ended_kernel(source: Path, folder: Path, number: signal.Signals) -> Row:
    kernel, mark, training, _ = kernel_with(source, folder, detach=False)
    kernel.send_signal(number)
    kernel.communicate()
    noticed = until(lambda: mark not in marks() and mark not in cluster.list().index)
    status, latest = training.status(), training.folder.latest()
    kept = int(latest.stem.removeprefix("step-")) if latest else 0
    happened = f"the ranks were gone; attach() says “{status['state']}: {status['message']}”"
    lost = f"{max(0, status['step'] - kept)} steps since checkpoint {kept}"
    return Row(fault=f"{number.name} to the kernel", happened=happened, noticed=noticed, lost=lost)


def detached_kernel(source: Path, folder: Path) -> Row:
    kernel, mark, training, before = kernel_with(source, folder, detach=True)
    kernel.kill()
    kernel.communicate()
    under_way(training, before + 10)
    step = training.stop().status()["step"]
    gone = until(lambda: mark not in marks())
    happened = (
        f"trained on; stopped from another process by attach() at step {step}; its ranks were gone {gone:.1f} s later"
    )
    return Row(fault="SIGKILL to the kernel, detach=True", happened=happened)


def network_cut(run: runs.Run, folder: Path) -> Row | None:
    hosts = importlib.import_module("hosts")
    if hosts.missing():
        return None
    folder.mkdir()
    with hosts.two_hosts(folder) as network:
        os.environ["HYDRA_LAUNCHER_EXEC"] = str(network.launcher)
        with Trial(run, folder / "run", hosts=network.hosts, threads=1) as trial:
            before = trial.under_way(12)
            network.cut(network.hosts[1])
            error, noticed = trial.failure()
            lost = trial.lost(before)
            network.mend(network.hosts[1])
            trial.training.resume()
            healed = trial.healed(before)
            trial.training.stop()
        del os.environ["HYDRA_LAUNCHER_EXEC"]
    lines = str(error).splitlines()
    words = " … ".join([f"{type(error).__name__}: {lines[0]}", *(line for line in lines if line.startswith("ssh"))])
    happened = f"wait() raised “{words}”; resume() was past that step {healed:.1f} s after the link was back"
    return Row(fault="network cut between two hosts", happened=happened, noticed=noticed, lost=lost, left=trial.left)


def ports_taken(run: runs.Run, folder: Path) -> Row:
    with contextlib.ExitStack() as stack:
        taken = 0
        for port in range(32768, 52768, 2):
            listener = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                listener.bind(("127.0.0.1", port))
                taken += 1
        with Trial(run, folder) as trial:
            trial.under_way(3)
            trial.training.stop()
    happened = f"started and trained beside {taken} ports in use: every port is one that the system gave"
    return Row(fault="ports taken", happened=happened, left=trial.left)


def disk_full(run: runs.Run, folder: Path) -> Row | None:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        return None
    try:
        with Trial(run, folder / "run") as trial:
            error, noticed = trial.failure()
    finally:
        subprocess.run(["umount", str(folder)], check=True)  # noqa: S607
    happened = f"wait() raised {type(error).__name__}: {str(error)[:160]} (seconds are from the start)"
    return Row(fault="disk full", happened=happened, noticed=noticed, lost="what did not fit", left=trial.left)


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
    return Row(fault=f"{count} start/stop cycles", happened=happened, lost="-")


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a fault is tried on."""

    run: runs.Run
    source: Path
    folder: Path
    cycles: int


FAULTS: dict[str, Callable[[Place], Row | None]] = {
    "rank 1": lambda at: killed(at.run, at.folder, "rank 1", lambda trial: trial.engines.reports[1].pid),
    "rank 0": lambda at: killed(at.run, at.folder, "rank 0", lambda trial: trial.engines.reports[0].pid),
    "controller": lambda at: killed(at.run, at.folder, "the controller", lambda trial: trial.engines.controller_pid),
    "exception": lambda at: exception_on_one_rank(at.run, at.folder),
    "interrupt": lambda at: interrupted_rank(at.run, at.folder),
    "watching": lambda at: interrupted_watching(at.run, at.folder),
    "kernel interrupted": lambda at: ended_kernel(at.source, at.folder, signal.SIGINT),
    "kernel killed": lambda at: ended_kernel(at.source, at.folder, signal.SIGKILL),
    "detached": lambda at: detached_kernel(at.source, at.folder),
    "network": lambda at: network_cut(at.run, at.folder),
    "ports": lambda at: ports_taken(at.run, at.folder),
    "disk": lambda at: disk_full(at.run, at.folder),
    "cycles": lambda at: cycles(at.cycles),
}


def write(rows: list[Row], path: Path) -> None:
    lines = [
        "# Faults",
        "",
        made_by("faults.py"),
        "Two ranks train a small Tiramisu that checkpoints every fifth step. Seconds are from the fault until the",
        "handle in the notebook knew of it; a busy machine makes them longer.",
        "",
        "| fault | what happened | seconds to notice | lost | processes left |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        noticed = "-" if row.noticed is None else f"{row.noticed:.2f}"
        lines.append(f"| {row.fault} | {row.happened} | {noticed} | {row.lost} | {row.left} |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell has started this with &
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--fault", choices=FAULTS, action="append", help="only these (default all)")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("faults.md"))
    asked = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        source = archive.save(synthetic.atmosphere(times=12, shape=(24, 48), seed=0), folder / "atmosphere.nc")
        for number, name in enumerate(asked.fault or FAULTS):
            place = Place(run=tiny_run(source), source=source, folder=folder / str(number), cycles=asked.cycles)
            if row := FAULTS[name](place):
                rows.append(row)
                print(row, flush=True)
                write(rows, asked.out)


if __name__ == "__main__":
    main()
