"""Verbs for one rank or many: train, detect, simulate; and flops."""

import shlex
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import AvoidSubcommands, Positional, arg

from climlab_dl.cli.app import (
    AsJson,
    Count,
    Files,
    Names,
    app,
    refuse_names,
    refuse_to_overwrite,
    renamed,
    source_of,
    wrong_use,
)
from climlab_dl.cli.sources import are_volumes, refuse_volumes
from climlab_dl.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tqdm import tqdm

    from climlab_dl.inference.outputs import Outputs
    from climlab_dl.training.universes import Universes


@app.command
def detect(
    files: Files,
    /,
    *,
    detector: tuple[Path, ...],
    out: Path,
    probabilities: Literal["none", "packed", "full"] = "none",
    uncertainty: bool = False,
    dropout_passes: int = 0,
    seed: int = 0,
    regrid: Literal["bilinear", "conservative", "none"] = "bilinear",
    missing: Literal["refuse", "mean"] = "refuse",
    names: Names = (),
) -> None:
    """Find cyclones and rivers with a trained network.

    Example: mpiexec -n 4 climlab-dl detect "cam5/*.nc" --detector runs/deeplab --out masks

    Args:
        files: Files, folders or patterns.
        detector: A run's folder, or one of its checkpoints; several are averaged.
        out: ``*.nc`` or ``*.zarr`` for all inputs together; else a folder for a file for each input, where what is
            done already is not done again.
        probabilities: Write them besides the mask, packed into 8-bit integers or in full.
        uncertainty: Write their entropy too and, for several networks or passes, by how much of it these disagree.
        dropout_passes: Average each network over so many passes with dropout as in training.
        seed: Of dropout.
        regrid: How fields on another grid than the network's get there; ``none`` leaves them on their own.
        missing: What to do about a channel that the files lack: refuse, or take its mean over the training.
    """
    from climlab_dl import Detector, archive
    from climlab_dl.inference import outputs
    from climlab_dl.parallel import ranks
    from climlab_dl.parallel.memory import keep_freed

    keep_freed()
    refuse_volumes(files, "climlab-dl infer takes them")
    inputs = archive.paths(source_of(files))
    if out.suffix:
        refuse_to_overwrite(out, files)
    make = outputs.into(
        out.parent if out.suffix else out,
        Detector.load(*detector, dropout_passes=dropout_passes, seed=seed),
        probabilities=probabilities,
        uncertainty=uncertainty,
        regrid=None if regrid == "none" else regrid,
        missing=missing,
        names=renamed(names),
    )
    # Ranks end at different times, and the last word waits for all.
    with ranks.joined(timeout=30 * 86400.0) as world:
        if out.suffix:
            if world.size > 1:
                wrong_use(f"--out {out} is one file, and there are {counted(world.size, 'rank')}; give a folder")
            print(_detect_together(inputs, make, out))
            return
        outputs.refuse_same_names(inputs, make)
        mine = inputs[world.rank :: world.size]
        waiting = [source for source in mine if not make.done(source)]
        made = [outputs.Made(source=source, path=make.path(source)) for source in mine if source not in waiting]
        with _files_bar(len(waiting), world.rank) as bar:
            for number, one in enumerate(outputs.share(waiting, make, progress=_part_of(bar)), start=1):
                made.append(one)
                bar.n = number
        made = outputs.gather(made)
    if world.rank == 0:
        print(f"{counted(len(outputs.settle(made)), 'file')} in {out}")


def _detect_together(inputs: list[Path], make: "Outputs", out: Path) -> Path:
    from climlab_dl import archive
    from climlab_dl.inference import netcdf

    found = make.find(inputs)
    if out.suffix != ".nc":
        return archive.save(found, out)
    with _files_bar(1, 0) as bar:
        netcdf.write(found, out, packed=make.probabilities == "packed", progress=_part_of(bar))
    return out


def _files_bar(total: int, rank: int) -> "tqdm[Any]":
    """Bar that a part of a file advances, too, so that few long files have a time of arrival as well."""
    from tqdm import tqdm

    shown = "{l_bar}{bar}| {n:.1f}/{total} [{elapsed}<{remaining}]"
    return tqdm(total=total, desc=f"files of rank {rank}", bar_format=shown, disable=rank > 0)


def _part_of(bar: "tqdm[Any]") -> "Callable[[float], object]":
    """Give what advances a bar by parts, but not beyond its end, as rounded shares would and tqdm warns of."""
    return lambda share: bar.update(min(share, bar.total - bar.n))


@app.command
def simulate(
    *,
    out: Path,
    universes: Annotated[Count, arg(aliases=["-n"])] = 64,
    preset: Literal["tour", "laptop", "fine", "cosmoflow2018", "mlperf"] = "laptop",
    seed: int = 0,
) -> None:
    """Simulate universes over a prior, one file each.

    What is there already is kept.

    Example: mpiexec -n 4 climlab-dl simulate --out more-universes -n 2000 --seed 1

    Args:
        out: Folder of the files.
        universes: How many points of the prior.
        preset: Box, particles, redshifts and prior. ``tour``: 32^3 in 128 Mpc/h at z = 0 and 1.5, a wide prior.
            ``laptop``: 64^3 in 256 Mpc/h at four redshifts, the ranges of the CosmoFlow set of 2018. ``fine``: the
            same in smaller steps. ``cosmoflow2018``: 128^3 in 256 Mpc/h today. ``mlperf``: 512^3 in 512 Mpc/h (at
            h = 0.7) at four redshifts, 40 GB and an hour of one core each.
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
    if world.rank == 0:
        print(f"{counted(universes, 'universe')} in {out}")


@app.command
def flops(*, as_json: AsJson = False) -> None:
    """Count parameters and arithmetic of the published networks.

    They are counted by the rules of the papers.

    Example: climlab-dl flops --json

    Args:
        as_json: Print JSON for a script: a list of networks.
    """
    from climlab_dl.performance import published

    table = published.table()
    print(table.reset_index().to_json(orient="records", indent=2) if as_json else table.to_string(na_rep="-"))


_UNNAMED = "SOURCE"
"""Stands for the archive where a named run's options are listed."""
app.verbs["train"] = "Train a named run, or a variation of it; resumes what is there."


def add_training() -> list[str]:
    """Add the verb whose options are the fields of a run, and name the runs: torch is imported to list them."""
    from tyro.extras import subcommand_type_from_defaults

    from climlab_dl.parallel import ranks
    from climlab_dl.parallel.memory import keep_freed
    from climlab_dl.training import runs
    from climlab_dl.training.folder import RunFolder
    from climlab_dl.training.loop import Stopped
    from climlab_dl.training.loop import train as train_on_rank
    from climlab_dl.training.run import Run
    from climlab_dl.training.summary import Summary
    from climlab_dl.training.universes import Universes

    functions = {name: f for name, f in vars(runs).items() if getattr(f, "__module__", "") == runs.__name__}
    named = {name.replace("_", "-"): f(_UNNAMED) for name, f in functions.items() if not name.startswith("_")}
    if TYPE_CHECKING:
        Named = Run
    else:
        # Each named run keeps the kinds of its parts, such as what it learns from; their fields are options.
        Named = Annotated[subcommand_type_from_defaults(named, prefix_names=False), AvoidSubcommands]

    @app.command
    def train(source: Positional[str], run: Annotated[Named, arg(name="")], *, folder: Path, names: Names = ()) -> None:
        """Train a named run, or a variation of it; resumes what is there.

        On one rank, or under mpiexec on many.

        Example: mpiexec -n 2 climlab-dl train labelled.nc --folder runs/mine small-deeplab --steps 500

        Args:
            source: The archive to learn from: labelled climate files, or a folder of universes.
            run: Which run, after ``--folder`` and ``--names``; ``climlab-dl train SOURCE --folder F RUN --help`` lists
                what can be varied, after its name.
            folder: The run's folder, which is filled; ``climlab_dl.live.watch`` follows it.
        """
        keep_freed()
        if run.data.source != _UNNAMED:
            wrong_use(f"name the archive as SOURCE, before the run, and not with --data.source {run.data.source}")
        run = replace(run, data=replace(run.data, source=source))
        if isinstance(run.data, Universes):
            refuse_names(names)
        elif names:
            run = replace(run, data=replace(run.data, names=renamed(names)))
        progress, was_there = RunFolder(folder), folder.exists()
        try:
            with ranks.joined() as world:
                if not isinstance(run.data, Universes):
                    refuse_volumes((source,), "a run that is called cosmoflow learns from them, as small-cosmoflow")
                elif Path(source).is_file() and not are_volumes((source,)):
                    raise ValueError(f"{source} is no volume of the universe, from which this run learns")
                with suppress(Stopped):  # which the last line says
                    for _ in train_on_rank(run, folder):
                        if world.rank > 0:
                            continue
                        reached = Summary.of(progress.status(), progress.progress())
                        # That it was resumed is said all along; why it ends, once, by the last line.
                        if not reached.message or reached.message.startswith("resumed"):
                            print(reached, flush=True)
        except (Exception, KeyboardInterrupt):
            if not was_there and folder.exists() and progress.status()["step"] == 0:
                shutil.rmtree(folder, ignore_errors=True)  # what could not begin is no run to compare with others
            raise
        if world.rank > 0:
            return
        ended, there = Summary.of(progress.status(), progress.progress()), shlex.quote(str(folder))
        look = f"climlab-dl detect YOUR_FIELDS --detector {there} --out masks"
        if isinstance(run.data, Universes):
            look = _too_few(run.data) or f"climlab-dl infer YOUR_VOLUMES --network {there}"
        print(f"{ended} · {folder}" + (f"; next: {look}" if ended.state == "finished" else ""))
        if ended.state == "stopped":
            sys.exit(130)  # what would come next in a script is not for a network that has learnt by half

    return list(named)


def _too_few(data: "Universes") -> str:
    """Say what to do where fewer universes are kept for calibration than a posterior needs; nothing if they suffice."""
    from climlab_dl.cosmology import volumes
    from climlab_dl.inference.densities import fewest_universes

    files = data.files()
    parameters = len(data.parameters or next(volumes.read(files["training"][0])).names)
    found, needed = len(files["calibration"]), fewest_universes(parameters, parameters)
    if found >= needed:
        return ""
    return (
        "train on more universes or with a larger --data.calibration; a posterior of "
        f"{counted(parameters, 'parameter')} needs {needed} universes kept for calibration, here are {found}"
    )
