"""Verbs for what trainings leave and for the machine: runs, report, infer, stats, export, doctor."""

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from climlab_dl.cli.app import (
    AsJson,
    Count,
    Files,
    Names,
    app,
    prior_of,
    refuse_to_overwrite,
    source_of,
    wrong_use,
)
from climlab_dl.cli.sources import opened
from climlab_dl.words import counted

if TYPE_CHECKING:
    import pandas as pd


@app.command
def runs(folder: Positional[Path] = Path("runs"), *, sort: str = "run", as_json: AsJson = False) -> None:
    """Compare trainings: state, best score, rate, and how they differ.

    Example: climlab-dl runs runs --sort best

    Args:
        folder: A run's folder, or one below which runs lie.
        sort: Column to sort by, such as best, rate, minutes.
        as_json: Print JSON for a script: a list of runs.
    """
    from climlab_dl.training.table import table as compared

    table = compared(folder).reset_index()
    if sort not in table:
        wrong_use(f"there is no column {sort!r} to sort by; there are {', '.join(table)}")
    table = table.sort_values(sort).set_index("run")
    if as_json:
        _print(table, as_json)
        return
    results = list(table)[: list(table).index("minutes") + 1]
    _print(table.loc[:, results], as_json)
    if len(results) < table.shape[1]:
        # On end, for there may be dozens of them.
        print("\nwhere they differ")
        _print(table.drop(columns=results).T, as_json)


@app.command
def report(run: Positional[Path], /, *, out: Path | None = None, snapshots: Count = 24) -> None:
    """Write one self-contained page about a training.

    It has curves; of masks confusion, best and worst snapshots, and storms; of parameters of universes the estimates
    against the truth of those held out, with their errors.

    Example: climlab-dl report runs/deeplab --out report.html

    Args:
        run: The run's folder.
        out: The page; by default report.html in the run's folder.
        snapshots: How many held-out snapshots to look at, evenly spaced.
    """
    from climlab_dl import report as write

    print(write(run, out, snapshots=snapshots))


@app.command
def infer(
    files: Files,
    /,
    *,
    network: tuple[Path, ...],
    out: Path | None = None,
    draws: Annotated[Count, arg(aliases=["-n"])] = 10_000,
    prior: Annotated[tuple[str, ...], arg(metavar="NAME=LOW:HIGH ...")] = (),
    apart: bool = False,
    seed: int = 0,
    as_json: AsJson = False,
) -> None:
    """Draw from the posterior of the parameters of universes.

    What is printed are medians and credible intervals, in the units of the parameters. How the network errs is learnt
    from the universes that its training kept for calibration.

    Several volumes are taken to share their parameters and to differ in their phases: their likelihoods are multiplied.
    ``--apart`` takes each for a universe of its own.

    Example: climlab-dl infer observed.h5 --network runs/cosmoflow --out draws.csv

    Args:
        files: Volumes (HDF5, TFRecord or Zarr), folders or patterns.
        network: A run's folder of a CosmoFlow training, or one of its checkpoints; several are averaged.
        out: CSV file for the draws, a column a parameter (H_0 in km/s/Mpc, the others without unit), after one with the
            name of the file where they are drawn ``--apart``.
        draws: How many; of each posterior.
        prior: Ends of the flat prior that the calibration universes were drawn from, NAME=LOW:HIGH for each of the
            network's parameters, e.g. Omega_m=0.1:0.5 H_0=60:80; H_0 in km/s/Mpc, the others without unit. By default
            what the universes' files tell.
        apart: Draw the posterior of each volume, as if it was given alone.
        seed: The same seed gives the same draws.
        as_json: Print JSON for a script: a list of parameters, each with the volume or volumes that it is of.
    """
    import pandas as pd
    from tqdm import tqdm

    from climlab_dl import posterior, volumes
    from climlab_dl.files import beside
    from climlab_dl.inference.summaries import Summaries

    ends = prior_of(prior)
    observed = list(volumes.open(source_of(files)))
    trained = Summaries.load(*network)
    for volume in observed:  # before the many of the calibration
        trained.at(volume)
    fitted = posterior.fit(trained, prior=ends)
    told = counted(len(observed), "volume")
    of, given = [str(volume.source) for volume in observed], observed
    if len(observed) > 1:
        told += ", each of a universe of its own" if apart else ", taken to share their parameters"
    if len(observed) > 1 and not apart:
        of, given = [told], [observed]
    bar = tqdm(given, desc="posteriors", delay=2, leave=False)
    tables = [posterior.draw(fitted, one, n=draws, seed=seed) for one in bar]
    if out is not None:
        with beside(out) as new:
            drawn = pd.concat(tables, keys=of, names=["volume"]).reset_index("volume") if apart else tables[0]
            drawn.to_csv(new, index=False, float_format="%.6g")
    found = [posterior.intervals(table) for table in tables]
    if as_json:
        _print(pd.concat(found, keys=of, names=["volume"]), as_json)
        return
    print(f"{told}; {fitted.method}")
    for name, table in zip(of, found, strict=True):
        if apart:
            print(f"\n{name}")
        _print(table, as_json)


@app.command
def stats(files: Files, /, *, out: Path | None = None, names: Names = (), as_json: AsJson = False) -> None:
    """Find mean, spread and range of each channel, and how common classes are.

    Example: mpiexec -n 4 climlab-dl stats "cam5/*.nc" --out stats.h5

    Args:
        files: Climate files, folders or patterns. Values are in the channels' SI units. A cell with a gap in
            any field is left out of all, as trainings do.
        out: Also write DeepCAM's stats.h5, which trainings take as their data's ``statistics``.
        as_json: Print JSON for a script: a list of channels.
    """
    import numpy as np
    import pandas as pd
    from tqdm import tqdm

    from climlab_dl.climate.fields import CLASSES
    from climlab_dl.parallel import ranks
    from climlab_dl.training.statistics import Statistics

    if out is not None:
        refuse_to_overwrite(out, files)
    snapshots = opened(files, names)
    channels = [
        str(name) for name, field in snapshots.items() if name != "mask" and field.dims == ("time", "lat", "lon")
    ]
    classes = len(CLASSES) if "mask" in snapshots else 0
    with ranks.joined() as world:
        mine = range(world.rank, snapshots.sizes["time"], world.size)
        found = Statistics.empty(channels, classes)
        for time in tqdm(mine, desc="snapshots of rank 0", disable=world.rank > 0 or None):
            snapshot = snapshots.isel(time=time).load()
            values = np.stack([snapshot[name].values for name in channels])
            found = found.merge(Statistics.of(values, channels, snapshot.mask.values if classes else None, classes))
        found = found.over_ranks()
        if world.rank > 0:
            return
    if not found.count:
        sys.exit("climlab-dl: no cell has a number in every field; leave out the field with gaps, with --names FIELD=")
    columns = {"mean": found.mean, "std": found.std, "min": found.minimum, "max": found.maximum}
    _print(pd.DataFrame(columns, index=pd.Index(channels, name="channel")), as_json)
    if classes and not as_json:
        print(
            "share of cells:", ", ".join(f"{n} {s:.4%}" for n, s in zip(CLASSES, found.class_frequencies, strict=True))
        )
    if out is not None:
        found.save_deepcam(out)


@app.command
def export(run: Positional[Path], /, *, out: Path, size: tuple[int, ...] = ()) -> None:
    """Write a trained network for other programs: ONNX, torch.export, safetensors.

    ONNX and torch.export take fields in their units, or counts, and hold the whole calculation; names, units and the
    means to fill gaps with are in the metadata. The weights in safetensors are taken by detect and infer as well.

    Example: climlab-dl export runs/deeplab --out deeplab.pt2

    Args:
        run: A run's folder, of which the best checkpoint is taken, or a checkpoint.
        out: ``*.onnx``, ``*.pt2`` or ``*.safetensors``.
        size: Rows and columns, or voxels on three sides, of what the network will look at; by default as in training.
    """
    from climlab_dl.inference import export as exported

    if out.suffix not in exported.SUFFIXES:
        wrong_use(f"--out {out} ends in {out.suffix!r}; a network is exported as {', '.join(exported.SUFFIXES)}")
    print(exported.write(run, out, size=size or None))


@app.command
def doctor(folder: Positional[Path] = Path(), *, as_json: AsJson = False) -> None:
    """Say what this machine lacks and what to do; exit 1 if it is needed.

    Example: climlab-dl doctor runs

    Args:
        folder: Where runs would lie: its file system is tried for room and for HDF5's locks.
        as_json: Print JSON for a script: a list of findings.
    """
    from dataclasses import asdict

    from climlab_dl.doctor import examine

    findings = []
    for finding in examine(folder):
        findings.append(finding)
        if not as_json:
            sign = {"ok": "ok     ", "optional": "absent ", "unused": "unused ", "missing": "MISSING"}[finding.state]
            print(f"{sign}  {finding.name:15} {finding.found}", flush=True)
            if finding.remedy:
                print(f"{'':26}{finding.remedy}", flush=True)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    sys.exit(1 if any(finding.state == "missing" for finding in findings) else 0)


def _print(table: "pd.DataFrame", as_json: bool) -> None:
    if as_json:
        print(table.reset_index().to_json(orient="records", indent=2, double_precision=15))
    else:
        # Wide tables go on below; what a cell has no room for is in the JSON.
        width = shutil.get_terminal_size((100, 24)).columns
        print(table.to_string(float_format=lambda value: f"{value:.5g}", line_width=width, max_colwidth=32))
