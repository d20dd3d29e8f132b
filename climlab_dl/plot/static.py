"""The static twin of the interactive map, drawn by cartopy: for papers, PDF and machines without a browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from climlab_dl.climate.fields import CLASSES
from climlab_dl.plot import canvas, coastlines, layers, pictures, styles
from climlab_dl.plot.outlines import FULL_SPEED, Pieces, arrows, contours, outline, tracks
from climlab_dl.words import counted

if TYPE_CHECKING:
    from cartopy.crs import Projection
    from cartopy.mpl.geoaxes import GeoAxes
    from matplotlib.figure import Figure


def static(
    fields: xr.Dataset | xr.DataArray,
    mask: xr.DataArray | None = None,
    truth: xr.DataArray | None = None,
    *,
    channel: str | None = None,
    time: int = 0,
    probabilities: xr.DataArray | None = None,
    wind: tuple[str, str] | None = None,
    storms: pd.DataFrame | None = None,
    projection: "str | Projection | None" = None,
    central_longitude: float | None = None,
    opacity: float = 0.6,
    look: styles.Style | None = None,
    title: str | None = None,
    path: str | Path | None = None,
    dpi: int = 150,
) -> "Figure":
    """Draw one snapshot.

    Parameters
    ----------
    fields, mask, truth, probabilities, wind, storms
        As for `explore`: the field, classes to fill, classes to outline, contours, arrows, the tracks until this
        time and dots where they begin.
    channel
        Which field; by default the first.
    time
        Position of the snapshot.
    projection, central_longitude
        Name out of `canvas.PROJECTIONS` or a cartopy projection, and the longitude in the middle, in degrees east; by
        default Robinson around Greenwich for the whole Earth, and for a region a flat map around its middle.
    opacity
        Of the mask, from 0 to 1.
    look
        Colours and their limits; by default `styles.style` of the field, by which pictures of all times have the same.
    title
        By default the field and the date.
    path
        Where to write the picture, if anywhere.
    dpi
        Of the picture written.

    Raises
    ------
    ValueError
        The channel or the time is not there, or a mask is on another grid.
    """
    import cartopy.mpl.geoaxes  # noqa: F401  (makes matplotlib know the projections)
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure

    [field] = layers.channels_of(fields, [channel] if channel else None)[:1]
    there = field.sizes["time"]
    if not -there <= time < there:
        raise ValueError(f"time={time}: found {counted(there, 'snapshot')}, numbered from 0 to {there - 1}")
    found, real = (None if layer is None else layers.along(layer, field).isel(time=time) for layer in (mask, truth))
    place = canvas.over(field, canvas.fitting(field, projection, central_longitude))
    cells = place.cells(field.lat.values, field.lon.values)
    values = field.isel(time=time).values
    look = look or styles.style(field)

    left, right, bottom, top = place.extent
    height = 8.0 * (top - bottom) / (right - left)
    figure = Figure(figsize=(9.4, min(height, 8.0) + 1.2), layout="constrained")
    axes: Any = figure.add_subplot(projection=place.crs)
    _frame(axes, place)
    axes.set_facecolor(styles.NO_DATA)
    colors = {"cmap": ListedColormap(look.palette()), "vmin": look.low, "vmax": look.high}
    image = pictures.cells(axes, canvas.under(values, cells), place, **colors)
    if found is not None:
        pictures.cells(axes, _paint(found.values, cells, opacity), place)
    _lines(axes, place)
    lat, lon = field.lat.values, field.lon.values
    if wind is not None:
        u, v = (one.isel(time=time).values for one in layers.channels_of(fields, wind))
        _draw(axes, arrows(u, v, lat, lon, place), 0.6)
    if probabilities is not None:
        chances = layers.along(probabilities, field).isel(time=time).values
        _draw(axes, contours(chances, lat, lon, place), 0.9)
    if storms is not None:
        _draw(axes, tracks(storms, np.atleast_1d(field["time"].values)[time], place), 1.2, cased=True)
    if real is not None:
        _draw(axes, outline(real.values, lat, lon, place), 1.0, cased=True)
    figure.colorbar(image, ax=axes, label=look.scale, shrink=0.8, pad=0.02, extend=_beyond(values, look))
    masks = [layer for layer in (mask, truth) if layer is not None]
    kinds = layers.kinds(*masks) if masks else [] if storms is None else sorted(map(CLASSES.index, {*storms["class"]}))
    if kinds or wind is not None:
        _legend(axes, kinds, found is not None, real is not None, wind is not None)
    axes.set_title(title if title is not None else f"{look.long_name}  {styles.dates(field)[time]}".strip())
    return pictures.written(figure, path, dpi, bbox_inches="tight")


def _beyond(values: np.ndarray, look: styles.Style) -> str:
    """At which ends of its colours a field goes on."""
    below, above = bool((values < look.low).any()), bool((values > look.high).any())
    return {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}[below, above]


def _frame(axes: Any, place: canvas.Canvas) -> None:
    """Frame what the map shows: a disk around a pole, degrees along a flat map."""
    import matplotlib.path

    if place.polar:
        axes.set_boundary(matplotlib.path.Path.circle((0, 0), place.extent[1]), transform=place.crs)
    if place.flat:
        pictures.degrees(axes, place)


def _paint(classes: np.ndarray, cells: np.ndarray, opacity: float) -> np.ndarray:
    """Colour of each pixel, RGBA: a class is never averaged with its neighbour."""
    from matplotlib.colors import to_rgba_array

    colors = to_rgba_array(styles.class_colors())
    colors[1:, 3] = opacity
    known = np.where((classes > 0) & (classes < len(CLASSES)), classes, 0)
    return colors[canvas.under(known.astype(np.intp), cells, 0)]


def _lines(axes: "GeoAxes", place: canvas.Canvas) -> None:
    thin = {"colors": "#606060", "linewidths": 0.4, "linestyles": "dotted"}
    pictures.lines(axes, place, canvas.graticule(place.crs), **thin)
    coast = coastlines.lines(place.crs, "110m" if place.whole else "50m")
    pictures.lines(axes, place, coast, colors="#202020", linewidths=0.7)


def _draw(axes: "GeoAxes", pieces: Pieces, width: float, *, cased: bool = False) -> None:
    """Draw pieces in their classes' colours; cased in black, they show over a mask of the same colour."""
    from matplotlib.collections import LineCollection

    ends = np.stack([np.column_stack([pieces.x0, pieces.y0]), np.column_stack([pieces.x1, pieces.y1])], axis=1)
    looks = [{"colors": [styles.line_color(kind) for kind in pieces.classes], "linewidths": width}]
    if cased:
        looks.insert(0, {"colors": "black", "linewidths": 2 * width})
    for look in looks:
        axes.add_collection(LineCollection(list(ends), capstyle="round", **look), autolim=False)


def _legend(axes: Any, kinds: list[int], filled: bool, outlined: bool, windy: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(color=styles.line_color(kind), label=CLASSES[kind]) for kind in kinds]
    if outlined:
        label = "truth, outlined" if filled else "outlined"
        handles.append(Line2D([], [], color="black", label=label))
    if windy:
        label = f"wind: an arrow as long as the way to the next is {FULL_SPEED:g} m/s"
        handles.append(Line2D([], [], color="none", label=label))
    # Below the map, where it hides nothing.
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.04), "frameon": False}
    axes.legend(handles=handles, fontsize=9, ncols=len(handles), **place)
