"""The parts of the interactive map: the figure, its widgets, its scripts, its legend."""

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from climlab_dl.climate.fields import CLASSES
from climlab_dl.plot import coastlines, styles
from climlab_dl.plot.canvas import Canvas, central, graticule, ticks
from climlab_dl.plot.frames import Frames
from climlab_dl.plot.outlines import SIDES

if TYPE_CHECKING:
    from bokeh.models import (
        CheckboxButtonGroup,
        ColorBar,
        ColumnDataSource,
        CustomJS,
        CustomJSTickFormatter,
        GlyphRenderer,
        LinearColorMapper,
        RadioButtonGroup,
        Select,
        Slider,
        Toggle,
        UIElement,
    )
    from bokeh.plotting import figure as Figure

MOST_HIGH = 560
OPACITY = 0.6
VIEWS = ("detected", "hits and misses")


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Parts of the figure that change."""

    raster: "GlyphRenderer"
    overlay: "GlyphRenderer"
    mapper: "LinearColorMapper"
    bar: "ColorBar"


@dataclass(frozen=True, kw_only=True)
class Controls:
    """The widgets."""

    channel: "Select"
    slider: "Slider"
    play: "Toggle"
    classes: "CheckboxButtonGroup"
    view: "RadioButtonGroup"
    opacity: "Slider"
    lines: "CheckboxButtonGroup"


def code(name: str) -> str:
    """Read a script of the page, after what the scripts share if it draws snapshots or tells of places."""
    page = files("climlab_dl.plot") / "page"
    shared = "" if name in ("clear", "fly") else (page / "common.js").read_text(encoding="utf-8")
    return shared + (page / f"{name}.js").read_text(encoding="utf-8")


def script(name: str, **args: Any) -> "CustomJS":
    """Make a script of the page, which knows its arguments by name."""
    from bokeh.models import CustomJS

    return CustomJS(code=code(name), args=args)


def figure(canvas: Canvas, image: "ColumnDataSource", look: styles.Style, width: int) -> tuple["Figure", Drawn]:
    """Map with the field, the classes over it and coastlines.

    Parameters
    ----------
    canvas
        Where the pixels lie.
    image
        Columns `value`, `layer` (class numbers, then hit, miss, false alarm) and `cell`, each one image.
    look
        Of the field shown first.
    width
        Of the map, in screen pixels.
    """
    from bokeh.models import ColorBar, LinearColorMapper, Range1d
    from bokeh.plotting import figure as new_figure

    left, right, bottom, top = canvas.extent
    aspect = (right - left) / (top - bottom)
    # A disk as wide as a world map would be taller than a screen.
    width = min(width, round(MOST_HIGH * aspect))
    # Bokeh's annotations know neither pairs as ranges nor what its image glyphs accept.
    figure: Any = new_figure(
        frame_width=width,
        frame_height=round(width / aspect),
        x_range=Range1d(start=left, end=right),
        y_range=Range1d(start=bottom, end=top),
        tools="pan,wheel_zoom,box_zoom,reset,save",
        active_scroll=None,
        toolbar_location="above",
    )
    frame = {"x": left, "y": bottom, "dw": right - left, "dh": top - bottom, "source": image}
    globe(figure, canvas)
    mapper = LinearColorMapper(palette=look.palette(), low=look.low, high=look.high, nan_color="#00000000")
    raster = figure.image(image="value", color_mapper=mapper, **frame)
    colors = [*styles.class_colors(), *styles.VERDICT_COLORS.values()]
    classes = LinearColorMapper(palette=colors, low=-0.5, high=len(colors) - 0.5)
    overlay = figure.image(image="layer", color_mapper=classes, global_alpha=OPACITY, name="overlay", **frame)
    xs, ys = canvas.clip(*graticule(canvas.crs))
    figure.multi_line(
        xs, ys, line_color="#606060", line_width=0.5, line_alpha=0.5, line_dash="dotted", name="graticule"
    )
    region = right - left < (60 if canvas.flat else 0)
    xs, ys = canvas.clip(*coastlines.lines(canvas.crs, "50m" if region else "110m"))
    figure.multi_line(xs, ys, line_color="#202020", line_width=0.9, name="coastline")
    bar = ColorBar(color_mapper=mapper, title=look.scale, width=14, padding=8, title_standoff=8)
    figure.add_layout(bar, "right")
    return figure, Drawn(raster=raster, overlay=overlay, mapper=mapper, bar=bar)


def line(figure: Any, name: str, pieces: dict[str, Any], first: list[int]) -> "ColumnDataSource":
    """Draw line pieces of the first snapshot over the map; gives the source that holds what is drawn.

    Parameters
    ----------
    figure
        The map.
    name
        "truth" and "tracks" are cased in black, to show over a mask of their own colour; others are plain.
    pieces, first
        All snapshots' pieces (columns `SIDES` and `classes`), and where each snapshot's begin.
    """
    from bokeh.models import ColumnDataSource

    drawn = {side: pieces[side][: first[1]] for side in SIDES}
    source = ColumnDataSource({**drawn, "color": [styles.line_color(kind) for kind in pieces["classes"][: first[1]]]})
    if name in ("truth", "tracks"):
        figure.segment(*SIDES, source=source, line_color="black", line_width=3.4, name=f"{name} casing")
    width = {"truth": 1.8, "probability": 1.4, "tracks": 1.8}.get(name, 0.8)
    figure.segment(*SIDES, source=source, line_color="color", line_width=width, name=name)
    return source


def globe(figure: Any, canvas: Canvas) -> None:
    """Draw axes in degrees on a flat map, else the globe's rim, over the colour of no data."""
    from bokeh.models import FixedTicker

    figure.grid.visible = False
    if not canvas.flat:
        x, y = np.asarray(canvas.crs.boundary.coords)[:, :2].T
        if canvas.polar:
            angle = np.linspace(0, 2 * np.pi, 181)
            x, y = canvas.extent[1] * np.cos(angle), canvas.extent[1] * np.sin(angle)
        figure.patch(x, y, fill_color=styles.NO_DATA, line_color="#404040")
        figure.axis.visible = False
        figure.outline_line_color = None
        return
    figure.background_fill_color = styles.NO_DATA
    across, up = ticks(canvas)
    figure.xaxis.ticker, figure.yaxis.ticker = FixedTicker(ticks=across), FixedTicker(ticks=up)
    figure.xaxis.formatter, figure.yaxis.formatter = degrees(canvas)


def degrees(canvas: Canvas) -> tuple["CustomJSTickFormatter", "CustomJSTickFormatter"]:
    """Label the ticks of a flat map: degrees east or west, north or south."""
    from bokeh.models import CustomJSTickFormatter

    east = CustomJSTickFormatter(
        args={"center": central(canvas.crs)},
        code="""const east = (((tick + center) % 360) + 540) % 360 - 180;
            return east === 0 ? '0°' : east === -180 ? '180°' : Math.abs(east) + (east > 0 ? '°E' : '°W');""",
    )
    north = CustomJSTickFormatter(code="return tick === 0 ? '0°' : Math.abs(tick) + (tick > 0 ? '°N' : '°S');")
    return east, north


def controls(
    dates: list[str], missing: list[int], frames: Frames, lines: list[str], *, masked: bool, compared: bool
) -> Controls:
    """Make the widgets; those without a use are hidden.

    Parameters
    ----------
    dates, missing
        Of the snapshots, and how many are missing before each.
    frames
        What is shown.
    lines
        Names of the lines over the map.
    masked, compared
        Whether there is a mask, and a truth beside it.
    """
    from bokeh.models import (
        CheckboxButtonGroup,
        CustomJS,
        CustomJSTickFormatter,
        RadioButtonGroup,
        Select,
        Slider,
        Toggle,
    )

    several = len(dates) > 1
    slider = Slider(
        name="time",
        start=0,
        end=max(1, len(dates) - 1),
        value=0,
        step=1,
        title="",
        format=CustomJSTickFormatter(
            args={"dates": dates, "missing": missing},
            code="""const step = Math.round(tick), gone = missing[step] > 0 ? `, ${missing[step]} missing before` : '';
                return `${dates[step]} (${step + 1} of ${dates.length}${gone})`;""",
        ),
        width=420,
        visible=several,
        bar_color="#3a6ea5",
    )
    play = Toggle(label="▶", width=44, visible=several)
    play.js_on_change(
        "active",
        CustomJS(
            args={"slider": slider, "play": play},
            # Each step asks for the next one, so that a pause takes effect at once and steps never pile up.
            code="""play.label = play.active ? '❚❚' : '▶';
                const step = () => {
                  if (!play.active) return;
                  slider.value = (slider.value + 1) % (slider.end + 1);
                  setTimeout(step, 700);
                };
                if (play.active) step();""",
        ),
    )
    classes = [str(CLASSES[kind]) for kind in frames.kinds]
    channels = frames.names
    return Controls(
        channel=Select(options=[*channels], value=channels[0], title="", width=110, visible=len(channels) > 1),
        slider=slider,
        play=play,
        classes=CheckboxButtonGroup(
            labels=classes,
            active=list(range(len(classes))),
            visible=masked or "probability" in lines,
        ),
        view=RadioButtonGroup(labels=list(VIEWS), active=0, visible=compared),
        opacity=Slider(start=0, end=1, value=OPACITY, step=0.05, title="mask opacity", width=160, visible=masked),
        lines=CheckboxButtonGroup(labels=lines, active=list(range(len(lines))), visible=bool(lines)),
    )


def below(controls: Controls, kinds: list[int], compared: bool, note: str) -> "UIElement":
    """Lay out mask widgets, legend of the classes, and how the slider works where that is not plain."""
    from bokeh.layouts import column, row
    from bokeh.models import Div

    legend = "".join(_swatch(styles.CLASS_COLORS[CLASSES[kind]], CLASSES[kind]) for kind in kinds)
    if compared:
        legend += "&emsp;outlined: truth&emsp;" + "".join(
            _swatch(color, name) for name, color in styles.VERDICT_COLORS.items()
        )
    notes = [Div(text=legend)] if legend else []
    if note:
        notes.append(Div(text=note))
    return column(row(controls.classes, controls.view, controls.lines, controls.opacity), *notes)


def _swatch(color: str, name: str) -> str:
    box = f"display:inline-block;width:0.9em;height:0.9em;background:{color};margin:0 0.4em 0 1em;vertical-align:-0.1em"
    return f'<span style="{box}"></span>{name}'
