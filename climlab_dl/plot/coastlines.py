"""Coastlines without a network, and notebooks that draw without one.

The wheel carries Natural Earth's 110m coastline and land and its 50m coastline (public domain), laid out as cartopy
looks for them, so that neither cartopy nor GeoViews asks the internet when a map is drawn.
"""

import os
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from climlab_dl.plot import canvas, saving

if TYPE_CHECKING:
    from cartopy.crs import Projection

RESOLUTIONS = ("110m", "50m")


def packaged() -> Path:
    """Folder of the packaged coastlines, in cartopy's layout."""
    return Path(str(files("climlab_dl") / "data" / "cartopy"))


def point_cartopy() -> None:
    """Let cartopy, and GeoViews through it, find the packaged coastlines; a folder that the user chose is kept."""
    import cartopy

    if "CARTOPY_DATA_DIR" not in os.environ and not str(cartopy.config["pre_existing_data_dir"]).strip("."):
        cartopy.config["pre_existing_data_dir"] = packaged()


def setup() -> None:
    """Make this notebook draw maps, offline too. May be run again, and must be after the page was reloaded.

    Sends BokehJS and Panel inside the notebook rather than asking a content network for them. The extensions remember
    that they were loaded even when the page that they were loaded into is gone; forgetting that is what makes a
    second run draw again rather than leave empty frames. Tables show four digits of a number, or all before the point.
    """
    import geoviews as gv
    import holoviews as hv
    import pandas as pd
    import panel as pn
    from panel.viewable import Viewable

    from climlab_dl.plot import tables

    point_cartopy()
    pn.extension._loaded = hv.extension._loaded = False
    setattr(pn.config, "inline", True)  # noqa: B010  (a property, to type checkers)
    # GeoViews sends Panel's scripts with its own; pn.extension besides would send the same three megabytes again.
    gv.extension("bokeh", inline=True, logo=False)
    hv.output(widget_location=saving.SLIDERS)
    if saving.inline_styles not in Viewable._preprocessing_hooks:
        Viewable._preprocessing_hooks.append(saving.inline_styles)
    _show_figures()
    pd.set_option("display.float_format", tables.number)


def _show_figures() -> None:
    """Let a matplotlib figure that ends a cell show itself, whether or not pyplot was imported."""
    from IPython.core.getipython import get_ipython
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    if get_ipython() is not None:
        set_matplotlib_formats("png")


@lru_cache(maxsize=32)
def lines(crs: "Projection", resolution: str = "110m") -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Coastlines in a projection's coordinates, cut where the projection is cut.

    Parameters
    ----------
    crs
        The projection.
    resolution
        "110m" for the globe, "50m" for a region.

    Returns
    -------
    xs, ys
        One float32 array a line, in the projection's units (degrees for PlateCarree, else metres).

    Raises
    ------
    ValueError
        The resolution is not packaged.
    """
    from cartopy.io import shapereader

    if resolution not in RESOLUTIONS:
        raise ValueError(f"coastline resolution is {resolution!r}; the package carries {' and '.join(RESOLUTIONS)}")
    point_cartopy()
    shapes = shapereader.Reader(shapereader.natural_earth(resolution, "physical", "coastline")).geometries()
    return canvas.projected(crs, shapes)
