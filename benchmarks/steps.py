"""Training steps of the published networks beside their references, and how near inference comes to the GEMM rate.

    OMP_NUM_THREADS=1 python benchmarks/steps.py --case cosmoflow --rounds 3
    OMP_NUM_THREADS=1 python benchmarks/steps.py --case deepcam --reference ~/hpc/deepcam/src/deepCam
    OMP_NUM_THREADS=1 python benchmarks/steps.py --case tiramisu --rows 96       # a toy

Reference and network take turns (A B A B ...), each in a process of its own with one thread: the reference as PyTorch
starts, ours with freed memory kept, as ranks and batch jobs do. CPU seconds are of the best and the median step; memory
is the process's peak beyond what it held with torch imported. Cases that end in "recompute" spare memory. The reference
of DeepCAM is MLPerf HPC's own network in PyTorch, from your clone of mlcommons/hpc; for the others, published in
TensorFlow, it is the same network as most would write it: features joined for every layer, each map in the default
format, nothing in place.
"""

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
from models import peak_kib, plain
from torch import nn

from climlab_dl.models import cosmoflow_network, tiramisu
from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.fold import fold
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.parallel.memory import give_back, keep_freed
from climlab_dl.performance import ceilings
from climlab_dl.performance.flops import count
from climlab_dl.performance.measure import Work

# Network, and its input's channels and dimensions.
CASES: dict[str, tuple[Callable[[], nn.Module], int, int]] = {
    "deepcam": (lambda: DeepLab.mlperf(padding="zeros").build(16, 3), 16, 2),
    "deepcam recompute": (lambda: replace(DeepLab.mlperf(padding="zeros"), recompute=True).build(16, 3), 16, 2),
    "deepcam periodic": (lambda: DeepLab.mlperf().build(16, 3), 16, 2),
    "kurth": (lambda: DeepLab.kurth(padding="zeros").build(16, 3), 16, 2),
    "tiramisu": (lambda: Tiramisu.kurth(padding="zeros").build(16, 3), 16, 2),
    "cosmoflow": (lambda: CosmoFlow.paper().build(1, 3), 1, 3),
    "cosmoflow recompute": (lambda: CosmoFlow(recompute=True).build(1, 3), 1, 3),
    "cosmoflow mlperf": (lambda: CosmoFlow.mlperf().build(4, 4), 4, 3),
    "cosmoflow mlperf recompute": (
        lambda: replace(CosmoFlow.mlperf(), recompute=True).build(4, 4),
        4,
        3,
    ),
}


def shape(case: str, rows: int) -> tuple[int, ...]:
    """Shape of the input: a map half again as wide as high, or the volume that the networks are described for."""
    _, channels, dimensions = CASES[case]
    return (1, channels, rows, rows * 3 // 2) if dimensions == 2 else (1, channels, 128, 128, 128)


class Side:
    """What one process holds: a network, its input and its memory at the start."""

    here: "Side"

    def __init__(self, case: str, rows: int, reference: Path | None, *, ours: bool, infer: bool) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        if ours:
            keep_freed()
        self.before = peak_kib()
        build = CASES[case][0]
        self.x, self.infer, self.sparing = torch.randn(shape(case, rows)), infer, ours and case.endswith("recompute")
        if ours:
            self.network = fold(build()) if infer else build()
        elif case.startswith("deepcam"):
            self.network = _published(reference)
        else:
            tiramisu.as_read = cosmoflow_network.as_read = lambda fields: fields
            cosmoflow_network.in_slabs = lambda stage, volumes: stage(volumes)
            self.network = plain(build())

    def step(self) -> float:
        """CPU seconds of one step."""
        start = time.process_time()
        if self.infer:
            with torch.inference_mode():
                self.network(self.x)
        else:
            self.network.zero_grad()
            if self.sparing:
                give_back()  # as trainings do
            self.network(self.x).square().mean().backward()
        return time.process_time() - start


def _published(folder: Path | None) -> nn.Module:
    if folder is None:
        raise SystemExit("deepcam has its reference in a clone of mlcommons/hpc: --reference CLONE/deepcam/src/deepCam")
    file = folder / "architecture" / "deeplab_xception.py"
    spec = importlib.util.spec_from_file_location("reference", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.DeepLabv3_plus(n_input=16, n_classes=3, os=16, pretrained=False, _print=False)


def begin(case: str, rows: int, reference: Path | None, ours: bool, infer: bool) -> None:
    Side.here = Side(case, rows, reference, ours=ours, infer=infer)


def step() -> tuple[float, float]:
    """CPU seconds of a step, and the peak so far in MiB."""
    return Side.here.step(), (peak_kib() - Side.here.before) / 1024


def bound(work: Callable[[torch.device], Work]) -> float:
    """GFLOP/s of what bounds a network, the best of three."""
    ready, taken = work(torch.device("cpu")), []
    for _ in range(3):
        start = time.process_time()
        ready.call()
        taken.append(time.process_time() - start)
    return ready.flops / min(taken) / 1e9


@contextmanager
def process(
    case: str, rows: int, reference: Path | None, ours: bool, infer: bool = False
) -> Iterator[ProcessPoolExecutor]:
    """Put one side into a process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as one:
        one.submit(begin, case, rows, reference, ours, infer).result()
        yield one


def compare(case: str, rows: int, reference: Path | None, rounds: int, apart: bool) -> str:
    """One row: reference and ours in turns."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    peaks = {False: 0.0, True: 0.0}
    with ExitStack() as both:
        sides = {} if apart else {o: both.enter_context(process(case, rows, reference, o)) for o in (False, True)}
        for ours in (False, True) * rounds:
            with process(case, rows, reference, ours) if apart else nullcontext(sides[ours]) as side:
                taken, peak = side.submit(step).result()
            seconds[ours].append(taken)
            peaks[ours] = max(peaks[ours], peak)
    flops = count(CASES[case][0](), shape(case, rows)).training
    best = {ours: min(all_) for ours, all_ in seconds.items()}
    medians = {ours: statistics.median(all_) for ours, all_ in seconds.items()}
    return (
        f"| {case} | {best[False]:.2f} ({medians[False]:.2f}) | {best[True]:.2f} ({medians[True]:.2f}) | "
        f"{best[True] / best[False]:.2f} ({medians[True] / medians[False]:.2f}) | {flops / best[True] / 1e9:.0f} | "
        f"{peaks[False]:.0f} | {peaks[True]:.0f} | {peaks[True] / peaks[False]:.2f} |"
    )


def infer(case: str, rows: int, rounds: int) -> str:
    """One row: inference in turns with matrix multiplication and convolution."""
    flops = count(CASES[case][0](), shape(case, rows)).forward
    bounds = (ceilings.gemm, partial(ceilings.convolution, channels_last=True))
    reached: list[list[float]] = [[], []]
    taken = []
    with process(case, rows, None, True, infer=True) as mine:
        for _ in range(rounds):
            for work, rates in zip(bounds, reached, strict=True):
                rates.append(mine.submit(bound, work).result())
            taken.append(mine.submit(step).result()[0])
    rate, (products, convolutions) = flops / min(taken) / 1e9, map(max, reached)
    return (
        f"| {case} | {min(taken):.2f} | {rate:.0f} | {products:.0f} | {rate / products:.2f} | "
        f"{convolutions:.0f} | {rate / convolutions:.2f} |"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--case", choices=list(CASES), action="append", help="only these (default all)")
    options.add_argument("--reference", type=Path, help="folder deepcam/src/deepCam of a clone of mlcommons/hpc")
    options.add_argument("--rounds", type=int, default=3, help="steps of each kind (default 3)")
    options.add_argument("--rows", type=int, default=768, help="of the maps (default 768)")
    options.add_argument("--infer", action="store_true", help="inference beside what bounds it instead")
    options.add_argument("--apart", action="store_true", help="a process for each step, if memory cannot hold both")
    asked = options.parse_args()
    if asked.infer:
        print(
            "| inference | CPU s | GFLOP/s | matrices | ratio | convolutions | ratio |\n|---|---|---|---|---|---|---|"
        )
    else:
        print("| training step | reference CPU s | ours | ratio | GFLOP/s | reference MiB | ours | ratio |")
        print("|---|---|---|---|---|---|---|---|")
    for case in asked.case or CASES:
        if asked.infer:
            row = infer(case, asked.rows, asked.rounds)
        else:
            row = compare(case, asked.rows, asked.reference, asked.rounds, asked.apart)
        print(row, flush=True)


if __name__ == "__main__":
    main()
