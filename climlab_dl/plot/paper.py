"""The corner plot and the views of a volume with matplotlib: for paper, and for who has no browser."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from climlab_dl.plot import credible
from climlab_dl.plot.parameters import COLORS, label
from climlab_dl.plot.pictures import written

Limits = Mapping[str, tuple[float, float]]


def corner(
    tables: Mapping[str, pd.DataFrame],
    truth: Mapping[str, float],
    prior: Limits,
    limits: Limits,
    bounds: Limits,
    path: str | Path | None,
) -> Figure:
    """Distributions on the diagonal, 68% and 95% regions below it, truth dashed, prior dotted, intervals as titles."""
    names = list(limits)
    figure = Figure(figsize=(2.4 * len(names) + 0.6, 2.4 * len(names) + 0.4), layout="constrained")
    axes = figure.subplots(len(names), len(names), squeeze=False)
    for row, below in enumerate(names):
        for column, across in enumerate(names):
            panel = axes[row][column]
            if column > row:
                panel.set_axis_off()
                continue
            for color, (run, table) in zip(COLORS, tables.items(), strict=False):
                if column == row:
                    edges = credible.bins(limits[across], prior.get(across)).tolist()
                    panel.hist(table[across], bins=edges, density=True, histtype="stepfilled", alpha=0.3, color=color,
                               edgecolor=color, label=run)  # fmt: skip
                else:
                    x, y = table[across].to_numpy(), table[below].to_numpy()
                    grid = credible.smoothed(x, y, (bounds[across], bounds[below]))
                    levels = credible.thresholds(grid[2])[::-1]
                    shades = [*levels, grid[2].max() * 1.001]
                    fills = [to_rgba(color, alpha) for alpha in (0.2, 0.45)]
                    panel.contourf(grid[0], grid[1], grid[2].T, levels=shades, colors=fills)
                    panel.contour(grid[0], grid[1], grid[2].T, levels=levels, colors=color, linewidths=1)
            for end in prior.get(across, ()):
                panel.axvline(end, color="0.5", lw=0.8, ls=":")
            if across in truth:
                panel.axvline(truth[across], color="k", lw=0.8, ls="--")
            panel.set_xlim(limits[across])
            if column == row:
                panel.set_yticks([])
                low, middle, high = np.quantile(next(iter(tables.values()))[across], [0.16, 0.5, 0.84])
                spread = f"^{{+{high - middle:.3f}}}_{{-{middle - low:.3f}}}"
                panel.set_title(f"{label(across)} = ${middle:.3f}{spread}$", fontsize=10)
            else:
                panel.set_ylim(limits[below])
                for end in prior.get(below, ()):
                    panel.axhline(end, color="0.5", lw=0.8, ls=":")
                if below in truth:
                    panel.axhline(truth[below], color="k", lw=0.8, ls="--")
            if column == 0 and row > 0:
                panel.set_ylabel(label(below))
            elif column < row:
                panel.set_yticklabels([])
            panel.set_xlabel(label(across)) if row == len(names) - 1 else panel.set_xticklabels([])
    if len(tables) > 1:
        handles, texts = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, texts, loc="upper right", frameon=False)
    return written(figure, path)


def images(
    rows: Mapping[str, Mapping[str, np.ndarray]],
    side: float,
    unit: str,
    axes_of: Callable[[str], tuple[str, str]],
    path: str | Path | None,
) -> Figure:
    """Pictures of a cube, a row each, the same name with the same colours."""
    columns = list(next(iter(rows.values())))
    figure = Figure(figsize=(3.1 * len(columns), 2.7 * len(rows) + 0.3), layout="constrained")
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    drawn = None
    for line, (title, pictures) in zip(axes, rows.items(), strict=True):
        for panel, (name, picture) in zip(line, pictures.items(), strict=True):
            top = max(float(row[name].max()) for row in rows.values())
            drawn = panel.imshow(picture.T, origin="lower", extent=(0, side, 0, side), vmin=0, vmax=top, cmap="inferno")
            figure.colorbar(drawn, ax=panel, shrink=0.75).ax.tick_params(labelsize=7)
            across, along = axes_of(name)
            panel.set_title(", ".join(filter(None, (title, name))), fontsize=8)
            panel.set_xlabel(f"{across} ({unit})", fontsize=8)
            panel.set_ylabel(f"{along} ({unit})", fontsize=8)
            panel.tick_params(labelsize=7)
    figure.suptitle("ln(1 + density / mean)", fontsize=10)
    return written(figure, path)
