"""Kill a random rank at a random step, again and again, and compare the weights that the resumed training ends with.

    python benchmarks/killed.py                  # 20 kills
    python benchmarks/killed.py --kills 5

Two ranks train a tiny network with dropout and batch normalisation for as long as it takes to be killed that often,
with a checkpoint every second step. The same training without kills follows, and the last checkpoints are compared bit
by bit, the losses of all steps by number.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from climlab_dl.climate import archive, synthetic
from climlab_dl.training.checkpoint import load
from climlab_dl.training.folder import RunFolder

SCRIPT = Path(__file__).resolve().parents[1] / "tests" / "mpi" / "killed.py"


def train(labelled: Path, folder: Path, steps: int, rank: int = -1, step: int = 0) -> int:
    """Train on two ranks, one of which may kill itself; give mpiexec's exit status."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    arguments = [str(labelled), str(folder), str(rank), str(step), str(steps)]
    command = [str(mpiexec), "-n", "2", sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, check=False).returncode


def main() -> None:
    """Kill, resume, compare."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=20, help="how often (default 20)")
    options.add_argument("--seed", type=int, default=7, help="of ranks and steps (default 7)")
    asked = options.parse_args()
    kills, chance = asked.kills, random.Random(asked.seed)  # noqa: S311
    steps = 3 * kills + 2
    with tempfile.TemporaryDirectory() as scratch:
        labelled = archive.save(synthetic.atmosphere(times=24, shape=(16, 32), seed=3), Path(scratch) / "labelled.nc")
        killed, whole = RunFolder(Path(scratch) / "killed"), RunFolder(Path(scratch) / "whole")
        began = time.monotonic()
        for number in range(kills):
            latest = killed.latest()
            done = int(latest.stem[5:]) if latest else 0
            rank, step = chance.randrange(2), done + chance.randrange(1, 4)
            status = train(labelled, killed.path, steps, rank, step)
            print(f"kill {number + 1}: rank {rank} after step {step}, mpiexec ended with {status}", flush=True)
        resumed = train(labelled, killed.path, steps)
        alone = train(labelled, whole.path, steps)
        ours, theirs = (load(folder.latest() or "")["model"] for folder in (killed, whole))
        differ = [name for name in ours if not torch.equal(ours[name], theirs[name])]
        told, expected = (folder.progress()[["step", "epoch", "loss"]] for folder in (killed, whole))
        print(f"{kills} kills in {time.monotonic() - began:.0f} s; last runs ended with {resumed} and {alone}")
        print(f"{len(ours)} tensors after {steps} steps, of which {len(differ)} differ {differ}")
        print(f"{len(told)} steps reported, with losses {'' if told.equals(expected) else 'NOT '}as without kills")
        if differ or resumed or alone or not told.equals(expected):
            sys.exit(1)


if __name__ == "__main__":
    main()
