"""What static pictures share: cells on a map with coastlines, in matplotlib, and the file that is written."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from climlab_dl.files import beside
from climlab_dl.plot import canvas, coastlines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TEXT_IN = {"png": "Description", "svg": "Description", "pdf": "Subject"}


def cells(axes: Any, pixels: np.ndarray, place: canvas.Canvas, **look: Any) -> Any:
    """Paint a map's pixels, each in its own colour: nothing is averaged with its neighbour.

    Parameters
    ----------
    axes
        Of cartopy, in the projection of `place`.
    pixels
        Numbers, or colours (RGBA), of the pixels of `place`.
    look
        Colour map and limits, as matplotlib's ``imshow`` takes them.

    Returns
    -------
    matplotlib.image.AxesImage
    """
    left, right, bottom, top = place.extent
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    return axes.imshow(
        pixels, origin="lower", extent=place.extent, transform=place.crs, interpolation="nearest", **look
    )


def lines(axes: Any, place: canvas.Canvas, lines: tuple[list[np.ndarray], list[np.ndarray]], **look: Any) -> None:
    """Draw lines in the map's projection, cut at the rim of a polar map."""
    from matplotlib.collections import LineCollection

    each = [np.column_stack(line) for line in zip(*place.clip(*lines), strict=True)]
    axes.add_collection(LineCollection(each, **look), autolim=False)


def occurrence(axes: Any, share: xr.DataArray, high: float, colormap: Any, title: str) -> None:
    """Map how often something happens, white where it never does, to be told from seldom; below it the colours.

    Parameters
    ----------
    axes
        Of cartopy.
    share
        (lat, lon), canonical.
    high
        Where the colours end.
    colormap
        Matplotlib's, or its name.
    title
        Above the map.
    """
    from matplotlib.ticker import MaxNLocator

    place = canvas.over(share, axes.projection)
    pixels = canvas.under(np.asarray(share.values, float), place.cells(share.lat.values, share.lon.values))
    image = cells(axes, np.where(pixels > 0, pixels, np.nan), place, cmap=colormap, vmin=0, vmax=high)
    lines(axes, place, coastlines.lines(place.crs), colors="#606060", linewidths=0.5)
    axes.set_title(title, fontsize=9)
    ticks = MaxNLocator(6, integer=np.issubdtype(share.dtype, np.integer))
    axes.figure.colorbar(image, ax=axes, orientation="horizontal", shrink=0.7, pad=0.02, aspect=40, ticks=ticks)


def degrees(axes: Any, place: canvas.Canvas, size: float = 8) -> None:
    """Write the degrees along a flat map, in letters of a size."""
    from cartopy.mpl.ticker import LatitudeFormatter, LongitudeFormatter

    across, up = canvas.ticks(place)
    axes.set_xticks(across, crs=place.crs)
    axes.set_yticks(up, crs=place.crs)
    axes.xaxis.set_major_formatter(LongitudeFormatter())
    axes.yaxis.set_major_formatter(LatitudeFormatter())
    axes.tick_params(labelsize=size)


def written(figure: "Figure", path: str | Path | None, dpi: int = 150, **more: Any) -> "Figure":
    """Write a figure, if a path is given, and give it back; ``more`` is passed on to matplotlib's ``savefig``.

    PNG, SVG and PDF say in their metadata, in words, what is drawn: for who does not see it.
    """
    if path is not None:
        path = Path(path)
        with beside(path) as new:
            _write(figure, new, path.suffix.lstrip(".") or "png", dpi=dpi, **more)
    return figure


def png(figure: "Figure", dpi: int = 96, **more: Any) -> bytes:
    """Encode a figure as PNG, with its words, as `written` does."""
    buffer = io.BytesIO()
    _write(figure, buffer, "png", dpi=dpi, **more)
    return buffer.getvalue()


def in_words(figure: "Figure") -> str:
    """Say what a figure shows by what is written on it: its titles, the names of its axes, and its keys."""
    parts = [figure.get_suptitle()]
    for axes in figure.axes:
        named = " against ".join(filter(None, (axes.get_ylabel(), axes.get_xlabel())))
        parts += [axes.get_title(loc="left"), axes.get_title(), axes.get_title(loc="right"), named]
    keys = [key for one in (figure, *figure.axes) for key in _legends(one)]
    parts += [text.get_text() for key in keys for text in key.get_texts()]
    return "; ".join(dict.fromkeys(part.replace("\n", " ") for part in parts if part))


def _write(figure: "Figure", file: Any, ending: str, **more: Any) -> None:
    said = {_TEXT_IN[ending]: in_words(figure)} if ending in _TEXT_IN else None
    figure.savefig(file, format=ending, metadata=said, **more)


def _legends(one: Any) -> list[Any]:
    """Keys of a figure or of a panel."""
    return one.legends if hasattr(one, "legends") else list(filter(None, [one.get_legend()]))
