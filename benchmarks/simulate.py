"""Cost of a universe: processor seconds of one thread and peak memory, beside the machine's matrix multiplication rate.

    python benchmarks/simulate.py

Each case runs in a process of its own, so that its peak memory is its own. Processor time is what counts: a shared
machine disturbs it less than the clock.
"""

import json
import platform
import subprocess
import sys
import time
from dataclasses import replace

CASES = ("tour", "laptop", "laptop, 5 steps, z = 0", "fine", "cosmoflow2018, 5 steps", "cosmoflow2018")
GEMM = 1024


def main() -> None:
    print(f"{platform.node()}: {platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(f"{'preset':28s} {'particles':>9s} {'steps':>5s} {'processor s':>11s} {'clock s':>8s} {'peak GB':>8s}")
    for name in CASES:
        done = subprocess.run([sys.executable, __file__, name], check=True, capture_output=True, text=True)
        row = json.loads(done.stdout)
        print(
            f"{name:28s} {row['particles']:>7d}^3 {row['steps']:5d} {row['processor']:11.2f} {row['clock']:8.2f} "
            f"{row['peak']:8.2f}   (GEMM {row['gemm']:.0f} GFLOP/s in float32, one thread)"
        )


def one(name: str) -> None:
    """Simulate once to warm up, once measured, and print a row as JSON."""
    import resource

    import torch

    from climlab_dl.cosmology import simulate

    torch.set_num_threads(1)
    base = getattr(simulate, name.split(",")[0])()
    preset = {
        "laptop, 5 steps, z = 0": replace(base, steps=5, redshifts=(0,)),
        "cosmoflow2018, 5 steps": replace(base, steps=5, start=0.2),
    }.get(name, base)
    parameters = {"Omega_m": 0.31, "sigma_8": 0.82, "n_s": 0.96}
    simulate.universe(parameters, replace(preset, particles=16, voxels=16), seed=0)
    clock, processor = time.perf_counter(), time.process_time()
    simulate.universe(parameters, preset, seed=1)
    row = {"processor": time.process_time() - processor, "clock": time.perf_counter() - clock}
    row |= {"particles": preset.particles, "steps": preset.steps, "gemm": gemm()}
    row["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps(row))


def gemm() -> float:
    """Best of five multiplications of two matrices, in GFLOP/s of processor time."""
    import torch

    a, b = torch.rand(GEMM, GEMM), torch.rand(GEMM, GEMM)
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        torch.mm(a, b)
        best = min(best, time.process_time() - start)
    return 2 * GEMM**3 / best / 1e9


if __name__ == "__main__":
    one(sys.argv[1]) if len(sys.argv) > 1 else main()
