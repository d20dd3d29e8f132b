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
import pandas as pd
import xarray as xr

from climlab_dl.climate.fields import CLASSES
from climlab_dl.files import beside
from climlab_dl.plot import canvas, layers, styles
from climlab_dl.plot.outlines import SIDES, Pieces, arrows, contours, outline

if TYPE_CHECKING:
    from bokeh.models import LayoutDOM
    from cartopy.crs import Projection

# Snapshots beyond this many bytes are not put into the page; unless told which, fewer are, evenly spaced.
PAGE_BYTES = 24_000_000
UNTOLD_BYTES = 5_000_000
# With fewer than so many snapshots a slider has nothing to tell.
FEWEST = 4


def explore(
    fields: xr.Dataset | xr.DataArray,
    mask: xr.DataArray | None = None,
    truth: xr.DataArray | None = None,
    *,
    channels: Sequence[str] | None = None,
    times: int | slice | Sequence[int] | None = None,
    probabilities: xr.DataArray | None = None,
    wind: tuple[str, str] | None = None,
    storms: pd.DataFrame | None = None,
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
        Which snapshots: a slice or list of positions, or how many, evenly spaced. By default as many, evenly spaced,
        as make a page that is not too large; of snapshots too large for that all, read as the slider moves.
    probabilities
        Of each class, (time, class, lat, lon), drawn as contours of 5, 50 and 95 %.
    wind
        Names of an eastward and a northward wind, such as ``("U850", "V850")``, drawn as arrows.
    storms
        Table from `events.find`, shown below the map: a row picked moves the map there, a storm tapped picks its row.
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
    first = chosen[0]
    more: dict[str, xr.DataArray] = {}
    for name, layer in (("mask", mask), ("truth", truth)):
        if layer is not None:
            more[name] = layers.along(layer, first)
    if probabilities is not None:
        more["probabilities"] = layers.along(probabilities, first)
    for name, component in zip(("u", "v"), wind or (), strict=False):
        [more[name]] = layers.channels_of(fields, [component])
    there = first.sizes["time"]
    if times is None:
        fit = int(UNTOLD_BYTES / (_bytes(chosen, more) / there))
        times = fit if FEWEST <= fit < there else slice(None)
    if not (isinstance(times, slice) and times == slice(None)):
        steps = np.linspace(0, there - 1, min(times, there)).round() if isinstance(times, int) else times
        picked = steps if isinstance(steps, slice) else np.asarray(steps, int)
        chosen = [field.isel(time=picked) for field in chosen]
        more = {name: layer.isel(time=picked) for name, layer in more.items()}
    crs = canvas.projection(projection, central_longitude)
    return Explorer(chosen, more, storms, canvas.over(chosen[0], crs), width, there)


@dataclass
class Explorer:
    """An interactive map; shows itself as the last line of a notebook cell.

    Attributes
    ----------
    fields
        What can be chosen, (time, lat, lon).
    more
        By name: mask, truth, probabilities, and u and v of a wind.
    storms
        Table from `events.find`, if any.
    canvas
        Where the pixels lie.
    width
        Of the map, in screen pixels.
    there
        How many snapshots there are, of which `fields` may be a choice.
    """

    fields: list[xr.DataArray]
    more: dict[str, xr.DataArray]
    storms: pd.DataFrame | None
    canvas: canvas.Canvas
    width: int
    there: int

    def __post_init__(self):
        self.live = _bytes(self.fields, self.more) > PAGE_BYTES
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
        from bokeh.embed import components
        from bokeh.resources import Resources

        if self.live:
            raise ValueError(
                f"{len(self.dates)} snapshots of {len(self.fields)} channels are over {PAGE_BYTES / 1e6:.0f} MB, too "
                "much for one page: choose some with times= and channels="
            )
        # Not bokeh.embed.file_html: once Panel is imported, that links to files of Panel's server.
        library = Resources(mode="inline", components=["bokeh", "bokeh-widgets", "bokeh-tables"]).js_raw
        script, body = components(self.layout())
        scripts = "\n".join(f"<script>{source}</script>" for source in library)
        path = Path(path)
        with beside(path) as new:
            new.write_text(_PAGE.format(scripts=scripts, body=body, script=script), encoding="utf-8")
        return path

    def frames(self, steps: slice, names: Sequence[str]) -> dict[str, Any]:
        """Read snapshots to draw: packed fields by name with their offsets and scales, and masks, (time, cell)."""
        data: dict[str, Any] = {}
        for field in self.fields:
            if field.name in names:
                packed = layers.pack(field.isel(time=steps).values)
                name = str(field.name)
                data |= {name: packed.numbers, f"{name} offset": packed.offset, f"{name} scale": packed.scale}
        for name in ("mask", "truth"):
            if name in self.more:
                values = self.more[name].isel(time=steps).values.astype(np.uint8)
                data[name] = values.reshape(len(values), -1)
        return data

    def lines(self, steps: slice) -> dict[str, tuple[dict[str, Any], list[int]]]:
        """Read line pieces by name, all snapshots' after each other, and where each snapshot's begin."""
        lat, lon = self.fields[0].lat.values, self.fields[0].lon.values
        some = {name: layer.isel(time=steps).values for name, layer in self.more.items()}
        drawn: dict[str, list[Pieces]] = {}
        if "truth" in some:
            drawn["truth"] = [outline(classes, lat, lon, self.canvas) for classes in some["truth"]]
        if "probabilities" in some:
            drawn["probability"] = [contours(values, lat, lon, self.canvas) for values in some["probabilities"]]
        if "u" in some:
            both = zip(some["u"], some["v"], strict=True)
            drawn["wind"] = [arrows(u, v, lat, lon, self.canvas) for u, v in both]
        return {name: _joined(pieces) for name, pieces in drawn.items()}

    def layout(self) -> "LayoutDOM":
        """Build the map and its widgets as a new Bokeh layout."""
        from bokeh.layouts import column, row
        from bokeh.models import ColumnDataSource, CustomJS

        from climlab_dl.plot import tables, widgets

        names = [str(field.name) for field in self.fields]
        steps = slice(0, 1) if self.live else slice(None)
        data = self.frames(steps, names[:1] if self.live else names)
        frames = ColumnDataSource(data, name="frames")
        looks = {
            name: styles.style(field, self._values(data, name) if name in data else None)
            for name, field in zip(names, self.fields, strict=True)
        }
        image = ColumnDataSource(self._first_image(data, names[0]))
        figure, drawn = widgets.figure(self.canvas, image, looks[names[0]], self.width)
        lines = []
        for name, (pieces, first) in self.lines(steps).items():
            over = widgets.line(figure, name, pieces, first)
            lines.append({"name": name, "pieces": ColumnDataSource(pieces, tags=first), "drawn": over})
        compared = "truth" in self.more
        controls = widgets.controls(self.dates, names, "mask" in self.more, compared, [line["name"] for line in lines])
        figure.add_tools(widgets.hover(drawn.raster, self.fields[0], controls.channel, looks))
        storms = None if self.storms is None else tables.storms(self.storms, self.dates, self.canvas, figure)
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
                "lines": lines,
                "storms": None if storms is None else {"rows": storms.rows, "here": storms.here},
                "mapper": drawn.mapper,
                "bar": drawn.bar,
                "overlay": drawn.overlay.glyph,
                "slider": controls.slider,
                "channel": controls.channel,
                "toggles": controls.classes,
                "view": controls.view,
                "over": controls.lines,
                "opacity": controls.opacity,
            },
        )
        for widget in (controls.classes, controls.view, controls.lines):
            widget.js_on_change("active", draw)
        controls.opacity.js_on_change("value", draw)
        if self.live:
            frames.js_on_change("data", draw)

            def read(attr: str, old: Any, new: Any) -> None:
                step = slice(controls.slider.value, controls.slider.value + 1)
                for line, (pieces, first) in zip(lines, self.lines(step).values(), strict=True):
                    line["pieces"].update(data=pieces, tags=first)
                # Last, for the page draws when these arrive.
                frames.data = self.frames(step, [controls.channel.value])

            controls.slider.on_change("value", read)
            controls.channel.on_change("value", read)
        else:
            controls.slider.js_on_change("value", draw)
            controls.channel.js_on_change("value", draw)
        above = row(controls.channel, controls.slider, controls.play)
        under = widgets.below(controls, "mask" in self.more, compared, self._note())
        return column(above, figure, under, *([] if storms is None else [storms.table]))

    def _note(self) -> str:
        """Say what the slider does where that is not plain."""
        if self.live:
            return "Snapshots are read as the slider moves, by the notebook's kernel."
        if len(self.dates) < self.there:
            return f"{len(self.dates)} of {self.there} snapshots, times=slice(None) shows all."
        return ""

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


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Climlab DL</title>
{scripts}
</head>
<body>{body}{script}</body>
</html>
"""


def _bytes(fields: list[xr.DataArray], more: dict[str, xr.DataArray]) -> int:
    return sum(2 * field.size for field in fields) + sum(layer.size for layer in more.values())


def _joined(each: list[Pieces]) -> tuple[dict[str, Any], list[int]]:
    """Snapshots' pieces after each other, and where each snapshot's begin."""
    columns = {side: np.concatenate([getattr(pieces, side) for pieces in each]) for side in (*SIDES, "classes")}
    return columns, np.cumsum([0, *map(len, each)]).tolist()
