"""Maps: fields, masks, outlines and coastlines that compose with ``*``, an explorer, and a static twin.

    maps.setup()                                       once a notebook
    maps.field(fields.TMQ) * maps.mask(found) * maps.coastline()
    maps.explore(fields, mask=found, truth=drawn)
    maps.static(fields, mask=found, channel="TMQ", path="map.png")
    maps.animate(fields, mask=found, channel="TMQ", path="storms.gif")    or .mp4
    maps.climatology(found, path="climatology.png")

With several snapshots, the composed layers share one time slider, which reads what it shows from a lazy archive. It
needs a running kernel; `explore` does not.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from climlab_dl.climate.fields import CLASSES
from climlab_dl.plot import canvas, coastlines, layers, styles, widgets
from climlab_dl.plot.animation import animate
from climlab_dl.plot.climatology import climatology
from climlab_dl.plot.coastlines import setup
from climlab_dl.plot.explorer import Explorer, explore
from climlab_dl.plot.outlines import outline as cell_edges
from climlab_dl.plot.static import static

if TYPE_CHECKING:
    from cartopy.crs import Projection

__all__ = ["Explorer", "animate", "climatology", "coastline", "explore", "field", "mask", "outline", "setup", "static"]

# Of a map, in screen pixels.
WIDTH = 820


def field(
    layer: xr.DataArray, *, projection: "str | Projection" = "PlateCarree", central_longitude: float = 0.0
) -> Any:
    """Draw a field as coloured cells, with what lies under the pointer.

    Parameters
    ----------
    layer
        One field, (time, lat, lon) or (lat, lon).
    projection, central_longitude
        Name out of `canvas.PROJECTIONS` or a cartopy projection; the longitude in the middle, in degrees east.

    Returns
    -------
    geoviews.Image, or holoviews.DynamicMap over time
    """
    import geoviews as gv

    drawn, place = _on_canvas(styles.readable(layer), projection, central_longitude)
    cells = place.cells(drawn.lat.values, drawn.lon.values)
    # Once, and not before something is drawn, for it may read the first snapshot.
    style = cache(lambda: styles.style(drawn))

    def draw(values: np.ndarray) -> Any:
        look = style()
        image = _image(gv, place, look.name, canvas.under(values.astype(np.float32), cells))
        return image.opts(
            cmap=look.palette(),
            clim=(look.low, look.high),
            colorbar=True,
            clabel=look.scale,
            clipping_colors={"NaN": "#00000000"},
            hover_tooltips=[
                ("lat", "@lat{0.00}"),
                ("lon", "@lon{0.00}"),
                (look.label, f"@{{{look.name}}}{{0.[0000]}}"),
            ],
            tools=["hover"],
            title=look.long_name,
            **_frame(place),
        )

    return _through_time(drawn, draw)


def mask(
    layer: xr.DataArray,
    *,
    opacity: float = 0.6,
    projection: "str | Projection" = "PlateCarree",
    central_longitude: float = 0.0,
) -> Any:
    """Draw a mask as filled cells in the classes' colours.

    Parameters
    ----------
    layer
        Classes, (time, lat, lon) or (lat, lon).
    opacity
        From 0 to 1.
    projection, central_longitude
        As for `field`.

    Returns
    -------
    geoviews.Image, or holoviews.DynamicMap over time
    """
    import geoviews as gv
    from bokeh.models import CustomJSHover, HoverTool

    drawn, place = _on_canvas(layer, projection, central_longitude)
    cells = place.cells(drawn.lat.values, drawn.lon.values)

    def draw(values: np.ndarray) -> Any:
        known = np.where((values > 0) & (values < len(CLASSES)), values, np.nan).astype(np.float32)
        names = CustomJSHover(args={"names": list(CLASSES)}, code="return names[value] ?? '';")
        hover = HoverTool(tooltips=[("class", "@{class}{custom}")], formatters={"@{class}": names})
        return _image(gv, place, "class", canvas.under(known, cells)).opts(
            cmap=styles.class_colors()[1:],
            clim=(0.5, len(CLASSES) - 0.5),
            clipping_colors={"NaN": "#00000000"},
            alpha=opacity,
            tools=[hover],
            **_frame(place),
        )

    return _through_time(drawn, draw)


def outline(
    layer: xr.DataArray,
    *,
    width: float = 2.0,
    projection: "str | Projection" = "PlateCarree",
    central_longitude: float = 0.0,
) -> Any:
    """Draw a mask as outlines along the edges of its cells, in the classes' colours.

    Parameters
    ----------
    layer
        Classes, (time, lat, lon) or (lat, lon).
    width
        Of the line, in screen pixels.
    projection, central_longitude
        As for `field`.

    Returns
    -------
    geoviews.Segments, or holoviews.DynamicMap over time
    """
    import geoviews as gv

    drawn, place = _on_canvas(layer, projection, central_longitude)

    def draw(values: np.ndarray) -> Any:
        pieces = cell_edges(values, drawn.lat.values, drawn.lon.values, place)
        colors = np.array(styles.class_colors())[pieces.classes]
        table = (pieces.x0, pieces.y0, pieces.x1, pieces.y1, colors)
        segments = gv.Segments(table, ["x0", "y0", "x1", "y1"], ["color"], crs=place.crs)
        return segments.opts(color="color", line_width=width, **_frame(place))

    return _through_time(drawn, draw)


def coastline(
    *,
    resolution: str = "110m",
    color: str = "#202020",
    projection: "str | Projection" = "PlateCarree",
    central_longitude: float = 0.0,
) -> Any:
    """Draw the packaged coastlines.

    Parameters
    ----------
    resolution
        "110m" for the globe, "50m" for a region.
    color
        Of the line.
    projection, central_longitude
        As for `field`.

    Returns
    -------
    geoviews.Path
    """
    import geoviews as gv

    crs = canvas.projection(projection, central_longitude)
    lines = list(zip(*coastlines.lines(crs, resolution), strict=True))
    path = gv.Path([np.column_stack(line) for line in lines], crs=crs)
    return path.opts(color=color, line_width=0.9, projection=crs)


def _on_canvas(
    layer: xr.DataArray, projection: "str | Projection", central_longitude: float
) -> tuple[xr.DataArray, canvas.Canvas]:
    drawn = layers.snapshots(layers.canonical(layer))
    return drawn, canvas.over(drawn, canvas.projection(projection, central_longitude))


def _image(gv: Any, place: canvas.Canvas, name: str, pixels: np.ndarray) -> Any:
    columns = (*place.centres, pixels, place.lat.astype(np.float32), place.lon.astype(np.float32))
    return gv.Image(columns, ["x", "y"], [name, "lat", "lon"], crs=place.crs)


def _frame(place: canvas.Canvas) -> dict[str, Any]:
    left, right, bottom, top = place.extent
    aspect = (right - left) / (top - bottom)
    width = min(WIDTH, round(widgets.MOST_HIGH * aspect))
    frame = {"projection": place.crs, "frame_width": width, "frame_height": round(width / aspect)}
    if not place.flat:
        return frame | {"xaxis": None, "yaxis": None}
    across, up = canvas.ticks(place)
    east, north = widgets.degrees(place)
    labels = {"xticks": across, "yticks": up, "xformatter": east, "yformatter": north, "xlabel": "", "ylabel": ""}
    return frame | labels


def _through_time(layer: xr.DataArray, draw: Callable[[np.ndarray], Any]) -> Any:
    """One picture of one snapshot, else a picture that follows a time slider, computing what it shows."""
    import holoviews as hv

    if layer.sizes["time"] == 1:
        return draw(layer.values[0])
    dates = styles.dates(layer)
    steps = {date: step for step, date in enumerate(dates)}
    time = hv.Dimension("time", values=dates)
    return hv.DynamicMap(lambda time: draw(layer.isel(time=steps[time]).values), kdims=[time])
