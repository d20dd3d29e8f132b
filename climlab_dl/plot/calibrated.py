"""Whether posteriors mean what they say: ranks, coverage and TARP in their bands; predictions against the truth."""

from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from climlab_dl.plot import pictures
from climlab_dl.plot.parameters import COLORS, label
from climlab_dl.words import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from climlab_dl.inference.coverage import Calibration

_BAND = {"color": "0.85", "lw": 0}
_LEVELS = np.linspace(0.02, 0.98, 49)


def calibration(checked: "Calibration", *, path: str | Path | None = None) -> "Figure":
    """Draw three tests of posteriors, each with the band in which calibrated ones stay.

    Left, the distribution of the truths' ranks among the draws less that of a uniform one, with its p below: a slope
    upwards and down again is a posterior that lies too high, down and up again one too low, an S one that is too narrow
    or too wide. Middle, how often the central
    interval of each level holds the truth, less the level: below zero the posteriors are too narrow. Right, the same
    for all parameters jointly (TARP).

    Parameters
    ----------
    checked
        From ``calibration.check`` or ``estimates``.
    path
        Where to write it, if anywhere.

    Returns
    -------
    Figure
        The bands of the ranks and of TARP hold 95% of whole curves, those of the coverage 95% at each level.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.4), layout="constrained")
    ranks, coverage, joint = figure.subplots(1, 3, sharey=True)
    _ranks(ranks, checked)
    _coverage(coverage, checked)
    tarp = checked.tarp()
    level = tarp["level"].to_numpy()
    joint.fill_between(level, tarp["low"] - level, tarp["high"] - level, **_BAND)
    joint.plot(level, tarp["coverage"] - level, color="k", lw=1.5)
    joint.set(title=f"all jointly (TARP): {_verdict(checked.tarp_ok)}", xlabel="credibility")
    for axes in (ranks, coverage, joint):
        axes.axhline(0, color="0.4", lw=0.8)
        axes.set_xlim(0, 1)
        axes.title.set_fontsize(10)
    # Below the panels, where it hides none of the curves.
    figure.legend(*ranks.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    few = ", too few to contradict much" if checked.few and checked.ok else ""
    universes = counted(len(checked.truth), "universe")
    figure.suptitle(f"{universes} of known parameters{few}; 95% bands in grey", fontsize=10)
    return pictures.written(figure, path)


def predicted(checked: "Calibration", *, path: str | Path | None = None) -> "Figure":
    """Draw posterior means and spreads against the truth, and below what they are off by.

    Parameters
    ----------
    checked
        From ``calibration.check`` or ``estimates``.
    path
        Where to write it, if anywhere.

    Returns
    -------
    Figure
        A column a parameter, in physical units where the prior is known.
    """
    from matplotlib.figure import Figure

    truth, draws = checked.in_physical(checked.truth), checked.in_physical(checked.draws)
    means, spreads = draws.mean(1), draws.std(1)
    figure = Figure(figsize=(3.5 * len(checked.names), 5.0), layout="constrained")
    panels = figure.subplots(2, len(checked.names), squeeze=False, sharex="col", height_ratios=(2, 1))
    for column, name in enumerate(checked.names):
        above, below = panels[:, column]
        true, mean, spread = truth[:, column], means[:, column], spreads[:, column]
        look = {"fmt": "o", "ms": 2.5, "lw": 0.5, "color": COLORS[column % len(COLORS)], "alpha": 0.7}
        ends = np.array([true.min(), true.max()])
        above.errorbar(true, mean, spread, **look)
        above.plot(ends, ends, color="k", lw=0.8)
        if checked.prior is not None:
            above.hlines(checked.prior[name], *ends, color="0.5", lw=0.8, ls=":")
        below.errorbar(true, mean - true, spread, **look)
        below.axhline(0, color="k", lw=0.8)
        rmse, bias = np.sqrt(np.mean((mean - true) ** 2)), np.mean(mean - true)
        above.set_title(f"{label(name)}: RMSE {rmse:.3g}, bias {bias:+.2g}", fontsize=10)
        below.set_xlabel(f"true {label(name)}")
    panels[0, 0].set_ylabel("posterior mean and spread")
    panels[1, 0].set_ylabel("mean less truth")
    return pictures.written(figure, path)


def _ranks(axes: "Axes", checked: "Calibration") -> None:
    ranks = np.linspace(0, 1, 101)
    low, high = checked.rank_band(ranks)
    axes.fill_between(ranks, low - ranks, high - ranks, **_BAND)
    p = checked.p_values()
    for color, name, found in zip(cycle(COLORS), checked.names, checked.ranks.T, strict=False):
        ordered = np.sort(found)
        share = (np.arange(len(ordered)) + 0.5) / len(ordered)
        axes.plot(ordered, share - ordered, color=color, lw=1.5, label=f"{label(name)}: p = {p[name]:.2g}")
    axes.set(title="ranks of the truth (SBC)", xlabel="rank among the draws", ylabel="share found less expected")


def _coverage(axes: "Axes", checked: "Calibration") -> None:
    table = checked.coverage(tuple(_LEVELS.tolist()))
    axes.fill_between(_LEVELS, table["low"] - _LEVELS, table["high"] - _LEVELS, **_BAND)
    for color, name in zip(cycle(COLORS), checked.names, strict=False):
        axes.plot(_LEVELS, table[name] - _LEVELS, color=color, lw=1.5, label=label(name))
    axes.set(title="central intervals", xlabel="level")


def _verdict(inside: bool) -> str:
    return "inside its band" if inside else "outside its band"
