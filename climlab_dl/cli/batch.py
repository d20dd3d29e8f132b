"""Verbs for one rank or many: train, detect, simulate; and flops."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from climlab_dl.cli.app import Files, app, refuse_to_overwrite, source_of


@app.command
def detect(files: Files, /, *, detector: Path, out: Path) -> None:
    """Find cyclones and rivers with a trained network: one output, or under mpiexec one for each input.

    Example: mpiexec -n 4 climlab-dl detect "cam5/*.nc" --detector runs/deeplab --out masks

    Args:
        files: Files, folders or patterns.
        detector: A run's folder, or one of its checkpoints.
        out: ``*.nc`` or ``*.zarr`` for probabilities and mask of all; else a folder for a mask file for each input,
            where what is done already is not done again.
    """
    from climlab_dl import Detector, archive
    from climlab_dl import detect as find

    network = Detector.load(detector)
    if out.suffix:
        refuse_to_overwrite(out, files)
        print(archive.save(find(network, archive.open(source_of(files))), out))
        return
    from tqdm import tqdm

    from climlab_dl.inference import outputs
    from climlab_dl.parallel import ranks

    inputs = archive.paths(source_of(files))
    with ranks.joined() as world:
        made = outputs.share(inputs, outputs.into(out, network), world.rank, world.size)
        total = len(range(world.rank, len(inputs), world.size))
        for _ in tqdm(made, total=total, desc="files of rank 0", disable=world.rank > 0):
            pass


@app.command
def simulate(
    *,
    out: Path,
    universes: Annotated[int, arg(aliases=["-n"])] = 64,
    preset: Literal["tour", "laptop", "fine", "cosmoflow2018", "mlperf"] = "laptop",
    seed: int = 0,
) -> None:
    """Simulate universes over a prior, one file each; what is there already is kept.

    Example: mpiexec -n 4 climlab-dl simulate --out universes -n 2000

    Args:
        out: Folder of the files.
        universes: How many points of the prior.
        preset: Box, resolution, redshifts and prior.
        seed: Of the points and the initial conditions; a universe does not depend on the number of ranks.
    """
    from tqdm import tqdm

    from climlab_dl import simulate as universe
    from climlab_dl.parallel import ranks

    design = universe.design(universes, seed=seed, preset=getattr(universe, preset)())
    with ranks.joined() as world:
        mine = universe.share(design, out, world.rank, world.size)
        total = len(range(world.rank, universes, world.size))
        for _ in tqdm(mine, total=total, desc="universes of rank 0", disable=world.rank > 0):
            pass


@app.command
def flops() -> None:
    """Count the published networks' parameters and arithmetic as the papers do."""
    from climlab_dl.performance import published

    print(published.table().to_string(na_rep="-"))


def add_training() -> None:
    """Add the verb whose options are the fields of a run; they cannot be listed without importing torch."""
    from tyro.extras import subcommand_type_from_defaults

    from climlab_dl.parallel import ranks
    from climlab_dl.training import runs
    from climlab_dl.training.folder import RunFolder
    from climlab_dl.training.loop import train as train_on_rank
    from climlab_dl.training.run import Run
    from climlab_dl.training.summary import Summary

    functions = {name: f for name, f in vars(runs).items() if getattr(f, "__module__", "") == runs.__name__}
    named = {name.replace("_", "-"): f("SOURCE") for name, f in functions.items() if not name.startswith("_")}
    if TYPE_CHECKING:
        Named = Run
    else:
        Named = subcommand_type_from_defaults(named, prefix_names=False)

    @app.command
    def train(source: Positional[str], run: Annotated[Named, arg(name="")], *, folder: Path) -> None:
        """Train a named run, or a variation of it, on one rank or under mpiexec; resumes what the folder holds.

        Example: mpiexec -n 2 climlab-dl train labelled.nc --folder runs/deeplab small-deeplab --steps 500

        Args:
            source: The archive to learn from: labelled climate files, or a folder of universes.
            run: Which run; ``climlab-dl train SOURCE --folder F RUN --help`` lists what can be varied.
            folder: The run's folder, which is filled; ``climlab_dl.live.watch`` follows it.
        """
        run = replace(run, data=replace(run.data, source=source))
        progress = RunFolder(folder)
        for _ in train_on_rank(run, folder):
            if ranks.rank() == 0:
                print(Summary.of(progress.status(), progress.progress()), flush=True)
