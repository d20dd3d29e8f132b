"""Posteriors and volumes to look at: a corner plot with linked brushing, density cubes, and static twins.

    posteriors.corner(draws, truth=volume.parameters)
    posteriors.corner({"network": draws, "power spectrum": others}, truth=volume.parameters)
    posteriors.volume(volume)
    posteriors.static(draws, truth=volume.parameters, path="corner.png")
    posteriors.calibration(checked), posteriors.predicted(checked)
    posteriors.save(posteriors.corner(draws), "corner.html")

The brushing is done by the page itself, so it works in a saved notebook without a kernel.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from climlab_dl.plot import credible, cubes, spectra
from climlab_dl.plot.brushing import Brush
from climlab_dl.plot.calibrated import calibration, predicted
from climlab_dl.plot.cubes import volume, volume_static
from climlab_dl.plot.parameters import COLORS, label, refuse_unknown
from climlab_dl.plot.saving import save
from climlab_dl.plot.spectra import power

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["calibration", "corner", "label", "power", "predicted", "save", "static", "volume", "volume_static"]

Draws = pd.DataFrame | Mapping[str, pd.DataFrame]
Span = Literal["prior", "draws"]

TRUTH, PRIOR = "#111111", "#888888"
# A panel's side in screen pixels, and how many draws are dots in it.
SIDE, DOTS = 190, 3000
# The number at an axis's end reaches half its width beyond the panel, and five numbers or more of five digits each
# would run into one another.
_ROOM = {"frame_width": SIDE, "frame_height": SIDE, "border": 22}
_FEW_NUMBERS = {"xticks": 4, **_ROOM}


def corner(
    draws: Draws,
    truth: Mapping[str, float] | None = None,
    prior: Mapping[str, tuple[float, float]] | None = None,
    *,
    span: Span = "prior",
) -> Any:
    """Every parameter's distribution and every pair's, with the 68% and 95% regions.

    Select draws in any panel with the box or the lasso: they stand out in all others, the histograms show their share,
    the table their intervals and, where three parameters or more fix it, the last panel their linear power spectra. A
    click outside takes it back.

    Parameters
    ----------
    draws
        A row a draw, a column a parameter; or several such tables by name, laid over each other.
    truth
        Drawn as lines where it is known.
    prior
        Ends of the flat prior; ``draws.attrs["prior"]`` if None.
    span
        Whether the axes show the whole ``"prior"``, or what the ``"draws"`` fill of it and a third more.

    Returns
    -------
    holoviews.Layout

    Raises
    ------
    ValueError
        If there are no draws, the tables have different parameters, or truth or prior other ones.
    TypeError
        If truth or prior are not by name.
    """
    hv = cubes.holoviews()
    tables, prior = _tables(draws, truth, prior), prior if prior is not None else _prior(draws)
    limits = _limits(tables, prior, span)
    dotted = {name: _thinned(table) for name, table in tables.items()}
    names = list(limits)
    known = {name: f"{truth[name]:.3f}" if truth and name in truth else "" for name in names}
    powers = {run: spectra.of_draws(table) for run, table in dotted.items() if not spectra.unfixed(table)}
    middle = np.median(next(iter(powers.values())), axis=0) if powers else np.ones_like(spectra.K)
    powers = {run: values / middle for run, values in powers.items()}
    brush = Brush(dict(zip(tables, COLORS, strict=False)), {name: label(name) for name in names}, known, powers)
    panels: list[Any] = []
    for row, below in enumerate(names):
        for column, across in enumerate(names):
            if column > row:
                place = (row, column - len(names))
                if place == (0, -1):
                    panels.append(_table(hv, brush, tables, names))
                elif place == (1, -1) and powers:
                    panels.append(spectra.panel(brush, truth, middle).opts(**_ROOM))
                elif place == (1, -1):
                    panels.append(spectra.absent(names).opts(width=SIDE, height=SIDE))
                else:
                    panels.append(hv.Empty())
            elif column == row:
                panels.append(_histogram(hv, brush, dotted, across, limits, truth, prior))
            else:
                panels.append(_pair(hv, brush, dotted, tables, across, below, limits, truth, prior))
    layout = hv.Layout(panels).cols(len(names))
    return layout.opts(hv.opts.Layout(shared_datasource=True, shared_axes=True, toolbar="right"))


def _pair(
    hv: Any, brush: Brush, dotted: Any, tables: Any, across: str, below: str, limits: Any, truth: Any, prior: Any
) -> Any:
    """Draws of two parameters as dots, their regions as lines."""
    dims = [hv.Dimension(name, label=label(name), range=limits[name]) for name in (across, below)]
    layers, outlines = [], []
    for color, (name, table) in zip(COLORS, dotted.items(), strict=False):
        layers.append(
            hv.Points(table, dims, label=name).opts(
                color=color, size=2, alpha=0.35, nonselection_alpha=0.04, selection_alpha=0.9, show_legend=False,
                tools=["box_select", "lasso_select"], active_tools=["box_select"], hooks=[brush.points(name)],
            )
        )  # fmt: skip
        x, y = tables[name][across].to_numpy(), tables[name][below].to_numpy()
        lines = credible.regions(x, y, (_within(limits, prior, across), _within(limits, prior, below)))
        outlines.append(hv.Path(lines, dims).opts(color=color, line_width=1.5))
    box = hv.Overlay([*layers, *outlines])
    for end in prior.get(across, ()):
        box *= hv.VLine(end).opts(color=PRIOR, line_width=1, line_dash="dotted")
    for end in prior.get(below, ()):
        box *= hv.HLine(end).opts(color=PRIOR, line_width=1, line_dash="dotted")
    if truth and across in truth:
        box *= hv.VLine(truth[across]).opts(color=TRUTH, line_width=1, line_dash="dashed")
    if truth and below in truth:
        box *= hv.HLine(truth[below]).opts(color=TRUTH, line_width=1, line_dash="dashed")
    look = {"active_tools": ["box_select"], "show_legend": False, **_FEW_NUMBERS}
    return box.opts(xlim=limits[across], ylim=limits[below], **look)


def _histogram(hv: Any, brush: Brush, dotted: Any, name: str, limits: Any, truth: Any, prior: Any) -> Any:
    """Distribution of one parameter, pale, and of the selected draws, strong."""
    dim = hv.Dimension(name, label=label(name), range=limits[name])
    density = hv.Dimension(f"density_{name}", label=f"p({label(name)})")
    layers = []
    for color, (run, table) in zip(COLORS, dotted.items(), strict=False):
        heights, edges = np.histogram(table[name], credible.bins(limits[name], prior.get(name)), density=True)
        whole = hv.Histogram((edges, heights), kdims=[dim], vdims=[density], label=run)
        layers.append(whole.opts(fill_color=color, fill_alpha=0.15, line_alpha=0, show_legend=False))
        chosen = hv.Histogram((edges, heights), kdims=[dim], vdims=[density], label=run)
        strong = {"fill_color": color, "fill_alpha": 0.45, "line_color": color}
        layers.append(chosen.opts(**strong, show_legend=False, hooks=[brush.histogram(run, name)]))
    box = hv.Overlay(layers)
    if name in prior:
        low, high = prior[name]
        flat = [(low, 0), (low, 1 / (high - low)), (high, 1 / (high - low)), (high, 0)]
        box *= hv.Curve(flat, dim, density).opts(color=PRIOR, line_width=1, line_dash="dotted")
    if truth and name in truth:
        box *= hv.VLine(truth[name]).opts(color=TRUTH, line_width=1, line_dash="dashed")
    return box.opts(xlim=limits[name], yticks=3, show_legend=False, **_FEW_NUMBERS)


def _table(hv: Any, brush: Brush, tables: Any, names: list[str]) -> Any:
    """Medians and 68% intervals, which the page rewrites for selected draws."""
    shares = [0.16, 0.5, 0.84]
    numbers = {(run, name): tuple(np.quantile(t[name], shares)) for run, t in tables.items() for name in names}
    return hv.Div(brush.page_table(numbers)).opts(width=SIDE + 90, height=SIDE, hooks=[brush.table])


def _tables(draws: Draws, truth: Any, prior: Any) -> dict[str, pd.DataFrame]:
    tables = {"": draws} if isinstance(draws, pd.DataFrame) else dict(draws)
    if not tables or any(table.empty for table in tables.values()):
        raise ValueError("there are no draws to show; give a table with a row a draw, as from posterior.draw")
    columns = [tuple(table.columns) for table in tables.values()]
    if len(set(columns)) > 1:
        raise ValueError(f"the tables have different parameters: {', '.join(map(str, sorted(set(columns))))}")
    if len(tables) > len(COLORS):
        raise ValueError(f"{len(tables)} posteriors cannot be told apart in one plot; give at most {len(COLORS)}")
    for what, given in (("truth", truth), ("prior", prior)):
        refuse_unknown(what, given, columns[0])
    return tables


def _prior(draws: Draws) -> dict[str, tuple[float, float]]:
    first = draws if isinstance(draws, pd.DataFrame) else next(iter(draws.values()))
    return dict(first.attrs.get("prior", {}))


def _limits(tables: Any, prior: Mapping[str, tuple[float, float]], span: Span) -> dict[str, tuple[float, float]]:
    """Choose what the axes show: the prior and a little beyond it, or the draws and a third more within that."""
    limits = {}
    for name in next(iter(tables.values())).columns:
        first, last = prior.get(name, (-np.inf, np.inf))
        beyond = 0.04 * (last - first)
        first, last = first - beyond, last + beyond
        if span == "draws" or name not in prior:
            ends = np.array([np.quantile(table[name], [0.001, 0.999]) for table in tables.values()])
            low, high = ends[:, 0].min(), ends[:, 1].max()
            margin = (high - low) / 3 or 1.0
            # Draws that lie outside the prior, as somebody else's may, are shown all the same.
            first, last = max(low - margin, min(first, low)), min(high + margin, max(last, high))
        limits[name] = (float(first), float(last))
    return limits


def _within(limits: Any, prior: Mapping[str, tuple[float, float]], name: str) -> tuple[float, float]:
    """Limits of the axis, but not beyond the prior."""
    low, high = limits[name]
    first, last = prior.get(name, (low, high))
    return max(low, first), min(high, last)


def _thinned(table: pd.DataFrame) -> pd.DataFrame:
    return table if len(table) <= DOTS else table.sample(DOTS, random_state=0, ignore_index=True)


def static(
    draws: Draws,
    truth: Mapping[str, float] | None = None,
    prior: Mapping[str, tuple[float, float]] | None = None,
    *,
    span: Span = "prior",
    path: str | Path | None = None,
) -> "Figure":
    """Draw the same as :func:`corner` with matplotlib, for paper: regions, truth dashed, prior dotted.

    Parameters
    ----------
    draws, truth, prior, span
        As for :func:`corner`.
    path
        Where to write the picture, if anywhere.

    Raises
    ------
    ValueError
        If there are no draws, the tables have different parameters, or truth or prior other ones.
    TypeError
        If truth or prior are not by name.
    """
    from climlab_dl.plot import paper

    tables, prior = _tables(draws, truth, prior), prior if prior is not None else _prior(draws)
    limits = _limits(tables, prior, span)
    bounds = {name: _within(limits, prior, name) for name in limits}
    return paper.corner(tables, truth or {}, prior, limits, bounds, path)
