"""How well the network knows the parameters, against regressions on the same universes; and its calibration.

    mpiexec -n 2 python benchmarks/universes.py simulate out/study     # 2,000 universes of 64^3, about 15 minutes
    python benchmarks/universes.py train out/study                     # today's density; 8 minutes of one core
    python benchmarks/universes.py train out/study --redshifts four
    python benchmarks/universes.py report out/study                    # errors, and the posterior's calibration

Every step continues where it was interrupted. ``train --seed 1`` trains another network for an ensemble; ``report``
takes all that there are. ``simulate --seed 1 --universes 600`` makes more to calibrate with and to hold out, half each.
``--universes N``, ``--at-most N`` and ``--epochs N`` make it smaller; ``report --sizes`` adds the learning curve of the
regressions.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from climlab_dl.cosmology import simulate, spectrum, volumes

REDSHIFTS = {"today": (0.0,), "four": (0.0, 0.5, 1.5, 3.0)}
BATCH = 8
PRESET = "laptop"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulate", "train", "report"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--universes", type=int, default=2000)
    parser.add_argument("--redshifts", choices=REDSHIFTS, default="today")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the training, or of the design")
    parser.add_argument("--symmetries", type=int, default=8, help="of the cube, to average the estimates over")
    parser.add_argument("--at-most", type=int, help="universes to train on")
    parser.add_argument("--method", choices=("auto", "flow", "linear"), default="linear")
    parser.add_argument("--sizes", action="store_true", help="also the regressions' learning curve")
    arguments = parser.parse_args()
    {"simulate": make, "train": train, "report": report}[arguments.what](arguments)


def make(arguments: argparse.Namespace) -> None:
    """Simulate this rank's share of the design."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    design = simulate.design(arguments.universes, seed=arguments.seed, preset=getattr(simulate, PRESET)())
    folder = arguments.folder / ("more" if arguments.seed else "universes")
    for number, _ in enumerate(simulate.share(design, folder, world.rank, world.size), 1):
        if number % 50 == 0 and world.rank == 0:
            print(f"{number * world.size} of {arguments.universes}", flush=True)


def train(arguments: argparse.Namespace) -> None:
    """Train on this rank; the run's only evaluation is its last, so that the held-out universes choose nothing."""
    from climlab_dl.models.cosmoflow import CosmoFlow
    from climlab_dl.training import loop
    from climlab_dl.training.losses import GaussianNLL
    from climlab_dl.training.optimizers import AdamW
    from climlab_dl.training.precision import Precision
    from climlab_dl.training.run import Run
    from climlab_dl.training.schedules import Cosine, Warmup
    from climlab_dl.training.universes import Universes

    data = Universes(
        source=arguments.folder / "universes", redshifts=REDSHIFTS[arguments.redshifts], calibration=0.15,
        held_out=0.15, at_most=arguments.at_most, memory_gigabytes=5.0,
    )  # fmt: skip
    steps = arguments.epochs * (len(data.files()["training"]) // BATCH)
    run = Run(
        data=data, model=CosmoFlow.statistics(), loss=GaussianNLL(),
        optimizer=AdamW(learning_rate=3e-3, weight_decay=0.05), schedule=Warmup(steps=50, then=Cosine()),
        precision=Precision(kind="bf16"), steps=steps, batch_size=BATCH, clip_norm=1.0, report_every=100,
        evaluate_every=steps, checkpoint_every=250, seed=arguments.seed,
    )  # fmt: skip
    for progress in loop.train(run, arguments.folder / f"{_named(arguments)}-{arguments.seed}"):
        scores = {name: f"{value:.4f}" for name, value in progress.metrics.items()}
        print(progress.step, f"{progress.loss:.3f}", f"{time.process_time():.0f} s", scores or "", flush=True)


def _named(arguments: argparse.Namespace) -> str:
    return f"run-{arguments.redshifts}-{arguments.at_most or 'all'}"


def report(arguments: argparse.Namespace) -> None:
    """Errors on held-out universes beside the baselines', and the posteriors' calibration."""
    from climlab_dl.inference import calibration, posterior
    from climlab_dl.inference.summaries import Summaries
    from climlab_dl.training.universes import Universes

    runs = sorted(arguments.folder.glob(f"{_named(arguments)}-*"))
    network = Summaries.load(*runs, symmetries=arguments.symmetries)
    data = network.run.data
    assert isinstance(data, Universes)
    files = data.files()
    network = network.refitted(files["training"])
    more = sorted((arguments.folder / "more").glob("universe*"))
    half = len(more) // 2  # every second point of a Sobol design would lie in one half of the prior
    fitted = posterior.fit(network, [*files["calibration"], *more[:half]], method=arguments.method)
    held_out = [*files["held_out"], *more[half:]]
    print(f"{len(files['training'])} universes trained on; {fitted.method}")
    print(f"{len(runs)} networks, {arguments.symmetries} symmetries; calibration on {len(held_out)} held out\n")
    checked = calibration.check(fitted, held_out)
    table = posterior.accuracy(fitted)
    missed = fitted.to_physical(checked.draws.mean(1)) - fitted.to_physical(checked.truth)
    table.loc["posterior mean, all held out"] = np.sqrt(np.mean(missed**2, axis=0))
    print(table.round(4).to_string(), "\n")
    print(checked.table().round(3).to_string(), f"\nTARP inside its band: {checked.tarp_ok}")
    if arguments.sizes:
        size = 50
        while size <= len(files["training"]):
            parts = (files["training"][:size], files["held_out"])
            table = spectrum.baselines(*(map(network.at, volumes.open(part)) for part in parts))
            print(f"\n{size} universes\n{table.round(4).to_string()}")
            size *= 2


if __name__ == "__main__":
    main()
