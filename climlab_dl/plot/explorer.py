"""The interactive map: time slider, channel choice, masks, in a notebook, in its saved page and in a file.

Everything that the widgets do is done in the page, from snapshots packed as 16-bit integers, so that a saved notebook
answers without a kernel. An archive too large to be put into a page is read snapshot by snapshot as the slider moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from climlab_dl.climate.fields import CLASSES
from climlab_dl.plot import canvas, layers, saving, styles
from climlab_dl.plot.frames import Frames, missing_before
from climlab_dl.words import counted

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
    central_longitude: float | None = None,
    width: int = 820,
) -> "Explorer":
    """Map with a time slider and a choice of channel.

    A click draws the series at that place and, on a storm, shows its card and its row; the box tool tells the
    statistics of a region.

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
        Of each class, (time, class, lat, lon), drawn as contours of 5, 50 and 95 % and told under the pointer.
    wind
        Names of an eastward and a northward wind, such as ``("U850", "V850")``, drawn as arrows.
    storms
        Table from `events.find`, shown below the map with the tracks on it: a row picked moves the map there, a storm
        tapped picks its row.
    projection, central_longitude
        Name out of `canvas.PROJECTIONS` or a cartopy projection, by default flat, so that boxes are of degrees; the
        longitude in the middle, in degrees east, by default 0 of the whole Earth and the middle of a region.
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
    given = {"mask": mask, "truth": truth, "probabilities": probabilities}
    more = {name: layers.along(layer, first) for name, layer in given.items() if layer is not None}
    for name, component in zip(("u", "v"), wind or (), strict=False):
        [more[name]] = layers.channels_of(fields, [component])
    place = canvas.over(first, canvas.fitting(first, projection, central_longitude))
    there, missing = first.sizes["time"], missing_before(first)
    if times is None:
        fit = int(UNTOLD_BYTES / (Frames(chosen, more, storms, place).nbytes / there))
        times = fit if FEWEST <= fit < there else slice(None)
    steps = _steps(times, there)
    if len(steps) < there:
        chosen = [field.isel(time=steps) for field in chosen]
        more = {name: layer.isel(time=steps) for name, layer in more.items()}
        gone = np.cumsum(missing)[steps]
        missing = np.diff(gone, prepend=gone[:1])
    return Explorer(Frames(chosen, more, storms, place), width, there, missing.tolist())


@dataclass
class Explorer:
    """An interactive map; shows itself as the last line of a notebook cell.

    Attributes
    ----------
    frames
        What is shown.
    width
        Of the map, in screen pixels.
    there
        How many snapshots there are, of which `frames` may be a choice.
    missing
        How many snapshots are missing before each one.
    """

    frames: Frames
    width: int
    there: int
    missing: list[int]

    def __post_init__(self):
        self.live = self.frames.nbytes > PAGE_BYTES
        self.dates = styles.dates(self.frames.fields[0])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        import panel as pn

        return pn.pane.Bokeh(self.layout())._repr_mimebundle_(include, exclude)

    def save(self, path: str | Path) -> Path:
        """Write the map as one self-contained page, which says in words what it shows, for who does not see it.

        Raises
        ------
        ValueError
            The snapshots are too many for a page.
        """
        if self.live:
            raise ValueError(
                f"{counted(len(self.dates), 'snapshot')} of {counted(len(self.frames.fields), 'channel')} would take "
                f"over {PAGE_BYTES / 1e6:.0f} MB, too much for one page: choose some with times= and channels="
            )
        return saving.layout(self.layout(), path, title=self.title(), said=self.in_words())

    def title(self) -> str:
        """Name the map in as few words as a browser's tab has room for: its classes, else its channels; its times."""
        names = self.frames.names
        few = ", ".join(names) if len(names) <= 3 else counted(len(names), "channel")
        what = " and ".join(f"{kind}s" for kind in self._classes()).capitalize()
        return ", ".join(filter(None, (what or few, self._times())))

    def in_words(self) -> str:
        """Say what the map shows: its fields, its times, and the classes over them."""
        fields = ", ".join(str(field.attrs.get("long_name", field.name)) for field in self.frames.fields)
        classes = ", ".join(self._classes())
        parts = (f"Interactive map of {fields}", self._times(), counted(len(self.dates), "snapshot"), classes)
        return "; ".join(filter(None, parts))

    def _classes(self) -> list[str]:
        return [CLASSES[kind] for kind in self.frames.kinds] if "mask" in self.frames.more else []

    def _times(self) -> str:
        return " to ".join(dict.fromkeys((self.dates[0], self.dates[-1])))

    def layout(self) -> "LayoutDOM":
        """Build the map and its widgets as a new Bokeh layout."""
        from bokeh.layouts import column, row
        from bokeh.models import ColumnDataSource

        from climlab_dl.plot import answers, tables, widgets

        here, place = self.frames, self.frames.place
        steps = slice(0, 1) if self.live else slice(None)
        data = here.read(steps, here.names[:1] if self.live else here.names)
        looks = {
            name: styles.style(field, _values(data, name)[0].reshape(field.shape[1:]) if name in data else None)
            for name, field in zip(here.names, here.fields, strict=True)
        }
        masked, compared = "mask" in here.more, "truth" in here.more
        image = ColumnDataSource(self._first_image(data), name="image")
        figure, drawn = widgets.figure(place, image, looks[here.names[0]], self.width)
        lines = []
        for name, (pieces, first) in here.lines(steps).items():
            over = widgets.line(figure, name, pieces, first)
            lines.append({"name": name, "pieces": ColumnDataSource(pieces, tags=first), "drawn": over})
        storms = None if here.storms is None else tables.storms(here.storms, self.dates, place, figure)
        linked = None if storms is None else {"rows": storms.rows, "here": storms.here, "table": storms.table}
        controls = widgets.controls(
            self.dates, self.missing, here, [line["name"] for line in lines], masked=masked, compared=compared
        )
        # What every script of the page may ask for.
        page = {
            "live": self.live,
            "frames": ColumnDataSource(data, name="frames"),
            "image": image,
            "count": here.fields[0][0].size,
            "lat": here.lat.tolist(),
            "lon": here.lon.tolist(),
            "extent": place.extent,
            "classes": list(CLASSES),
            "colors": [styles.line_color(kind) for kind in range(len(CLASSES))],
            "unknown": layers.UNKNOWN,
            "styles": {name: look.to_page() for name, look in looks.items()},
            "slider": controls.slider,
            "channel": controls.channel,
            "storms": linked,
        }
        draw = widgets.script(
            "draw",
            **page,
            kinds=here.kinds,
            lines=lines,
            mapper=drawn.mapper,
            bar=drawn.bar,
            overlay=drawn.overlay.glyph,
            toggles=controls.classes,
            view=controls.view,
            over=controls.lines,
            opacity=controls.opacity,
        )
        for widget in (controls.classes, controls.view, controls.lines):
            widget.js_on_change("active", draw)
        controls.opacity.js_on_change("value", draw)
        asked = answers.add(figure, drawn.raster, page, here, self.missing, self.dates)
        if self.live:
            page["frames"].js_on_change("data", draw)

            def read(attr: str, old: Any, new: Any) -> None:
                step = slice(controls.slider.value, controls.slider.value + 1)
                for line, (pieces, first) in zip(lines, here.lines(step).values(), strict=True):
                    line["pieces"].update(data=pieces, tags=first)
                # Last, for the page draws when these arrive.
                page["frames"].data = here.read(step, [controls.channel.value])

            controls.slider.on_change("value", read)
            controls.channel.on_change("value", read)
        else:
            controls.slider.js_on_change("value", draw)
            controls.channel.js_on_change("value", draw)
        above = row(controls.channel, controls.slider, controls.play)
        under = widgets.below(controls, here.kinds if masked else [], compared, self._note())
        table = [] if storms is None else [*storms.hint, storms.table]
        # Answers stand beside the map where the page is wide enough, else below it.
        beside = row(column(above, figure, under), asked, styles={"flex-wrap": "wrap"}, sizing_mode="stretch_width")
        return column(beside, *table, sizing_mode="stretch_width")

    def _note(self) -> str:
        """Say what the slider does where that is not plain."""
        if self.live:
            return "Snapshots are read as the slider moves, by the notebook's kernel."
        if len(self.dates) < self.there:
            return (
                f"{len(self.dates)} of {self.there} snapshots; fewer channels leave room for more, and in Python "
                "times=slice(None) shows all."
            )
        if len(self.dates) == 1:
            return self.dates[0]  # which a slider would tell
        return ""

    def _first_image(self, data: dict[str, Any]) -> dict[str, Any]:
        """One number a pixel: the first snapshot's value and class, and the cell that lies there."""
        here = self.frames
        cells = here.place.cells(here.lat, here.lon)
        value = _values(data, here.names[0])[0].astype(np.float32)
        mask = data["mask"][0] if "mask" in data else np.zeros(len(value), np.uint8)
        known = np.where(mask < len(CLASSES), mask, 0)
        return {"value": [canvas.under(value, cells)], "layer": [canvas.under(known, cells, 0)], "cell": [cells]}


def _steps(times: int | slice | Sequence[int], there: int) -> np.ndarray:
    """Positions of the snapshots that are asked for."""
    if isinstance(times, int):
        return np.unique(np.linspace(0, there - 1, times).round().astype(int))
    return np.arange(there)[times] if isinstance(times, slice) else np.arange(there)[np.asarray(times, int)]


def _values(data: dict[str, Any], name: str) -> np.ndarray:
    """Unpack a field's snapshots, (time, cell)."""
    return layers.unpack(data[name], data[f"{name} offset"], data[f"{name} scale"])
