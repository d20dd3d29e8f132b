"""Time and memory of the networks' training steps and inference, each beside a plain way to do the same.

    python benchmarks/models.py                     # all cases, 192 x 288
    python benchmarks/models.py --lat 96 --lon 144 --case tiramisu

Cases of a pair run in turn (A B A B ...) in one process and count its CPU seconds, so that other work on the machine
troubles both alike; peak memory is that of a process of its own, less what it held before the step.
"""

import argparse
import statistics
import time
import types
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import torch
import torch._dynamo  # so that its import counts in no case
from torch import Tensor, nn
from torch.nn import functional as F

from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.dense import DroppedRelu, JoinedConv2d
from climlab_dl.models.fold import fold
from climlab_dl.models.layers import Conv2d, Upsample2d, wrap
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.performance.flops import count

Call = Callable[[Tensor], None]


def plain(network: nn.Module) -> nn.Module:
    """Make a network join its features before every layer, convolve and activate as most do."""
    for module in network.modules():
        if isinstance(module, JoinedConv2d):
            module.forward = types.MethodType(lambda self, *f: _convolve(self, torch.cat(f, 1)), module)
        elif isinstance(module, Conv2d):
            module.forward = types.MethodType(_convolve, module)
        elif isinstance(module, Upsample2d) and not module.periodic:
            module.forward = types.MethodType(nn.ConvTranspose2d.forward, module)
        elif isinstance(module, DroppedRelu):
            module.forward = types.MethodType(lambda self, x: F.dropout(F.relu(x), self.dropout, self.training), module)
        elif isinstance(module, nn.ReLU | nn.LeakyReLU):
            module.inplace = False
    return network


def _convolve(layer: Conv2d, fields: Tensor) -> Tensor:
    return nn.Conv2d.forward(layer, wrap(fields, layer.seam, layer.seam) if layer.seam else fields)


def train(network: nn.Module) -> Call:
    def step(x: Tensor) -> None:
        network.zero_grad()
        network(x).square().mean().backward()

    return step


def infer(network: nn.Module, *, last: bool = False) -> Call:
    layout = torch.channels_last if last else torch.contiguous_format
    network = network.eval().to(memory_format=layout)  # pyright: ignore[reportCallIssue]

    def step(x: Tensor) -> None:
        with torch.inference_mode():
            network(x.contiguous(memory_format=layout))

    return step


CASES: dict[str, dict[str, Callable[[], tuple[nn.Module, Callable[[nn.Module], Call]]]]] = {
    "tiramisu": {
        "features joined for every layer": lambda: (plain(Tiramisu.kurth().build(16, 3)), train),
        "features kept apart": lambda: (Tiramisu.kurth().build(16, 3), train),
    },
    "longitude": {
        "zeros": lambda: (DeepLab.mlperf(padding="zeros").build(16, 3), train),
        "periodic": lambda: (DeepLab.mlperf().build(16, 3), train),
    },
    "recompute": {
        "keep everything": lambda: (DeepLab.mlperf().build(16, 3), train),
        "recompute=True": lambda: (replace(DeepLab.mlperf(), recompute=True).build(16, 3), train),
    },
    "inference": {
        "as trained": lambda: (DeepLab.mlperf().build(16, 3), infer),
        "folded": lambda: (fold(DeepLab.mlperf().build(16, 3)), infer),
        "folded, channels last": lambda: (fold(DeepLab.mlperf().build(16, 3)), lambda n: infer(n, last=True)),
    },
    "small, 2 snapshots of 96 x 192": {
        "DeepLab.small()": lambda: (DeepLab.small().build(16, 3), train),
        "Tiramisu.small()": lambda: (Tiramisu.small().build(16, 3), train),
    },
    "small, 4 volumes of 64^3": {"CosmoFlow.small()": lambda: (CosmoFlow.small().build(1, 3), train)},
}


def example(case: str, lat: int, lon: int) -> Tensor:
    shape = (1, 16, lat, lon)
    if case.startswith("small"):
        shape = (4, 1, 64, 64, 64) if "volumes" in case else (2, 16, 96, 192)
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def memory(case: str, name: str, lat: int, lon: int) -> float:
    """Peak memory of one step in MiB, beyond network and input."""
    torch.set_num_threads(1)
    network, use = CASES[case][name]()
    x, step = example(case, lat, lon), use(network)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew: a process inherits its parent's
    before = peak_kib()
    step(x)
    return (peak_kib() - before) / 1024


def peak_kib() -> int:
    """Largest resident size so far (Linux)."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--lat", type=int, default=192, help="rows of the map (default 192)")
    options.add_argument("--lon", type=int, default=288, help="columns of the map (default 288)")
    options.add_argument("--rounds", type=int, default=5, help="steps of each kind (default 5)")
    options.add_argument("--case", choices=list(CASES), action="append", help="only these (default all)")
    asked = options.parse_args()
    torch.set_num_threads(1)
    print("| case | | CPU s | ratio | GFLOP/s | MiB |\n|---|---|---|---|---|---|")
    for case in asked.case or CASES:
        torch.manual_seed(0)
        x = example(case, asked.lat, asked.lon)
        built = {name: make() for name, make in CASES[case].items()}
        steps = {name: use(network) for name, (network, use) in built.items()}
        seconds: dict[str, list[float]] = {name: [] for name in steps}
        for _ in range(asked.rounds + 1):
            for name, step in steps.items():
                start = time.process_time()
                step(x)
                seconds[name].append(time.process_time() - start)
        first = None
        for name, taken in seconds.items():
            median = statistics.median(taken[1:])  # the first step also chooses kernels
            first = first or median
            flops = count(built[name][0], tuple(x.shape))
            rate = (flops.forward if case == "inference" else flops.training) / median / 1e9
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
                peak = alone.submit(memory, case, name, asked.lat, asked.lon).result()
            print(f"| {case} | {name} | {median:.3f} | {median / first:.2f} | {rate:.0f} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
