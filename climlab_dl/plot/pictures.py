"""What static pictures share: cells on a map with coastlines, in matplotlib, and the file that is written."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from climlab_dl.files import beside
from climlab_dl.plot import canvas, coastlines

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def occurrence(axes: Any, share: xr.DataArray, high: float, colormap: Any) -> Any:
    """Paint how often something happens, white where it never does, to be told from seldom, with coastlines.

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

    Returns
    -------
    matplotlib.image.AxesImage
    """
    place = canvas.over(share, axes.projection)
    pixels = canvas.under(np.asarray(share.values, float), place.cells(share.lat.values, share.lon.values))
    image = cells(axes, np.where(pixels > 0, pixels, np.nan), place, cmap=colormap, vmin=0, vmax=high)
    lines(axes, place, coastlines.lines(place.crs), colors="#606060", linewidths=0.5)
    return image


def written(figure: "Figure", path: str | Path | None, dpi: int, **more: Any) -> "Figure":
    """Write a figure, if a path is given, and give it back; ``more`` is passed on to matplotlib's ``savefig``."""
    if path is not None:
        path = Path(path)
        with beside(path) as new:
            figure.savefig(new, dpi=dpi, format=path.suffix.lstrip(".") or "png", **more)
    return figure
