"""Verbs for notebooks: tour, lab."""

import os
import shutil
import sys
from itertools import count
from pathlib import Path

from climlab_dl.cli.app import app


@app.command
def tour(*, out: Path = Path("out"), data: str = "", smoke: bool = False) -> None:
    """Run the main job once, small: storms on a map, and a posterior.

    It takes a few minutes on two cores.

    Example: climlab-dl tour --out out

    Args:
        out: Folder for the page, the masks, the storms and the checkpoints.
        data: A file, folder or pattern to open, label and map instead of the packaged sample archive.
        smoke: Train a few steps only, to see that everything works.
    """
    from climlab_dl import notebook

    began = os.times().elapsed
    parameters: dict[str, object] = {"OUT": "."}
    if data:
        from climlab_dl import archive, heuristics

        heuristics.label(archive.open(data))  # lazy: says at once what is wrong with the data
        parameters["DATA"] = str(Path.cwd() / data)  # the notebook works in another folder
    _put_aside(out, str(parameters.get("DATA", "")))
    if smoke:
        parameters |= {"CLIMATE_STEPS": 4, "UNIVERSES": 48, "COSMOLOGY_STEPS": 4}
    page = notebook.export(notebook.execute(notebook.find("00_tour"), out, parameters), out / "tour.html")
    print(f"\nDone in {os.times().elapsed - began:.0f} s. Open {page.resolve()} in a browser. Beside it lie")
    for name, meaning in {
        "rule_storms.csv": "the storms that the rules find in your data; rule_storms.geojson: their outlines",
        "labelled.nc": "the fields that the networks learnt from, with the rules' masks",
        "masks.nc": "masks that the network finds on held-out snapshots (the sample's, if yours are fewer than 20)",
        "storms.csv": "the storms in those masks, a row each",
        "storms.geojson": "their outlines",
        "scores.csv": "IoU per class beside the trivial prediction",
        "parameters.csv": "parameter errors beside the prior's",
        "runs/": "the trainings, with their checkpoints",
        "universes/": "the simulated universes",
        "00_tour.ipynb": "the notebook as it ran",
    }.items():
        print(f"  {name:16} {meaning}")


def _put_aside(out: Path, data: str) -> None:
    """Make room for networks of these data where a tour before this one was of others."""
    from climlab_dl import notebook

    before, runs = out / "00_tour.ipynb", out / "runs"
    if not (before.exists() and runs.exists()) or notebook.parameters(before)["DATA"] == data:
        return
    number = next(number for number in count(1) if not runs.with_name(f"runs-before-{number}").exists())
    aside = runs.rename(runs.with_name(f"runs-before-{number}"))
    print(f"{runs} had networks of other data, which lie in {aside} now")


@app.command
def lab(*, folder: Path = Path()) -> None:
    """Open JupyterLab, on this machine only, with the tour.

    Example: climlab-dl lab --folder notebooks-of-mine

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
    # Not as a file to run, which only a browser is told of: the address that is printed leads to the tour, too.
    command.append(f"--LabApp.default_url=/lab/tree/notebooks/{first.name}")
    # Root may not start JupyterLab unless told; whoever is root here has chosen to be.
    if hasattr(os, "getuid") and os.getuid() == 0:
        command.append("--allow-root")
    os.execv(sys.executable, command)  # noqa: S606
