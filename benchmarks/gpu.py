"""Training, input and detection on one GPU, in one call of less than ten minutes.

    python benchmarks/gpu.py                              # everything, for the minutes that there are
    python benchmarks/gpu.py --network tiramisu --minutes 4
    OMP_NUM_THREADS=2 python benchmarks/gpu.py --toy      # on the CPU, for a look at the script

Each network trains in float32, TF32, bf16 and fp16, with channels apart and together; then the input pipeline feeds
them, snapshots are detected, and updates are held in CUDA graphs, compiled, and both. After each row the record (JSON,
for `climlab-dl bench compare`) and its table are written anew: who kills the run keeps what it has. Arithmetic is
counted as the papers count it, and the matrix rate that it is a share of is that of the same precision, in turn with
it.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from climlab_dl.parallel import ranks
from climlab_dl.performance import archives, ceilings
from climlab_dl.performance.cases import CASES, Size
from climlab_dl.performance.flops import count
from climlab_dl.performance.measure import Measurement, Work, measure, peak_memory
from climlab_dl.performance.records import Record, begin, markdown
from climlab_dl.performance.steps import PUBLISHED, Published, updates
from climlab_dl.training.batches import Order, training_batches
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.precision import Precision

RESULTS = Path(__file__).with_name("results")
PRECISIONS = ("bf16", "fp16", "tf32", "fp32")
EXECUTIONS = ("eager", "graphs", "compiled", "compiled_graphs")
BATCH = {"deeplab": 2, "deepcam": 4, "tiramisu": 2, "cosmoflow": 8, "cosmoflow_mlperf": 8}
# What is aimed at on an H200: of the matrix rate in bf16, or samples a second.
GOALS = {
    "deeplab": "40% of bf16",
    "tiramisu": "25% of bf16",
    "deepcam": "60 samples/s",
    "cosmoflow_mlperf": "300 samples/s",
}
ROUNDS = 5
FED = 16  # samples in a turn, several times what is read ahead meanwhile


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to train a network."""

    network: str
    precision: str
    together: bool
    execution: str

    def __str__(self) -> str:
        return f"{self.network} {self.precision} {'channels_last' if self.together else 'contiguous'} {self.execution}"


class Runner:
    """Measures one thing after the other and writes what is known after each."""

    def __init__(self, out: Path, minutes: float, *, toy: bool) -> None:
        self.device, self.toy, self.out = ranks.device(), toy, out
        self.until = time.monotonic() + 60 * minutes
        self.record, self.failed = begin("python benchmarks/gpu.py", torch.get_num_threads()), dict[str, str]()

    def row(self, name: str, make: Callable[[], Measurement]) -> None:
        """Measure, or note why not; nothing more is begun when the minutes are over."""
        if time.monotonic() > self.until:
            self.failed[name] = "not begun: the minutes were over"
        else:
            self.attempt(name, make)
        self.record.save(self.out)
        (self.out / f"{self.record.name}.md").write_text(page(self.record, self.failed), encoding="utf-8")

    def attempt(self, name: str, make: Callable[[], Measurement]) -> None:
        """Measure; what a variant fails by is its own affair."""
        try:
            found = make()
            self.record = replace(self.record, measurements=(*self.record.measurements, found))
            print(f"{found}, {1 / found.wall:.3g} samples/s", flush=True)
        except Exception as error:
            self.failed[name] = next(iter(str(error).splitlines()), type(error).__name__)
            print(f"{name}: {self.failed[name]}", flush=True)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def train(self, variant: Variant) -> Measurement:
        """Measure updates of one network in one way; its memory is all that the training holds."""
        published, precision = self.published(variant.network), chosen(variant.precision)
        with peak_memory() as peak:
            network, values, target = self.built(published, variant)
            model: Any = network
            if variant.execution.startswith("compiled"):
                torch.compiler.reset()  # else the ninth network of a class would run as it is, and nobody be told
                model = torch.compile(network)
            on_gpu = self.device.type == "cuda"
            update = updates(model, published.cost(self.device), precision=precision, capturable=on_gpu)
            once: Callable[[], object] = partial(update, values, target)
            once = graphed(once) if variant.execution.endswith("graphs") else once
            once()
        flops = count(network, (1, *values.shape[1:]), convention=published.convention).training
        work = Work(call=once, samples=len(values), flops=flops, clock="wall")
        notes = {"input": list(values.shape), "flops": flops}
        matrices = {"matrices": self.matrices(precision)}
        found = measure(str(variant), work, rounds=ROUNDS, ceilings=matrices, notes=notes)
        return replace(found, peak_bytes=peak.bytes)

    def feed(self, name: str, precision: str) -> Measurement:
        """Compare updates on batches from files on the node's disk with updates on one batch that is there."""
        published = self.published(name)
        variant = Variant(network=name, precision=precision, together=True, execution="eager")
        network, values, target = self.built(published, variant)
        update = updates(network, published.cost(self.device), precision=chosen(precision))
        with tempfile.TemporaryDirectory() as folder:
            file, *_ = archives.snapshots(Path(folder) / "archive", published.extent, "deepcam")  # pyright: ignore
            data = ClimateArchive(
                source=str(file.parent), held_out=0.5, memory_gigabytes=0, stage_to=f"{folder}/node", stage_as="float16"
            ).prepare(0)
            order = Order(len(data.training), 1, accumulate=1, seed=0, epoch=1, offset=0)
            samples = 2 if self.toy else FED
            size = float(file.stat().st_size)
            with closing(training_batches(data, order, self.device)) as given:

                def fed() -> None:
                    for _ in range(samples):
                        sample, mask, _ = next(given)
                        update(sample.contiguous(memory_format=torch.channels_last), mask)

                def held() -> None:
                    for _ in range(samples):
                        update(values[:1], target[:1])

                return measure(
                    f"{name} {precision} fed from files",
                    Work(call=fed, samples=samples, bytes=size, clock="wall"), rounds=ROUNDS,
                    ceilings={"one batch in memory": Work(call=held, samples=samples, bytes=size, clock="wall")},
                )  # fmt: skip

    def case(self, name: str) -> Measurement:
        """Measure a case of `climlab-dl bench` on this device."""
        size: Size = "toy" if self.toy else "full"
        with tempfile.TemporaryDirectory() as folder:
            case = CASES[name](size, Path(folder))
            return measure(name, case.work, rounds=ROUNDS, ceilings=case.ceilings, notes=case.notes)

    def published(self, name: str) -> Published:
        """Describe a network; as a toy its small sibling, which sees small maps and volumes."""
        published = PUBLISHED[name]
        if not self.toy:
            return published
        extent = (32, 48) if len(published.extent) == 2 else (16, 16, 16)
        return replace(published, description=type(published.description).small(), extent=extent)

    def built(self, published: Published, variant: Variant) -> tuple[nn.Module, Tensor, Tensor]:
        """Build a network and its batch on the device, with channels apart or together."""
        torch.manual_seed(0)
        values, target = published.batch(1 if self.toy else BATCH[variant.network], self.device)
        layout = torch.contiguous_format
        if variant.together:
            layout = torch.channels_last if values.ndim == 4 else torch.channels_last_3d
        network = published.description.build(published.channels, published.outputs)
        return network.to(self.device, memory_format=layout), values.contiguous(memory_format=layout), target

    def matrices(self, precision: Precision) -> Work:
        """Give the product of matrices in a network's precision; TF32 is a switch that its autocast sets."""
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        work = ceilings.gemm(self.device, size=64 if self.toy else 8192, dtype=kinds.get(precision.kind, torch.float32))
        return replace(work, clock="wall")


def chosen(kind: str) -> Precision:
    return Precision(kind=kind, on_cpu=True, initial_scale=1024.0)  # pyright: ignore[reportArgumentType]


def graphed(call: Callable[[], object]) -> Callable[[], object]:
    """Hold an update in a CUDA graph, so that its thousand kernels start by one call."""
    if not torch.cuda.is_available():
        raise RuntimeError("CUDA graphs need a GPU")
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def page(record: Record, failed: dict[str, str]) -> str:
    """Write the record in Markdown: all rows, the best of each network beside its goal, and what failed."""
    table = record.table()
    table.insert(0, "samples/s", [1 / each.wall for each in record.measurements])
    lines = [
        f"# {record.machine}",
        "",
        f"`{record.command}`, {record.date} UTC, commit {record.commit}.",
        "",
        markdown(table),
    ]
    lines += ["", "| network | goal on an H200 | best here |", "|---|---|---|"]
    for name, goal in GOALS.items():
        mine = [each for each in record.measurements if each.case.split()[0] == name and "matrices" in each.of_ceilings]
        if "of bf16" in goal:
            shares = {each.case: each.of_ceilings["matrices"].median for each in mine if " bf16 " in each.case}
            best = max(shares, key=shares.__getitem__, default="")
            told = f"{shares[best]:.0%}: {best}" if best else "not measured"
        else:
            best = min(mine, key=lambda each: each.wall, default=None)
            told = f"{1 / best.wall:.3g} samples/s: {best.case}" if best else "not measured"
        lines.append(f"| {name} | {goal} | {told} |")
    lines += ["", *(f"- {name}: {why}" for name, why in failed.items())]
    return "\n".join(lines).rstrip() + "\n"


def variants(networks: list[str], executions: list[str]) -> Iterator[Variant]:
    """Order the ways to train: what matters most comes first, in all executions and for all networks."""
    for precision, together, execution, network in itertools.product(PRECISIONS, (True, False), executions, networks):
        yield Variant(network=network, precision=precision, together=together, execution=execution)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--network", choices=list(PUBLISHED), action="append", help="only these (default all)")
    options.add_argument("--execution", choices=EXECUTIONS, action="append", help="only these (default all)")
    options.add_argument("--minutes", type=float, default=7.0, help="begin nothing after so many (default 7)")
    options.add_argument("--toy", action="store_true", help="small networks, maps and volumes, batches of one")
    options.add_argument("--out", type=Path, default=RESULTS, help="folder (default benchmarks/results)")
    asked = options.parse_args()
    if not (asked.toy or torch.cuda.is_available()):
        raise SystemExit("there is no GPU here; --toy tries the script on the CPU")
    torch.backends.cudnn.benchmark = True
    networks, executions = asked.network or list(PUBLISHED), asked.execution or list(EXECUTIONS)
    with ranks.joined():
        runner = Runner(asked.out, asked.minutes, toy=asked.toy)
        plain = [each for each in executions if each == "eager"]
        for variant in variants(networks, plain):
            runner.row(str(variant), partial(runner.train, variant))
        for name in networks:
            if len(PUBLISHED[name].extent) == 2:
                runner.row(f"{name} fed", partial(runner.feed, name, "bf16"))
        runner.row("detect deepcam", partial(runner.case, "detect deepcam"))
        for variant in variants(networks, [each for each in executions if each not in plain]):
            runner.row(str(variant), partial(runner.train, variant))
    print(runner.out / f"{runner.record.name}.md")


if __name__ == "__main__":
    main()
