"""Runs side by side: how each went, and in what their descriptions differ. Needs no torch."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from climlab_dl.training.folder import RunFolder


def runs_table(folders: str | Path | Iterable[str | Path]) -> pd.DataFrame:
    """Compare runs, a row each.

    Parameters
    ----------
    folders
        Run folders, or one folder below which they lie.

    Returns
    -------
    DataFrame
        By name of the folder: ``state``, ``step``, ``steps``; ``best``, the best held-out score so far (IoU averaged
        over classes, or error averaged over parameters in units of their spread), ``best_step`` and ``score``, which of
        the two it is; ``loss`` and ``rate`` (samples per second) of the latest report; ``minutes`` of training; and a
        column for every entry in which the runs' descriptions differ, such as ``optimizer.learning_rate``.

    Raises
    ------
    FileNotFoundError
        If there is no run.
    """
    paths = _runs_below(Path(folders)) if isinstance(folders, str | Path) else [Path(folder) for folder in folders]
    found = [RunFolder(path) for path in paths]
    if not found:
        raise FileNotFoundError(f"no run in {folders}: a run's folder has a run.json")
    common = Path(*_shared_parts([folder.path.parts[:-1] for folder in found]))
    names = [folder.path.relative_to(common).as_posix() for folder in found]
    rows = pd.DataFrame([_results(folder) for folder in found], index=pd.Index(names, name="run"))
    differences = _differences([_description(folder) for folder in found], names)
    return rows.join(differences[[name for name in differences if name not in rows]])


def _runs_below(folder: Path) -> list[Path]:
    if (folder / "run.json").exists():
        return [folder]
    return sorted(path.parent for path in folder.glob("**/run.json"))


def _shared_parts(parts: list[tuple[str, ...]]) -> Iterator[str]:
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            return
        yield level[0]


def _results(folder: RunFolder) -> dict[str, Any]:
    status, progress = folder.status(), folder.progress()
    row = {name: status[name] for name in ("state", "step", "steps")}
    row |= {"best": float("nan"), "best_step": pd.NA, "score": ""}
    for score, sign in (("iou_mean", 1), ("mae_mean", -1)):
        values = progress[score].to_numpy(dtype=float) if score in progress else np.empty(0)
        if np.isfinite(values).any():
            best = int(np.nanargmax(sign * values))
            row |= {"best": float(values[best]), "best_step": int(progress["step"].to_numpy()[best]), "score": score}
    for name in ("loss", "rate"):
        row[name] = float(progress[name].to_numpy()[-1]) if len(progress) else float("nan")
    # Each start of a training counts its seconds anew: its last report is followed by a smaller number, or by none.
    seconds = progress["seconds"].to_numpy(dtype=float)
    ends = seconds[np.diff(seconds, append=-np.inf) < 0]
    return row | {"minutes": round(float(ends.sum()) / 60, 2)}


def _description(folder: RunFolder) -> dict[str, Any]:
    return dict(_entries(json.loads(folder.run_json.read_text(encoding="utf-8"))))


def _entries(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Give dotted names and plain values; the class of a part stands under the part's own name."""
    if not isinstance(value, Mapping):
        yield name, tuple(value) if isinstance(value, list) else value
        return
    if name and "class" in value:
        yield name, str(value["class"]).rpartition(".")[2]
    for key, item in value.items():
        if key != "class":
            yield from _entries(item, f"{name}.{key}" if name else key)


def _differences(descriptions: list[dict[str, Any]], names: list[str]) -> pd.DataFrame:
    entries = dict.fromkeys(key for description in descriptions for key in description)
    differing = [key for key in entries if len({repr(description.get(key)) for description in descriptions}) > 1]
    rows = [{key: description.get(key, "") for key in differing} for description in descriptions]
    return pd.DataFrame(rows, index=pd.Index(names, name="run"), columns=differing)
