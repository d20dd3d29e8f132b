"""Learning curves: the loss and the held-out metrics of a training, from its table of progress."""

import io
from typing import TYPE_CHECKING

import numpy as np

from climlab_dl.plot.styles import CLASS_COLORS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KINDS = {"iou": "held-out IoU", "mae": "held-out error / prior's error"}
_UNDRAWN = ("iou_per_sample",)
_COLORS = {**CLASS_COLORS, "background": "#8c8c8c", "mean": "#1b4f8a"}


def curves(progress: "pd.DataFrame", title: str = "", *, steps: int = 0) -> "Figure":
    """Draw the loss, and beside it the held-out metrics by class or parameter.

    Parameters
    ----------
    progress
        Reports of a training (``training.progress()``): columns step, loss and held-out metrics ``iou_<class>`` or
        ``mae_<parameter>``. Dashed is what knows nothing: ``baseline_iou_<class>`` of an all-background mask, and 1
        where errors are divided by those of always predicting the mean, ``baseline_mae_<parameter>``.
    title
        Line above both.
    steps
        Where the step axis ends; by default at the latest report.

    Returns
    -------
    Figure
        Two panels. The loss axis is logarithmic where all losses are positive.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    if title:
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    end = max([steps, 1, *progress["step"].astype(int)])
    for axes in (left, right):
        axes.set_xlim(0, end)
        axes.set_xlabel("step")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e6e6")
    _draw_loss(left, progress)
    _draw_metrics(right, progress, end)
    return figure


def png(figure: "Figure") -> bytes:
    """Encode a figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=96)
    return buffer.getvalue()


def _known(progress: "pd.DataFrame", name: str) -> tuple[np.ndarray, np.ndarray]:
    """Give steps and values of a column, where it has values; none if there is no such column."""
    if name not in progress:
        return np.empty(0, dtype=int), np.empty(0)
    values = progress[name].to_numpy(dtype=float)
    known = np.isfinite(values)
    return progress["step"].to_numpy(dtype=int)[known], values[known]


def _draw_loss(axes: "Axes", progress: "pd.DataFrame") -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_ylabel("loss")
    step, loss = _known(progress, "loss")
    if not len(loss):
        axes.text(0.5, 0.5, "no report yet", transform=axes.transAxes, ha="center", color="#808080")
        return
    axes.plot(step, loss, color="#1b4f8a", linewidth=1.5, marker="." if len(loss) == 1 else None)
    if np.all(loss > 0):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _draw_metrics(axes: "Axes", progress: "pd.DataFrame", end: int) -> None:
    names = [name for name in map(str, progress.columns) if name.partition("_")[0] in _KINDS]
    names = [name for name in names if name not in _UNDRAWN and len(_known(progress, name)[1])]
    if not names:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no evaluation yet", transform=axes.transAxes, ha="center", color="#808080")
        return
    kind = names[0].partition("_")[0]
    axes.set_ylabel(_KINDS[kind])
    labels = []
    for number, name in enumerate(names):
        of = name.partition("_")[2]
        color = _COLORS.get(of, f"C{number}")
        step, values = _known(progress, name)
        baseline = _known(progress, f"baseline_{name}")[1][-1:]
        if kind == "mae" and len(baseline):
            values = values / baseline
        elif len(baseline):
            axes.axhline(baseline[0], color=color, linewidth=0.9, linestyle="--")
        axes.plot(step, values, color=color, linewidth=2.2 if of == "mean" else 1.4, marker="o", markersize=3)
        labels.append((float(values[-1]), of, color))
    if kind == "mae":
        axes.axhline(1.0, color="#8c8c8c", linewidth=0.9, linestyle="--")
        axes.set_ylim(bottom=0)
    else:
        axes.set_ylim(0, 1)
    _label_ends(axes, labels, end)


def _label_ends(axes: "Axes", labels: list[tuple[float, str, str]], end: int) -> None:
    """Write each line's name and latest value at its right end, apart enough to be read."""
    low, high = axes.get_ylim()
    high = max(high, 1.05 * max(value for value, _, _ in labels))
    axes.set_ylim(low, high)
    apart, above = 0.085 * (high - low), float("inf")
    for value, name, color in sorted(labels, reverse=True):
        above = min(value, above - apart)
        text = f"{name} {value:.2f}" if high > 0.1 else f"{name} {value:.3g}"
        axes.annotate(
            text, (end, above), xytext=(4, 0), textcoords="offset points", color=color, fontsize=8, va="center"
        )
