"""How far a mask can be trusted: reliability of its probabilities, and where it hits, misses and gives false alarms."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import xarray as xr

from climlab_dl.climate.fields import CLASSES
from climlab_dl.plot import canvas, layers, pictures, styles
from climlab_dl.words import counted

if TYPE_CHECKING:
    from cartopy.crs import Projection
    from matplotlib.figure import Figure


def reliability(table: pd.DataFrame, *, path: str | Path | None = None, dpi: int = 130) -> "Figure":
    """Draw how often probabilities came true, and below it how often each was said.

    Parameters
    ----------
    table
        From `inference.reliability.reliability`, with its Brier scores.
    path, dpi
        Where to write the picture, if anywhere, and how fine.

    Returns
    -------
    Figure
        On the diagonal a probability is a frequency; below it, the network is too sure.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.8, 6.1), layout="constrained")
    axes, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    axes.plot([0, 1], [0, 1], color="#b0b0b0", linewidth=1)
    for name in CLASSES[1:]:
        rows, color = table[table["class"] == name], styles.CLASS_COLORS[name]
        brier, frequency = (table.attrs[kind][name] for kind in ("brier", "brier_of_frequency"))
        label = f"{name}: Brier {brier:.2g} (frequency alone {frequency:.2g})"
        axes.plot(rows["forecast"], rows["observed"], color=color, marker="o", markersize=5, label=label)
        below.plot(rows["forecast"], rows["pixels"], color=color, marker="o", markersize=3)
    axes.set_ylabel("share that came true")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    # Above the panels, where it hides none of the curves.
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", frameon=False, fontsize=8)
    below.set_yscale("log")
    below.set_ylabel("pixels")
    below.set_xlabel("probability said")
    for one in (axes, below):
        one.spines[["top", "right"]].set_visible(False)
    return pictures.written(figure, path, dpi)


def verdicts(
    counts: xr.Dataset,
    *,
    projection: "str | Projection" = "Robinson",
    central_longitude: float = 0.0,
    path: str | Path | None = None,
    dpi: int = 130,
) -> "Figure":
    """Map the share of the time in which each class was a hit, a miss and a false alarm.

    Parameters
    ----------
    counts
        Of one mask, from ``evaluate(mask, truth, by="cell")``.
    projection, central_longitude
        Name out of `canvas.PROJECTIONS` or a cartopy projection; the longitude in the middle, in degrees east.
    path, dpi
        Where to write the picture, if anywhere, and how fine.

    Returns
    -------
    Figure
        A row for each class; the maps of a row share their colours, and white is never.
    """
    import cartopy.mpl.geoaxes  # noqa: F401  (makes matplotlib know the projections)
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    crs = canvas.projection(projection, central_longitude)
    names = counts["class"].values.tolist()
    figure = Figure(figsize=(13.0, 0.6 + 2.6 * len(names)), layout="constrained")
    grid = figure.subplots(len(names), 3, squeeze=False, subplot_kw={"projection": crs})
    for row, name in zip(grid, names, strict=True):
        shares = layers.canonical(counts.sel({"class": name}))
        shares = 100 * shares[["hits", "misses", "false_alarms"]] / shares["snapshots"].where(shares["snapshots"] > 0)
        high = max(1e-9, *(float(share.max()) for share in shares.data_vars.values()))
        for axes, share, (verdict, color) in zip(
            row, shares.data_vars.values(), styles.VERDICT_COLORS.items(), strict=True
        ):
            colors = LinearSegmentedColormap.from_list(verdict, ["#f4f4f4", color, "#101010"], N=256)
            pictures.occurrence(axes, share, high, colors, f"{name}: {verdict}")
    figure.suptitle(f"% of {counted(int(counts['snapshots'].max()), 'snapshot')}", fontsize=11)
    return pictures.written(figure, path, dpi)
