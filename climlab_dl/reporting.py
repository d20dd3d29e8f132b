"""One page about a training: what was run, how it went, what it finds, where it errs, and whether to believe it."""

import html
import json
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from climlab_dl.climate.fields import CLASSES
from climlab_dl.files import write_text
from climlab_dl.plot import pictures
from climlab_dl.plot.curves import curves
from climlab_dl.plot.held_out import held_out
from climlab_dl.plot.parameters import label
from climlab_dl.plot.static import static
from climlab_dl.plot.styles import date
from climlab_dl.plot.tables import SHOWN, number
from climlab_dl.words import counted

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

# Snapshots that the report looks at, evenly spaced over those held out.
SNAPSHOTS = 24


def report(run: str | Path, path: str | Path | None = None, *, snapshots: int = SNAPSHOTS) -> Path:
    """Write the report of a training as one self-contained page.

    Parameters
    ----------
    run
        The run's folder.
    path
        Of the page; by default ``report.html`` in the folder.
    snapshots
        How many held-out snapshots to look at, evenly spaced. Trainings that find parameters have those of all held-out
        universes instead, as their latest evaluation estimated them.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    FileNotFoundError
        No such folder, or no run in it.
    """
    from climlab_dl.training.folder import RunFolder

    folder = RunFolder(run)
    status, progress = folder.status(), folder.progress()
    described = json.loads(folder.described())
    state = f"{status['state']} at step {status['step']} of {status['steps']}"
    parts = [f"<h1>{html.escape(folder.path.name)}</h1><p>{html.escape(state)}. {html.escape(status['message'])}</p>"]
    if len(progress):
        parts += ["<h2>Learning</h2>", _picture(curves(progress, steps=status["steps"]), "learning curves")]
    if "ClimateArchive" in described.get("data", {}).get("class", "") and (folder.best() or folder.latest()):
        parts += _detections(folder.path, described, snapshots)
    seen = folder.held_out()
    if seen is not None and "estimate" in seen:
        parts += [
            "<h2>Parameters of held-out universes, estimated and true</h2>",
            _picture(held_out(seen), "estimates"),
            _errors(seen),
        ]
    parts += [_listed("Run", described), _listed("Environment", folder.environment())]
    path = folder.path / "report.html" if path is None else Path(path)
    write_text(path, _PAGE.format(title=html.escape(folder.path.name), body="\n".join(parts)))
    return path


def _detections(folder: Path, described: dict[str, Any], snapshots: int) -> list[str]:
    """Scores, confusion, best and worst snapshot, reliability and storms on what was held out."""
    from climlab_dl.climate import events
    from climlab_dl.inference.confusion import confusion
    from climlab_dl.inference.detect import Detector, detect
    from climlab_dl.inference.evaluation import evaluate
    from climlab_dl.inference.reliability import reliability
    from climlab_dl.plot import diagrams
    from climlab_dl.training import checkpoint
    from climlab_dl.training.climate_archive import ClimateArchive
    from climlab_dl.training.folder import checkpoint_of
    from climlab_dl.training.run import Run

    detector = Detector.load(folder)
    data = Run.from_json(json.dumps(described)).data
    assert isinstance(data, ClimateArchive)
    fields = data.held_out_snapshots(checkpoint.load(checkpoint_of(folder))["statistics"])
    there = fields.sizes["time"]
    fields = fields.isel(time=np.unique(np.linspace(0, there - 1, min(snapshots, there)).round().astype(int)))
    found = detect(detector, fields).compute()
    truth = fields.mask.compute()
    times = range(truth.sizes["time"])
    scores = [evaluate(found.mask.isel(time=step), truth.isel(time=step)) for step in times]
    each = [float(score.loc["detected", "iou_mean"]) for score in scores]
    table = reliability(found.probabilities, truth)
    storms = events.find(found.mask, fields)
    parts = [
        f"<h2>Scores on {fields.sizes['time']} of {there} held-out snapshots</h2>",
        evaluate(found.mask, truth).T.to_html(float_format="{:.3f}".format, na_rep="–"),
        "<h2>Confusion</h2>",
        _confusion(confusion(found.mask, truth)),
    ]
    for name, step in (("Best", int(np.nanargmax(each))), ("Worst", int(np.nanargmin(each)))):
        figure = static(fields, found.mask, truth, channel=detector.channels[0], time=step)
        parts += [f"<h2>{name} snapshot: mean IoU {each[step]:.3f}</h2>", _picture(figure, f"{name} snapshot")]
    parts += ["<h2>Reliability</h2>", _picture(diagrams.reliability(table), "reliability diagram"), _brier(table)]
    return [*parts, f"<h2>Largest of {counted(len(storms), 'event')}</h2>", _largest(storms)]


def _largest(storms: pd.DataFrame) -> str:
    """List the largest storms under the headings that the map has, in a frame that scrolls where a page is narrow."""
    largest = storms.sort_values("area_km2", ascending=False).head(20)
    columns: dict[str, Any] = {"time": [date(time) for time in largest["time"]]} if "time" in largest else {}
    for name, (heading, decimals, factor) in SHOWN.items():
        if name in largest:
            columns[heading] = largest[name].tolist() if decimals is None else (largest[name] * factor).tolist()
    listed = pd.DataFrame(columns).to_html(index=False, float_format=number)
    return f'<div style="overflow-x: auto">{listed}</div>'


def _errors(seen: "xr.Dataset") -> str:
    """Errors of the network's estimates by parameter, beside who always says the held-out universes' mean."""
    off, truth = seen["estimate"] - seen["truth"], seen["truth"]
    rows = {
        "RMSE": np.sqrt((off**2).mean("universe")),
        "bias": off.mean("universe"),
        "RMSE of their mean": truth.std("universe"),
    }
    columns = [label(str(name)) for name in seen["parameter"].values]
    table = pd.DataFrame({name: row.values for name, row in rows.items()}, columns).T
    return table.to_html(float_format="{:.4g}".format)


def _brier(table: pd.DataFrame) -> str:
    rows = {"Brier score": table.attrs["brier"], "of the class's frequency": table.attrs["brier_of_frequency"]}
    return pd.DataFrame(rows).T.to_html(float_format="{:.5f}".format)


def _confusion(counts: np.ndarray) -> str:
    shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    index = [f"true {name} ({total:,} pixels)" for name, total in zip(CLASSES, counts.sum(axis=1), strict=True)]
    return pd.DataFrame(shares, index, [f"found {name} (%)" for name in CLASSES]).to_html(float_format="{:.1f}".format)


def _picture(figure: "Figure", said: str) -> str:
    alternative = html.escape(f"{said}: {pictures.in_words(figure)}")
    encoded = b64encode(pictures.png(figure, 100, bbox_inches="tight")).decode()
    return f'<img alt="{alternative}" src="data:image/png;base64,{encoded}">'


def _listed(title: str, facts: dict[str, Any]) -> str:
    text = html.escape(json.dumps(facts, indent=1, ensure_ascii=False))
    return f"<details><summary>{title}</summary><pre>{text}</pre></details>"


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #222; }}
table {{ border-collapse: collapse; border: 0; font-size: 13px; }}
td, th {{ padding: 0.2em 0.6em; border: 0; border-bottom: 1px solid #ddd; text-align: right; }}
td {{ white-space: nowrap; }}
img {{ max-width: 100%; }}
summary {{ font-size: 1.5em; font-weight: bold; margin: 0.8em 0; cursor: pointer; }}
pre {{ background: #f6f6f6; padding: 1em; overflow-x: auto; font-size: 12px; }}
</style></head>
<body>
{body}
</body>
</html>
"""
