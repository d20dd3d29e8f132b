"""How training scales: efficiency over ranks, what a step is made of, and a model beside what was measured."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from climlab_dl.plot.pictures import written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PARTS = {"compute": "#4c78a8", "exposed": "#e45756", "straggling": "#f2b134", "input": "#8c6bb1"}
_NAMED = {"exposed": "exchange that shows", "straggling": "waiting for the slowest", "input": "waiting for samples"}


def curves(table: pd.DataFrame, *, path: str | Path | None = None) -> "Figure":
    """Draw efficiency over ranks, a line per technique, beside each other for each machine.

    Parameters
    ----------
    table
        With columns machine, workload, technique, ranks and efficiency.
    path
        Where to write it, if anywhere.

    Returns
    -------
    Figure
    """
    figure, panels = _panels(table, 4.0)
    for panel, (machine, rows) in zip(panels, table.groupby("machine", sort=False), strict=True):
        for number, (technique, line) in enumerate(rows.groupby("technique", sort=False)):
            # Thinner and thinner, because lines that differ by less than a point lie on each other.
            width, style = max(1.4, 4.5 - 0.8 * number), "--" if technique == "no staging" else "-"
            panel.plot(line["ranks"], line["efficiency"], style, color=f"C{number}", lw=width, label=technique)
        panel.set(xscale="log", ylim=(0, 1.03), xlabel="ranks", title=f"{machine}: {rows['workload'].iloc[0]}")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("efficiency")
    panels[-1].legend(frameon=False, loc="lower left")
    return written(figure, path)


def parts(table: pd.DataFrame, *, path: str | Path | None = None) -> "Figure":
    """Draw the shares of a step of each technique, on the most ranks that the table has; that of compute is efficiency.

    Parameters
    ----------
    table
        With columns machine, technique, ranks, seconds, exposed, straggling and input.
    path
        Where to write it, if anywhere.

    Returns
    -------
    Figure
    """
    most = table.loc[table["ranks"] == table["ranks"].max()]
    figure, panels = _panels(most, 3.4)
    for panel, (machine, rows) in zip(panels, most.groupby("machine", sort=False), strict=True):
        waited = rows[list(_PARTS)[1:]].sum(axis=1)
        seconds, left = rows.assign(compute=rows["seconds"] - waited), pd.Series(0.0, index=rows.index)
        for part, color in _PARTS.items():
            share = seconds[part] / seconds["seconds"]
            panel.barh(rows["technique"], share, left=left, color=color, label=_NAMED.get(part, part))
            left = left + share
        panel.set(xlim=(0, 1), xlabel="share of a step")
        panel.set_title(f"{machine}, {table['ranks'].max():,} ranks")
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=4)
    return written(figure, path)


def against(table: pd.DataFrame, *, within: float = 0.05, path: str | Path | None = None) -> "Figure":
    """Draw modelled efficiencies over published or measured ones.

    Parameters
    ----------
    table
        With columns what, machine, published and modelled.
    within
        Half the width of the band round what would be exact.
    path
        Where to write it, if anywhere.

    Returns
    -------
    Figure
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 4.4), layout="constrained")
    axes: Axes = figure.subplots()
    low = min(table["published"].min(), table["modelled"].min()) - 0.05
    ends = [low, 1.0]
    axes.fill_between(ends, [end - within for end in ends], [end + within for end in ends], color="0.9", lw=0)
    axes.plot(ends, ends, color="0.6", lw=1)
    named = table["machine"] + " (" + table["what"] + ")"
    for number, (name, rows) in enumerate(table.groupby(named, sort=False)):
        axes.plot(rows["published"], rows["modelled"], "o", color=f"C{number}", ms=6, label=name)
    axes.set(xlim=ends, ylim=ends, xlabel="efficiency, published", ylabel="efficiency, modelled", aspect="equal")
    axes.legend(frameon=False, loc="upper left", fontsize=8)
    axes.grid(alpha=0.3)
    return written(figure, path)


def _panels(table: pd.DataFrame, height: float) -> "tuple[Figure, Sequence[Axes]]":
    """Give a figure with a panel a machine, side by side."""
    from matplotlib.figure import Figure

    machines = len(table["machine"].unique())
    figure = Figure(figsize=(5.2 * machines, height), layout="constrained")
    return figure, figure.subplots(1, machines, squeeze=False, sharey=True)[0]
