"""A page of climatology: where storms are, begin and pass, how long they live, how large and fast they are."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from climlab_dl.climate import events
from climlab_dl.climate.fields import CLASSES
from climlab_dl.plot import canvas, layers, pictures, styles
from climlab_dl.words import counted

if TYPE_CHECKING:
    from cartopy.crs import Projection
    from matplotlib.figure import Figure

MONTHS = ("", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def climatology(
    mask: xr.DataArray,
    storms: pd.DataFrame | None = None,
    *,
    months: list[int] | None = None,
    projection: "str | Projection" = "Robinson",
    central_longitude: float = 0.0,
    path: str | Path | None = None,
    dpi: int = 130,
) -> "Figure":
    """Draw occurrence, genesis and track density of each class, and how long, large and fast its storms are.

    Parameters
    ----------
    mask
        Classes (time, lat, lon) with dates; read one snapshot at a time.
    storms
        Table from `events.find`; found in the mask if not given.
    months
        Which months of the year, 1 to 12; by default all that the mask has, together.
    projection, central_longitude
        Name out of `canvas.PROJECTIONS` or a cartopy projection; the longitude in the middle, in degrees east.
    path, dpi
        Where to write the picture, if anywhere, and how fine.

    Raises
    ------
    ValueError
        The mask's times are no dates, or none is in these months.
    """
    import cartopy.mpl.geoaxes  # noqa: F401  (makes matplotlib know the projections)
    from matplotlib.figure import Figure

    if storms is None:
        storms = events.find(mask)
    covered = events.occurrence(mask)
    absent = sorted(set(months or []) - set(covered.month.values.tolist()))
    if absent:
        raise ValueError(f"the mask has no snapshot in {', '.join(MONTHS[month] for month in absent)}")
    chosen = covered.month.values.tolist() if months is None else months
    weights = covered.snapshots.sel(month=chosen)
    share = covered.sel(month=chosen).weighted(weights).mean("month")
    densities = {kind: events.density(storms, kind).sel(month=chosen).sum("month") for kind in ("genesis", "tracks")}
    tracks = events.summary(storms)

    crs = canvas.projection(projection, central_longitude)
    figure = Figure(figsize=(13.0, 8.6), layout="constrained")
    names = [name for name in CLASSES[1:] if name in share["class"]]
    grid = figure.add_gridspec(len(names) + 1, 3, height_ratios=[1.0] * len(names) + [0.8])
    for row, name in enumerate(names):
        panels = {f"{name}: share of the time (%)": 100 * share.sel({"class": name})}
        for kind, title in (("genesis", "begin"), ("tracks", "pass")):
            if name in densities[kind]["class"]:
                panels[f"{name}s that {title} (tracks in 5° x 5°)"] = densities[kind].sel({"class": name})
        for column, (title, values) in enumerate(panels.items()):
            high = max(float(np.nanmax(values.values)), 1e-9)
            axes = figure.add_subplot(grid[row, column], projection=crs)
            pictures.occurrence(axes, layers.canonical(values), high, "YlOrRd", title)
    tracks["days"] = tracks["hours"] / 24
    tracks["area"] = [storms.loc[storms["track"] == track, "area_km2"].max() / 1e6 for track in tracks.index]
    measures = {"days": "lifetime (days)", "area": "largest area (10⁶ km²)", "speed_km_h": "speed (km/h)"}
    for column, (name, label) in enumerate(measures.items()):
        _histogram(figure.add_subplot(grid[-1, column]), tracks, name, label)
    times = styles.dates(mask)
    part = "" if months is None else ", " + " ".join(MONTHS[month] for month in months)
    counts = f"{counted(int(weights.sum()), 'snapshot')}, {counted(len(tracks), 'track')}"
    said = f"{times[0]} to {times[-1]}{part}: {counts}"
    figure.suptitle(said, fontsize=11)
    return pictures.written(figure, path, dpi)


def _histogram(axes: Any, tracks: pd.DataFrame, name: str, label: str) -> None:
    known = tracks[np.isfinite(tracks[name])]
    bins = np.histogram_bin_edges(known[name], bins=16) if len(known) else np.linspace(0, 1, 17)
    for kind in CLASSES[1:]:
        values = known.loc[known["class"] == kind, name]
        axes.hist(values, bins=bins, histtype="step", linewidth=1.8, color=styles.CLASS_COLORS[kind], label=kind)
    axes.set_xlabel(label)
    axes.set_ylabel("tracks")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
