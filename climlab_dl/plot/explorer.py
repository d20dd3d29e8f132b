"""The interactive map: time slider, channel choice, masks, in a notebook, in its saved page and in a file.

Everything that the widgets do is done in the page, from snapshots packed as 16-bit integers, so that a saved notebook
answers without a kernel. An archive too large to be put into a page is read snapshot by snapshot as the slider moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from climlab_dl.climate.fields import CLASSES
from climlab_dl.plot import canvas, layers, styles
from climlab_dl.plot.outlines import outline

if TYPE_CHECKING:
    from bokeh.models import LayoutDOM
    from cartopy.crs import Projection

# Snapshots beyond this many bytes are not put into the page.
PAGE_BYTES = 24_000_000


def explore(
    fields: xr.Dataset | xr.DataArray,
    mask: xr.DataArray | None = None,
    truth: xr.DataArray | None = None,
    *,
    channels: Sequence[str] | None = None,
    times: int | slice | Sequence[int] | None = None,
    projection: "str | Projection" = "PlateCarree",
    central_longitude: float = 0.0,
    width: int = 820,
) -> "Explorer":
    """Map with a time slider and a choice of channel.

    Parameters
    ----------
    fields
        Snapshots as `archive.open` gives them; lazy ones are read only as far as they are shown.
    mask
        Classes to fill, such as `detect` or `heuristics.label` gives them.
    truth
        Classes to outline; the map can then also show hits, misses and false alarms.
    channels
        Fields to choose from, in this order; by default all.
    times
        Which snapshots: a slice or list of positions, or how many, evenly spaced; by default all.
    projection, central_longitude
        Name out of `canvas.PROJECTIONS` or a cartopy projection; the longitude in the middle, in degrees east.
    width
        Of the map, in screen pixels.

    Raises
    ------
    ValueError
        A channel is not there, a mask is on another grid, or truth is given without a mask to compare.
    """
    if mask is None and truth is not None:
        raise ValueError("truth is drawn around a mask: give mask=, or draw the truth itself as mask=truth")
    chosen = layers.channels_of(fields, channels)
    found, real = (None if layer is None else layers.along(layer, chosen[0]) for layer in (mask, truth))
    if times is not None and "time" in chosen[0].dims:
        steps = np.linspace(0, chosen[0].sizes["time"] - 1, times).round() if isinstance(times, int) else times
        picked = steps if isinstance(steps, slice) else np.asarray(steps, int)
        chosen = [field.isel(time=picked) for field in chosen]
        found, real = (None if layer is None else layer.isel(time=picked) for layer in (found, real))
    crs = canvas.projection(projection, central_longitude)
    return Explorer(chosen, found, real, canvas.over(chosen[0], crs), width)


@dataclass
class Explorer:
    """An interactive map; shows itself as the last line of a notebook cell."""

    fields: list[xr.DataArray]
    mask: xr.DataArray | None
    truth: xr.DataArray | None
    canvas: canvas.Canvas
    width: int

    def __post_init__(self):
        layered = [layer for layer in (self.mask, self.truth) if layer is not None]
        size = sum(2 * field.size for field in self.fields) + sum(layer.size for layer in layered)
        self.live = size > PAGE_BYTES
        self.dates = styles.dates(self.fields[0])
        self._cells = self.canvas.cells(self.fields[0].lat.values, self.fields[0].lon.values)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        import panel as pn

        return pn.pane.Bokeh(self.layout())._repr_mimebundle_(include, exclude)

    def save(self, path: str | Path) -> Path:
        """Write the map as one self-contained page.

        Raises
        ------
        ValueError
            The snapshots are too many for a page.
        """
        from bokeh.embed import file_html
        from bokeh.resources import INLINE

        if self.live:
            raise ValueError(
                f"{len(self.dates)} snapshots of {len(self.fields)} channels are over {PAGE_BYTES / 1e6:.0f} MB, too "
                "much for one page: choose some with times= and channels="
            )
        path = Path(path)
        beside = path.with_name(path.name + ".part")
        beside.write_text(file_html(self.layout(), INLINE, title="Climlab DL"), encoding="utf-8")
        return beside.rename(path)

    def frames(self, steps: slice, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any], list[int]]:
        """Snapshots to draw: packed numbers, outline pieces, and where each snapshot's pieces begin."""
        data: dict[str, Any] = {}
        for field in self.fields:
            if field.name in names:
                packed = layers.pack(field.isel(time=steps).values)
                name = str(field.name)
                data |= {name: packed.numbers, f"{name} offset": packed.offset, f"{name} scale": packed.scale}
        for name, layer in (("mask", self.mask), ("truth", self.truth)):
            if layer is not None:
                values = layer.isel(time=steps).values.astype(np.uint8)
                data[name] = values.reshape(len(values), -1)
        drawn = [] if self.truth is None else self.truth.isel(time=steps).values
        lat, lon = self.fields[0].lat.values, self.fields[0].lon.values
        outlines = [outline(classes, lat, lon, self.canvas) for classes in drawn]
        pieces: dict[str, Any] = {
            side: np.concatenate([getattr(one, side) for one in outlines]) if outlines else np.zeros(0, np.float32)
            for side in ("x0", "y0", "x1", "y1", "classes")
        }
        first = np.cumsum([0, *map(len, outlines)]).tolist() if outlines else [0] * (len(data[names[0]]) + 1)
        return data, pieces, first

    def layout(self) -> "LayoutDOM":
        """Build the map and its widgets as a new Bokeh layout."""
        from bokeh.layouts import column, row
        from bokeh.models import ColumnDataSource, CustomJS

        from climlab_dl.plot import widgets

        names = [str(field.name) for field in self.fields]
        data, pieces, first = self.frames(slice(0, 1) if self.live else slice(None), names[:1] if self.live else names)
        frames = ColumnDataSource(data, name="frames")
        outlines = ColumnDataSource(pieces, tags=first)
        looks = {
            name: styles.style(field, self._values(data, name) if name in data else None)
            for name, field in zip(names, self.fields, strict=True)
        }
        image = ColumnDataSource(self._first_image(data, names[0]))
        border = ColumnDataSource(_border(pieces, first[1]))

        figure, drawn = widgets.figure(self.canvas, image, border, looks[names[0]], self.width)
        controls = widgets.controls(self.dates, names, self.mask is not None, self.truth is not None)
        figure.add_tools(widgets.hover(drawn.raster, self.fields[0], controls.channel, looks))
        draw = CustomJS(
            code=(files("climlab_dl.plot") / "explorer.js").read_text(encoding="utf-8"),
            args={
                "live": self.live,
                "styles": {name: look.to_page() for name, look in looks.items()},
                "classes": list(CLASSES),
                "colors": styles.class_colors(),
                "unknown": layers.UNKNOWN,
                "count": int(self.fields[0].sizes["lat"] * self.fields[0].sizes["lon"]),
                "frames": frames,
                "image": image,
                "pieces": outlines,
                "border": border,
                "mapper": drawn.mapper,
                "bar": drawn.bar,
                "overlay": drawn.overlay.glyph,
                "slider": controls.slider,
                "channel": controls.channel,
                "toggles": controls.classes,
                "view": controls.view,
                "opacity": controls.opacity,
            },
        )
        for widget, property_ in ((controls.classes, "active"), (controls.view, "active"), (controls.opacity, "value")):
            widget.js_on_change(property_, draw)
        if self.live:
            frames.js_on_change("data", draw)

            def read(attr: str, old: Any, new: Any) -> None:
                step = controls.slider.value
                fresh, outlines.data, outlines.tags = self.frames(slice(step, step + 1), [controls.channel.value])
                frames.data = fresh

            controls.slider.on_change("value", read)
            controls.channel.on_change("value", read)
        else:
            controls.slider.js_on_change("value", draw)
            controls.channel.js_on_change("value", draw)
        above = row(controls.channel, controls.slider, controls.play)
        return column(above, figure, widgets.below(controls, self.mask is not None, self.truth is not None, self.live))

    def _values(self, data: dict[str, Any], name: str) -> np.ndarray:
        """Unpack a field's embedded snapshots, (time, cell)."""
        return layers.unpack(data[name], data[f"{name} offset"], data[f"{name} scale"])

    def _first_image(self, data: dict[str, Any], name: str) -> dict[str, Any]:
        """One number a pixel: the first snapshot's value and class, and the cell that lies there."""
        # Pixels off the grid look up the number appended at the end, which is that of no data.
        value = np.append(self._values(data, name)[0], np.nan).astype(np.float32)
        mask = data.get("mask", np.zeros((1, len(value) - 1), np.uint8))[0]
        layer = np.append(np.where(mask < len(CLASSES), mask, 0), 0).astype(np.uint8)
        return {"value": [value[self._cells]], "layer": [layer[self._cells]], "cell": [self._cells]}


def _border(pieces: dict[str, Any], count: int) -> dict[str, Any]:
    """Outline pieces of the first snapshot, coloured."""
    colors = styles.class_colors()
    drawn = {side: pieces[side][:count] for side in ("x0", "y0", "x1", "y1")}
    return drawn | {"color": [colors[kind] for kind in pieces["classes"][:count]]}
