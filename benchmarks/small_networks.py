"""Score of the small networks on the sample archive, labelled by rule; the last third of the times is held out.

    mpiexec -n 2 python benchmarks/small_networks.py OUT                               # both, as they are
    mpiexec -n 2 python benchmarks/small_networks.py OUT --archive gcm/ --steps 2000   # longer, on another archive

Each network's curve is its run folder's progress.jsonl.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from climlab_dl import archive, heuristics
from climlab_dl.parallel import ranks
from climlab_dl.training import runs
from climlab_dl.training.loop import train


def main() -> None:
    """Label, train, print a row per evaluation."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path, help="folder for labels and runs")
    options.add_argument("--archive", type=Path, default=archive.sample(), help="default: the sample archive")
    options.add_argument("--steps", type=int, help="default: the runs' own")
    asked = options.parse_args()
    with ranks.joined():
        labelled = asked.out / "labelled.nc"
        with ranks.together("labelling"):
            if ranks.rank() == 0 and not labelled.exists():
                fields = archive.open(asked.archive)
                archive.save(fields.assign(mask=heuristics.label(fields).load()), labelled)
        for named in (runs.small_deeplab, runs.small_tiramisu):
            run = named(labelled)
            run = replace(run, steps=asked.steps or run.steps)
            began = time.process_time()
            for report in train(run, asked.out / named.__name__):
                if ranks.rank() == 0 and report.metrics:
                    scores = {name: report.metrics[name] for name in ("iou_river", "iou_cyclone", "iou_mean")}
                    row = "  ".join(f"{name} {value:.3f}" for name, value in scores.items())
                    cpu = time.process_time() - began
                    print(
                        f"{named.__name__} step {report.step}: {row}  loss {report.loss:.4f}  {cpu:.0f} s", flush=True
                    )


if __name__ == "__main__":
    main()
