"""Score of the small networks on an archive labelled by rule; the last third of the times is held out.

    mpiexec -n 2 python benchmarks/small_networks.py OUT                       # the tour's, on the sample archive
    mpiexec -n 2 python benchmarks/small_networks.py OUT --archive gcm/ --run t63_deeplab

Each network's curve is OUT/RUN.png, from its run folder's progress.jsonl. Seconds are the CPUs', of all ranks,
training and evaluation, since this start.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import torch

from climlab_dl import archive, heuristics
from climlab_dl.parallel import ranks
from climlab_dl.plot.curves import curves
from climlab_dl.training import runs
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train


def main() -> None:
    """Label, train, print a row per evaluation."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path, help="folder for labels and runs")
    options.add_argument("--archive", type=Path, default=archive.sample(), help="default: the sample archive")
    options.add_argument("--run", nargs="+", default=["small_deeplab", "small_tiramisu"], help="named runs")
    options.add_argument("--steps", type=int, help="default: the runs' own")
    asked = options.parse_args()
    with ranks.joined():
        labelled = asked.out / "labelled.nc"
        with ranks.together("labelling"):
            if ranks.rank() == 0 and not labelled.exists():
                fields = archive.open(asked.archive)
                archive.save(fields.assign(mask=heuristics.label(fields).load()), labelled)
        for name in asked.run:
            run = getattr(runs, name)(labelled)
            run = replace(run, steps=asked.steps or run.steps)
            began = time.process_time()
            for report in train(run, asked.out / name):
                if not report.metrics:
                    continue
                cpu = ranks.sum(torch.tensor(time.process_time() - began), "CPU time").item()
                if ranks.rank() == 0:
                    scores = {part: report.metrics[f"iou_{part}"] for part in ("river", "cyclone", "mean")}
                    row = "  ".join(f"{part} {value:.3f}" for part, value in scores.items())
                    print(f"{name} step {report.step}: {row}  loss {report.loss:.4f}  {cpu:.0f} s", flush=True)
            if ranks.rank() == 0:
                curves(RunFolder(asked.out / name).progress(), name).savefig(asked.out / f"{name}.png", dpi=80)


if __name__ == "__main__":
    main()
