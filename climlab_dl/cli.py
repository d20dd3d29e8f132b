"""The same verbs for the shell and for batch scripts; each imports what it needs when it is called.

Exit codes: 0 done, 1 something in the data is wrong (``check``) or a step failed, 2 wrong use.
"""

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg
from tyro.extras import SubcommandApp

app = SubcommandApp()
Files = Positional[tuple[str, ...]]


def _source(files: tuple[str, ...]) -> str | tuple[str, ...]:
    """Give what was named on the command line as ``archive.open`` takes it."""
    if not files:
        print("climlab-dl: name FILES: one or more files, folders or patterns", file=sys.stderr)
        sys.exit(2)
    return files[0] if len(files) == 1 else files


@app.command
def tour(*, out: Path = Path("out"), data: str = "", smoke: bool = False) -> None:
    """Run the main job once, small: storms on a map and a posterior, in a few minutes on two cores.

    Example: climlab-dl tour --out out --data "cam5/*.nc"

    Args:
        out: Folder for the page, the masks, the storms and the checkpoints.
        data: A file, folder or pattern to open, label and map instead of the packaged sample archive.
        smoke: Train a few steps only, to see that everything works.
    """
    from climlab_dl import notebook

    began = os.times().elapsed
    parameters: dict[str, object] = {"OUT": "."}
    if data:
        parameters["DATA"] = data if any(c in data for c in "*?[") else str(Path(data).resolve())
    if smoke:
        parameters |= {"CLIMATE_STEPS": 4, "UNIVERSES": 24, "COSMOLOGY_STEPS": 4}
    page = notebook.export(notebook.execute(notebook.find("00_tour"), out, parameters), out / "tour.html")
    print(f"\nDone in {os.times().elapsed - began:.0f} s. Open {page.resolve()} in a browser. Beside it lie")
    for name, meaning in {
        "masks.nc": "the masks found on held-out snapshots, CF NetCDF",
        "storms.csv": "the storms, a row each",
        "storms.geojson": "their outlines",
        "scores.csv": "IoU per class beside the trivial prediction",
        "parameters.csv": "parameter errors beside the prior's",
        "runs/": "the trainings, with their checkpoints",
    }.items():
        print(f"  {name:16} {meaning}")


@app.command
def lab(*, folder: Path = Path()) -> None:
    """Open JupyterLab, on this machine only, with the tour.

    Args:
        folder: Where to work. The packaged notebooks are copied there, except those that it already has.
    """
    from climlab_dl import notebook

    first = notebook.find("00_tour")
    if not (folder / "notebooks").is_dir() or first.parent.resolve() != (folder / "notebooks").resolve():
        (folder / "notebooks").mkdir(parents=True, exist_ok=True)
        for source in first.parent.glob("*.ipynb"):
            if not (folder / "notebooks" / source.name).exists():
                shutil.copy(source, folder / "notebooks")
    command = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1", "--ServerApp.root_dir", str(folder.resolve())]
    # Root may not start JupyterLab unless told; whoever is root here has chosen to be.
    if hasattr(os, "getuid") and os.getuid() == 0:
        command.append("--allow-root")
    os.execv(sys.executable, [*command, str(folder / "notebooks" / first.name)])  # noqa: S606


@app.command
def check(files: Files, /) -> None:
    """Report on climate files: grid, calendar, missing times, extremes per channel; exit 1 where something is wrong.

    Example: climlab-dl check "cam5/*.nc"

    Args:
        files: Files, folders or patterns.
    """
    from climlab_dl import archive

    report = archive.check(_source(files))
    print(report)
    sys.exit(0 if report.ok else 1)


@app.command
def convert(files: Files, /, *, out: Path, layout: Literal["cf", "deepcam", "climatenet"] = "cf") -> None:
    """Write climate files of any known format as one archive with canonical names and SI units.

    Example: climlab-dl convert "era5/*.grib" --out era5.zarr

    Args:
        files: Files, folders or patterns.
        out: ``*.nc`` or ``*.zarr``; a folder for the layouts deepcam and climatenet.
        layout: CF-1.11, or one file a snapshot as DeepCAM's or ClimateNet's own readers want it.
    """
    from climlab_dl import archive

    print(archive.save(archive.open(_source(files)), out, layout=layout))


@app.command
def label(
    files: Files,
    /,
    *,
    out: Path,
    river_threshold: float = 21.0,
    wrap: bool = True,
    mask_only: bool = False,
) -> None:
    """Mark cyclones and rivers by the rules of Kurth et al. 2018.

    Example: climlab-dl label "cam5/*.nc" --out labelled.nc

    Args:
        files: Files, folders or patterns.
        out: NetCDF or Zarr for the fields with their mask.
        river_threshold: Damped water vapour above which a cell may be a river, in kg/m2 (the paper: 21 and 24).
        wrap: Join the first and last longitude; the published labels do not.
        mask_only: Leave the fields out.
    """
    from climlab_dl import archive, heuristics

    fields = archive.open(_source(files))
    mask = heuristics.label(fields, rivers=heuristics.Rivers.kurth(river_threshold), wrap=wrap)
    print(archive.save(mask.to_dataset() if mask_only else fields.assign(mask=mask), out))


@app.command
def events(files: Files, /, *, csv: Path | None = None, geojson: Path | None = None, min_area_km2: float = 0.0) -> None:
    """List the storms of labelled files: one row for each event and time, with its track.

    Example: climlab-dl events labelled.nc --csv storms.csv --geojson storms.geojson

    Args:
        files: Files with a ``mask``, as ``climlab-dl label`` or ``detect`` writes them.
        csv: Table to write; units are in the columns' names.
        geojson: Outlines to write (RFC 7946).
        min_area_km2: Leave out events smaller than this, in km2.
    """
    from climlab_dl import archive
    from climlab_dl import events as storms

    fields = archive.open(_source(files))
    if "mask" not in fields:
        sys.exit(f"{files[0]} has no mask; climlab-dl label or detect makes one")
    table = storms.find(fields["mask"], fields, min_area_km2=min_area_km2)
    if csv:
        print(storms.to_csv(table, csv))
    if geojson:
        storms.to_geojson(fields["mask"], geojson, table=table)
        print(geojson)
    if not csv and not geojson:
        print(table.to_string(index=False))


@app.command
def detect(files: Files, /, *, detector: Path, out: Path) -> None:
    """Find cyclones and rivers with a trained network.

    Example: climlab-dl detect "cam5/*.nc" --detector runs/deeplab --out masks.nc

    Args:
        files: Files, folders or patterns.
        detector: A run's folder, or one of its checkpoints.
        out: NetCDF or Zarr for probabilities and mask.
    """
    from climlab_dl import Detector, archive
    from climlab_dl import detect as find

    print(archive.save(find(Detector.load(detector), archive.open(_source(files))), out))


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


def _add_training() -> None:
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


_WITHOUT_TORCH = {"tour", "lab", "check", "convert", "label", "events"}


def main() -> None:
    """Run the command line."""
    if not _WITHOUT_TORCH & set(sys.argv[1:2]):
        _add_training()
    try:
        app.cli(prog="climlab-dl", description=__doc__)
    except (OSError, ValueError, RuntimeError) as error:
        sys.exit(f"climlab-dl: {error}")
