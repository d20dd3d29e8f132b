"""Learning curves: the loss and the held-out metrics of a training, from its table of progress."""

from typing import TYPE_CHECKING

import numpy as np

from climlab_dl.plot.parameters import label
from climlab_dl.plot.styles import CLASS_COLORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KINDS = {"iou": "held-out IoU", "mae": "held-out error / error of their mean"}
_NOTHING = {"iou": "dashed: nothing found anywhere", "mae": "dashed: always their mean"}
"""What a line is called that knows nothing, by the kind of the metric."""
_UNDRAWN = ("iou_per_sample",)
_COLORS = {**CLASS_COLORS, "background": "#8c8c8c", "mean": "#1b4f8a"}


def curves(progress: "pd.DataFrame", title: str = "", *, steps: int = 0) -> "Figure":
    """Draw the loss, and beside it the held-out metrics by class or parameter.

    Parameters
    ----------
    progress
        Reports of a training (``training.progress()``): columns step, loss and held-out metrics ``iou_<class>`` or
        ``mae_<parameter>``. Dashed is what knows nothing: ``baseline_iou_<class>`` of an all-background mask, and 1
        where errors are divided by those of always predicting the mean, ``baseline_mae_<parameter>``; both errors stand
        at the end of the line, in the parameter's unit.
    title
        Line above both.
    steps
        Where the step axis ends; by default at the latest report.

    Returns
    -------
    Figure
        Two panels. The loss axis is logarithmic where losses are positive and of several sizes.
    """
    figure, left, right, end = _panels(title, steps, [progress])
    _draw_loss(left, {"": progress})
    _draw_metrics(right, progress, end)
    return figure


def compare(runs: "Mapping[str, pd.DataFrame]", title: str = "", *, steps: int = 0) -> "Figure":
    """Draw the losses of several trainings, and beside them their leading held-out metrics.

    Parameters
    ----------
    runs
        Reports of trainings by name, as :func:`curves` takes them.
    title, steps
        As for :func:`curves`.
    """
    figure, left, right, end = _panels(title, steps, list(runs.values()))
    _draw_loss(left, runs)
    scores = {name: _leading(progress) for name, progress in runs.items()}
    kinds = {kind for kind, _, values in scores.values() if len(values)}
    labels = []
    for number, (name, (kind, step, values)) in enumerate(scores.items()):
        if kinds == {kind} and len(values):
            right.plot(step, values, color=f"C{number}", linewidth=1.4, marker="o", markersize=3)
            labels.append((float(values[-1]), f"{name} {values[-1]:.2f}", f"C{number}"))
    if len(kinds) > 1:
        _say(right, "scores of different kinds")
    else:
        _finish(right, labels, end, kinds.pop() if kinds else "", "mean ")
    return figure


def _panels(title: str, steps: int, tables: "list[pd.DataFrame]") -> "tuple[Figure, Axes, Axes, int]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    if title:
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    end = max([steps, 1, *(int(step) for table in tables for step in table["step"])])
    for axes in (left, right):
        axes.set_xlim(0, end)
        axes.set_xlabel("step")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e6e6")
    return figure, left, right, end


def _known(progress: "pd.DataFrame", name: str) -> tuple[np.ndarray, np.ndarray]:
    """Give steps and values of a column, where it has values; none if there is no such column."""
    if name not in progress:
        return np.empty(0, dtype=int), np.empty(0)
    values = progress[name].to_numpy(dtype=float)
    known = np.isfinite(values)
    return progress["step"].to_numpy(dtype=int)[known], values[known]


def _leading(progress: "pd.DataFrame") -> tuple[str, np.ndarray, np.ndarray]:
    """Give kind, steps and values of the metric that stands for all, errors as shares of those of the mean."""
    for kind in _KINDS:
        step, values = _known(progress, f"{kind}_mean")
        if len(values):
            return kind, step, values / _known(progress, f"baseline_{kind}_mean")[1] if kind == "mae" else values
    return "", np.empty(0), np.empty(0)


def _draw_loss(axes: "Axes", runs: "Mapping[str, pd.DataFrame]") -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_ylabel("loss")
    known = {name: _known(progress, "loss") for name, progress in runs.items()}
    losses = np.concatenate([np.empty(0), *(loss for _, loss in known.values())])
    if not len(losses):
        _say(axes, "no report yet")
        return
    for number, (step, loss) in enumerate(known.values()):
        color = f"C{number}" if len(known) > 1 else "#1b4f8a"
        axes.plot(step, loss, color=color, linewidth=1.5, marker="." if len(loss) == 1 else None)
    # Over a short range a logarithmic axis has too few ticks to be read by.
    if np.all(losses > 0) and losses.max() > 10 * losses.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_metrics(axes: "Axes", progress: "pd.DataFrame", end: int) -> None:
    names = [name for name in map(str, progress.columns) if name.partition("_")[0] in _KINDS]
    names = [name for name in names if name not in _UNDRAWN and len(_known(progress, name)[1])]
    kind = names[0].partition("_")[0] if names else ""
    labels = []
    for number, name in enumerate(names):
        of = name.partition("_")[2]
        color = _COLORS.get(of, f"C{number}")
        step, values = _known(progress, name)
        text = f"{of} {values[-1]:.2f}"
        baseline = _known(progress, f"baseline_{name}")[1][-1:]
        if kind == "mae" and len(baseline):
            error, values = values[-1], values / baseline
            symbol, _, unit = label(of).rstrip(")").partition(" (")
            # In the parameter's unit; the mean over parameters has none.
            physical = f"{_two_digits(error)} of {_two_digits(baseline[0])} {unit}".strip()
            text = f"{symbol} {values[-1]:.2f}" + (f" ({physical})" if of != "mean" else "")
        elif len(baseline):
            axes.axhline(baseline[0], color=color, linewidth=0.9, linestyle="--")
        axes.plot(step, values, color=color, linewidth=2.2 if of == "mean" else 1.4, marker="o", markersize=3)
        labels.append((float(values[-1]), text, color))
    _finish(axes, labels, end, kind)


def _two_digits(value: float) -> str:
    return f"{value:#.2g}".rstrip(".")


def _finish(axes: "Axes", labels: list[tuple[float, str, str]], end: int, kind: str, which: str = "") -> None:
    """Give the panel of metrics its scale and words, or say that there is nothing to draw."""
    if not labels:
        _say(axes, "no evaluation yet")
        return
    axes.set_ylabel(which + _KINDS[kind])
    if kind == "mae":
        axes.axhline(1.0, color="#8c8c8c", linewidth=0.9, linestyle="--")
        # What is worse than twice that, as early steps can be by far, would press all the rest together.
        axes.set_ylim(0, min(2.0, axes.get_ylim()[1]))
    else:
        axes.set_ylim(0, 1)
    if any(line.get_linestyle() == "--" for line in axes.lines):
        axes.set_title(_NOTHING[kind], loc="left", fontsize=8, color="#606060")
    _label_ends(axes, labels, end)


def _say(axes: "Axes", why: str) -> None:
    """Say why there is nothing to draw."""
    axes.set_yticks([])
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", color="#808080")


def _label_ends(axes: "Axes", labels: list[tuple[float, str, str]], end: int) -> None:
    """Write each line's name and latest value at its right end, apart enough to be read."""
    low, high = axes.get_ylim()
    apart = 0.085 * (high - low)
    labels = sorted(labels, reverse=True)
    heights = [min(value, high) for value, _, _ in labels]
    for below in range(1, len(heights)):
        heights[below] = min(heights[below], heights[below - 1] - apart)
    # What was pushed below the axis goes up again, and with it what stands in its way.
    for height, at in enumerate(reversed(range(len(heights)))):
        heights[at] = max(heights[at], low + height * apart)
    for (_, text, color), height in zip(labels, heights, strict=True):
        place = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(text, (end, height), color=color, fontsize=8, **place)
