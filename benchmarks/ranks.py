"""Exchanges between ranks: weak scaling, all-reduce, two nodes of two ranks, and the scaling model beside them.

    python benchmarks/ranks.py [weak] [all_reduce] [nodes] [--rounds 7]

measures the cases that are named, or all, and writes benchmarks/ranks.json and benchmarks/ranks.md. What is compared
takes turns in the same processes. ``nodes`` makes two hosts of network namespaces, whose cables carry 300 Mbit/s
(``tc``'s token bucket), and needs root.
"""

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Any

from on_ranks import BUCKET, EXCHANGES, SMALL
from records import made_by

from climlab_dl.files import beside
from climlab_dl.parallel.cluster.processes import mpiexec
from climlab_dl.performance.collectives import Machine, Network
from climlab_dl.performance.scaling import Source, Technique, Workload, step

# The tests' two hosts of network namespaces.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "parallel"))
HERE = Path(__file__).parent
RATE = "300mbit"
CASES = ("weak", "all_reduce", "nodes")

WEAK = """## Weak scaling

{made}
MLPerf DeepCAM's DeepLabv3+, a snapshot of 16 x {lat} x {lon} a rank and step, one thread a rank;
{rounds} rounds in turn.

| | step, s, median | least | processor |
|---|---|---|---|
{rows}
Efficiency **{efficiency:.3f}**, of the least times {least:.3f}, of processor times {processor:.3f}; goal 0.92:
{verdict}. Ranks that do not exchange keep {apart:.3f} ({apart_processor:.3f}): what they lose is to other work on the
machine, and to caches and memory that both share. Two ranks keep {kept:.3f} ({kept_processor:.3f}) of two that do not
exchange.
"""
ALL_REDUCE = """## All-reduce of {megabytes:.0f} MB on two ranks of one host

{made}
The gradients of MLPerf DeepCAM's DeepLabv3+, as its backward pass leaves them; {rounds} rounds in turn.

| | s, median | least | processor |
|---|---|---|---|
{rows}
Trainings average them in **{ratio:.2f}** of the time in which mpi4py adds up one buffer in torch's memory
({processor:.2f} of its processor time; in huge pages, which torch's memory has not, {huge:.2f} and
{huge_processor:.2f}), and in {fair:.2f} of the time in which it averages them. Goal, at most 1 of the first: {verdict}.
gloo over loopback takes {plain:.2f} of it, and {latency:.0f} us for {small} bytes.
"""
NODES = """## Two nodes of two ranks, {rate} between them

{made}
Network namespaces, whose cables `tc`'s token bucket narrows. Latency is not added: this kernel has no netem.

| all-reduce, median of {rounds} | {small} bytes, us | {megabytes:.0f} MB, s |
|---|---|---|
{pairs}
Training steps of {millions:.1f} million weights in dense layers, which travel layer by layer; without exchange they
take {apart:.3f} s. Efficiency is that over the step. The model knows the two pairs of ranks above, and nothing else.

| exchange | step, s | of flat | efficiency | modelled |
|---|---|---|---|---|
{rows}
"""

TOGETHER = """## The model beside two ranks

Calibrated by the all-reduce above, the scaling model says that ranks which exchange keep {modelled:.3f} of what they do
without; measured, {measured:.3f}.
"""


def run(cases: Sequence[str], ranks: int, options: Sequence[str], *launch: str) -> dict[str, Any]:
    """Have ranks measure cases; the options are those of on_ranks.py."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        command = [mpiexec(), *launch, "-n", str(ranks), sys.executable, str(HERE / "on_ranks.py"), str(out), *cases]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([*command, *options], check=True, env=environment, timeout=1200)
        return json.loads(out.read_text())


def on_two_hosts(options: Sequence[str]) -> dict[str, Any]:
    """Measure two ranks on each of two hosts whose cables are narrow."""
    hosts = importlib.import_module("hosts")
    if reason := hosts.missing():
        sys.exit(f"ranks.py nodes: {reason}")
    with tempfile.TemporaryDirectory() as folder, hosts.two_hosts(Path(folder)) as network:
        shape = f"tc qdisc add dev eth0 root tbf rate {RATE} burst 1mb latency 50ms".split()
        for host in network.hosts:
            subprocess.run([shutil.which("ip") or "ip", "netns", "exec", host, *shape], check=True)
        os.environ["HYDRA_LAUNCHER_EXEC"] = str(network.launcher)
        found = run(["nodes"], 4, options, "-hosts", ",".join(network.hosts), "-ppn", "2")
        return {"nodes": found["nodes"] | {"rate": RATE}}


def network_of(small: float, large: float, size: float) -> Network:
    """Find latency and bandwidth from the all-reduce of two ranks: two messages, each of half the buffer."""
    return Network(latency=small / 2, bandwidth=size / max(large - small, 1e-9))


def modelled(found: dict[str, Any]) -> dict[str, float]:
    """Efficiencies of the trainings on two nodes by the scaling model."""
    seconds = {name: each["seconds"] for name, each in found["messages"].items()}
    within, across = (
        network_of(seconds[f"{pair} small"], seconds[f"{pair} large"], found["bytes"]) for pair in ("within", "across")
    )
    machine = Machine(name="here", across=across, within=within, ranks_per_node=2)
    apart = found["arms"]["apart"]["seconds"] / found["steps"]
    workload = Workload(name="dense", seconds=apart, gradient_bytes=found["bytes"])
    answers = {}
    for name, exchange in EXCHANGES.items():
        technique = Technique(
            route="ring" if exchange.route == "flat" else "hierarchical", lag=exchange.lag,
            compression=1.0 if exchange.compression == "none" else 0.5, bucket_bytes=BUCKET * 2**20,
        )  # fmt: skip
        answers[name] = step(machine, workload, technique, Source(), found["ranks"]).efficiency
    return answers


def told_weak(found: dict[str, Any]) -> str:
    arms = found["arms"]
    one, both, apart = (arms[arm] for arm in ("one rank", "all ranks", "all ranks apart"))
    efficiency = one["seconds"] / both["seconds"]
    names = {
        "one rank": "one rank, the other waits", "all ranks": "two ranks", "all ranks apart": "two without exchange"
    }  # fmt: skip
    return WEAK.format(
        **found, rows=_rows((words, *arms[arm].values()) for arm, words in names.items()), efficiency=efficiency,
        least=one["least"] / both["least"], processor=one["processor"] / both["processor"],
        apart=one["seconds"] / apart["seconds"], apart_processor=one["processor"] / apart["processor"],
        kept=apart["seconds"] / both["seconds"], kept_processor=apart["processor"] / both["processor"],
        verdict="met" if efficiency >= 0.92 else "not met",
    )  # fmt: skip


def told_all_reduce(found: dict[str, Any]) -> str:
    arms = found["arms"]
    names = {
        "exchange": "averaged and looked through for NaN in shared memory, as trainings do on one host",
        "mpi4py averaged": "the same by mpi4py `Allreduce`, gradient by gradient",
        "mpi4py": "the sum alone of one buffer by mpi4py `Allreduce`, mpich",
        "mpi4py, huge pages": "the same in NumPy's huge pages",
        "all_reduce": "the sum alone by gloo over loopback",
    }  # fmt: skip
    ours, mpi, huge = arms["exchange"], arms["mpi4py"], arms["mpi4py, huge pages"]
    ratio = ours["seconds"] / mpi["seconds"]
    return ALL_REDUCE.format(
        **found, rows=_rows((words, *arms[arm].values()) for arm, words in names.items()), ratio=ratio,
        processor=ours["processor"] / mpi["processor"], huge=ours["seconds"] / huge["seconds"],
        huge_processor=ours["processor"] / huge["processor"], fair=ours["seconds"] / arms["mpi4py averaged"]["seconds"],
        plain=arms["all_reduce"]["seconds"] / mpi["seconds"],
        verdict="met" if ratio <= 1 else "not met", megabytes=found["bytes"] / 1e6, small=SMALL,
        latency=1e6 * arms["small"]["seconds"],
    )  # fmt: skip


def told_nodes(found: dict[str, Any]) -> str:
    messages, arms, model = found["messages"], found["arms"], modelled(found)
    apart, flat = (arms[arm]["seconds"] / found["steps"] for arm in ("apart", "flat"))
    pairs = {"within": "two ranks of a node", "across": "one rank of each node", "flat": "all four"}
    times = {name: arms[name]["seconds"] / found["steps"] for name in EXCHANGES}
    return NODES.format(
        **found, small=SMALL, megabytes=found["bytes"] / 1e6, millions=found["bytes"] / 4e6, apart=apart,
        pairs=_rows(
            (words, f"{1e6 * messages[f'{pair} small']['seconds']:.0f}", messages[f"{pair} large"]["seconds"])
            for pair, words in pairs.items()
        ),
        rows=_rows((name, time, time / flat, apart / time, model[name]) for name, time in times.items()),
    )  # fmt: skip


def told_together(found: dict[str, Any]) -> str:
    """Put what the model makes of two ranks' exchange beside what their training did."""
    exchange, training = found["all_reduce"], found["weak"]["arms"]
    apart, both = (training[arm]["seconds"] for arm in ("all ranks apart", "all ranks"))
    network = network_of(
        exchange["arms"]["small"]["seconds"], exchange["arms"]["exchange"]["seconds"], exchange["bytes"]
    )
    machine = Machine(name="here", across=network, within=network, ranks_per_node=2)
    workload = Workload(name="DeepLabv3+", seconds=apart, gradient_bytes=exchange["bytes"])
    # The ranks' own cores add up, once the backward pass has ended.
    model = step(machine, workload, Technique(route="ring", bucket_bytes=inf), Source(), 2).efficiency
    return TOGETHER.format(measured=apart / both, modelled=model)


def _rows(rows: Iterable[Sequence[Any]]) -> str:
    written = ([f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in written)


TOLD = {"weak": told_weak, "all_reduce": told_all_reduce, "nodes": told_nodes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[*CASES, []])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--toy", action="store_true", help="small networks and gradients")
    parser.add_argument("--folder", type=Path, default=HERE, help="where to write")
    asked = parser.parse_args()
    options = ["--rounds", str(asked.rounds), *["--toy"] * asked.toy]
    record, cases = asked.folder / "ranks.json", asked.cases or CASES
    found = json.loads(record.read_text()) if record.exists() else {}
    made, measured = made_by(f"ranks.py {' '.join(cases)}"), {}
    if here := [case for case in cases if case != "nodes"]:
        measured |= run(here, 2, options)
    if "nodes" in cases:
        measured |= on_two_hosts(options)
    for case, facts in measured.items():
        found[case] = facts | {"made": made}
        print(TOLD[case](found[case]), flush=True)
    with beside(record) as new:
        new.write_text(json.dumps(found, indent=1) + "\n")
    told = "\n".join(TOLD[case](found[case]) for case in CASES if case in found)
    if {"weak", "all_reduce"} <= found.keys():
        told += f"\n{told_together(found)}"
    with beside(asked.folder / "ranks.md") as new:
        new.write_text(f"# Ranks\n\n{told}", encoding="utf-8")


if __name__ == "__main__":
    main()
