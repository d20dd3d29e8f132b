"""How well the network knows the parameters, against regressions on the same universes; and its calibration.

    mpiexec -n 2 python benchmarks/universes.py simulate out/study     # 2,000 universes of 64^3, about 15 minutes
    mpiexec -n 2 python benchmarks/universes.py train out/study        # hours on two cores, minutes on a GPU
    python benchmarks/universes.py report out/study                    # the table, and its posterior's calibration

Every step continues where it was interrupted. ``--universes N`` and ``--steps N`` make it smaller; ``report --sizes``
adds the learning curve of the regressions.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from climlab_dl.cosmology import simulate, spectrum, volumes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulate", "train", "report"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--universes", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--sizes", action="store_true", help="also the regressions' learning curve")
    arguments = parser.parse_args()
    {"simulate": make, "train": train, "report": report}[arguments.what](arguments)


def make(arguments: argparse.Namespace) -> None:
    """Simulate this rank's share of the design."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    design = simulate.design(arguments.universes, seed=0, preset=simulate.laptop())
    for number, _ in enumerate(simulate.share(design, arguments.folder / "universes", world.rank, world.size), 1):
        if number % 50 == 0 and world.rank == 0:
            print(f"{number * world.size} of {arguments.universes}", flush=True)


def train(arguments: argparse.Namespace) -> None:
    """Train on this rank."""
    from climlab_dl.training import loop, runs
    from climlab_dl.training.universes import Universes

    source = arguments.folder / "universes"
    small = runs.small_cosmoflow(source)
    data = Universes(source=source, calibration=0.2, held_out=0.2, memory_gigabytes=2.0)
    run = replace(small, data=data, steps=arguments.steps, evaluate_every=500, checkpoint_every=500)
    for progress in loop.train(run, arguments.folder / "run"):
        if progress.metrics:
            print(progress.step, {name: f"{value:.4f}" for name, value in progress.metrics.items()}, flush=True)


def report(arguments: argparse.Namespace) -> None:
    """Errors on held-out universes beside the baselines', and the posteriors' calibration."""
    from climlab_dl.inference import calibration, posterior
    from climlab_dl.training.universes import Universes

    fitted = posterior.fit(arguments.folder / "run")
    data = fitted.summaries.run.data
    assert isinstance(data, Universes)
    files = data.files()
    print(f"{len(files['training'])} universes trained on, {len(files['held_out'])} held out; {fitted.method}\n")
    print(posterior.accuracy(fitted).round(4).to_string(), "\n")
    checked = calibration.check(fitted, files["held_out"])
    print(checked.table().round(3).to_string(), f"\nTARP inside its band: {checked.tarp_ok}")
    if arguments.sizes:
        size = 50
        while size <= len(files["training"]):
            table = spectrum.baselines(volumes.open(files["training"][:size]), volumes.open(files["held_out"]))
            print(f"\n{size} universes\n{table.round(4).to_string()}")
            size *= 2


if __name__ == "__main__":
    main()
