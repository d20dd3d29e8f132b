"""Runs side by side: how each went, and in what their descriptions differ. Needs no torch."""

import html
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from climlab_dl.training import places
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.summary import recent_rate

# Sorts the rows by the column whose head is clicked, as numbers where they are, the other way round the second time;
# what has no value stays below.
_SORT = """style="cursor:pointer" title="click to sort" onclick="(function (head) {
    const body = head.closest('table').tBodies[0], at = head.cellIndex;
    const way = head.dataset.way = head.dataset.way === 'up' ? 'down' : 'up';
    const value = row => row.cells[at].dataset.value;
    const compare = (a, b) => (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b) * (way === 'up' ? 1 : -1);
    const order = (a, b) => (value(a) === '') - (value(b) === '') || compare(value(a), value(b));
    body.append(...Array.from(body.rows).sort(order));
})(event.target)\""""


class Runs(pd.DataFrame):
    """A table of runs. In a notebook it has bars, and a click on a column's head sorts it, in a saved page too."""

    @property
    def _constructor(self) -> type["Runs"]:
        return Runs

    def _repr_html_(self) -> str:
        scores = set(self["score"].dropna()) - {""} if "score" in self else set()
        said = f"best {scores.pop()}" if len(scores) == 1 else ""
        columns = [str(name) for name in self.columns if name != "steps" and not (said and name == "score")]
        titles = [self.index.name or "", *(said if said and name == "best" else name for name in columns)]
        heads = "".join(f"<th style='text-align:left'>{html.escape(title)}</th>" for title in titles)
        rows = [
            "".join([_cell(name, html.escape(str(name))), *(_cell(*_shown(column, row)) for column in columns)])
            for name, row in zip(self.index, self.to_dict("records"), strict=True)
        ]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f'<table class="dataframe runs"><thead {_SORT}><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'


def table(folders: str | Path | Iterable[str | Path] = "runs") -> Runs:
    """Compare runs, a row each.

    Parameters
    ----------
    folders
        Run folders, or one folder below which they lie.

    Returns
    -------
    DataFrame
        To be sorted with ``sort_values``, or by a click on a column's head.
        By name of the folder: ``state``, ``step``, ``steps``; ``best``, the best held-out score so far (IoU averaged
        over classes, or error averaged over parameters in units of their spread), ``best_step`` and ``score``, which of
        the two it is; ``loss`` of the latest report and ``rate`` (samples per second), the median of the latest five;
        ``minutes`` of training; and a column for every entry in which the runs' descriptions differ, such as
        ``optimizer.learning_rate``.

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
    return Runs(rows.join(differences[[name for name in differences if name not in rows]]))


def _shown(column: str, row: Mapping[str, Any]) -> tuple[Any, str]:
    """Give the value to sort a cell by, and what it shows."""
    value = row[column]
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "", ""
    if column == "step" and "steps" in row:
        bar = f"<progress value='{value:g}' max='{max(row['steps'], 1):g}' style='width:6em'></progress>"
        return value, f"{bar} {value:g} of {row['steps']:g}"
    return value, html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))


def _cell(value: Any, shown: str) -> str:
    return f"<td data-value='{html.escape(str(value))}' style='text-align:left;white-space:nowrap'>{shown}</td>"


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
    row["loss"] = float(progress["loss"].to_numpy()[-1]) if len(progress) else float("nan")
    row["rate"] = recent_rate(progress)
    # Each start of a training counts its seconds anew: its last report is followed by a smaller number, or by none.
    seconds = progress["seconds"].to_numpy(dtype=float)
    ends = seconds[np.diff(seconds, append=-np.inf) < 0]
    return row | {"minutes": round(float(ends.sum()) / 60, 2)}


def _description(folder: RunFolder) -> dict[str, Any]:
    return dict(_entries(json.loads(folder.described()) | {places.STARTED_IN: ""}))


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
