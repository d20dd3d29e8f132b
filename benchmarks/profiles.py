"""Pictures of where the time of each hot case goes, for docs/images/profiles.

    OMP_NUM_THREADS=1 python benchmarks/profiles.py                        # all, at --short's sizes
    OMP_NUM_THREADS=1 python benchmarks/profiles.py --case "step tiramisu" --size toy --out /tmp

A profiler slows down what is short and called often; shares matter here, and seconds are those of `climlab-dl bench`.
"""

import argparse
import tempfile
from pathlib import Path

from climlab_dl.parallel import ranks
from climlab_dl.parallel.memory import keep_freed
from climlab_dl.performance import profiles
from climlab_dl.performance.cases import CASES

PICTURES = Path(__file__).parents[1] / "docs" / "images" / "profiles"
# Training and simulation are torch's operations; the rest is Python that calls HDF5, numpy and torch.
HOT = {
    "step deepcam": profiles.by_operation,
    "step deeplab": profiles.by_operation,
    "step tiramisu": profiles.by_operation,
    "step cosmoflow": profiles.by_operation,
    "step cosmoflow_mlperf": profiles.by_operation,
    "detect deepcam": profiles.by_function,
    "input deepcam": profiles.by_function,
    "input tfrecord_gzip": profiles.by_function,
    "simulate": profiles.by_operation,
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--case", choices=list(HOT), action="append", help="only these (default all)")
    options.add_argument("--size", choices=("full", "short", "toy"), default="short")
    options.add_argument("--out", type=Path, default=PICTURES, help="folder (default docs/images/profiles)")
    asked = options.parse_args()
    with ranks.joined(), tempfile.TemporaryDirectory() as folder:
        for name in asked.case or HOT:
            place = Path(folder) / name
            place.mkdir()
            case = CASES[name](asked.size, place)
            seconds = HOT[name](case.work.call)
            about = ", ".join(f"{key} {value}" for key, value in case.notes.items()).replace("_", " ")
            title = f"{name}: {about}; {case.work.samples} a call"
            path = profiles.draw(seconds, title, asked.out / f"{name.replace(' ', '_')}.png")
            print(f"{path}: {seconds.sum():.3g} s; {', '.join(f'{k} {v:.3g}' for k, v in seconds.head(5).items())}")


if __name__ == "__main__":
    keep_freed()  # as processes that train or detect do
    main()
