"""What the interactive map answers: under the pointer, to a click, and to a box drawn around a region."""

from typing import TYPE_CHECKING, Any

import numpy as np

from climlab_dl.climate.sphere import cell_areas_km2
from climlab_dl.plot.frames import CERTAIN, Frames
from climlab_dl.plot.widgets import code, script

if TYPE_CHECKING:
    from bokeh.models import GlyphRenderer, LayoutDOM

# In screen pixels: beside a map of the usual width, on a screen of 1400.
WIDTH = 400
# So many dates have room under a series.
LABELS = 4
_HINT = "Click the map for the series at a place{storms}; draw with the box tool (⬚) for a region's figures."


def add(
    figure: Any, raster: "GlyphRenderer", page: dict[str, Any], frames: Frames, missing: list[int], dates: list[str]
) -> "LayoutDOM":
    """Let the map answer, and lay out where it does.

    Parameters
    ----------
    figure, raster
        The map, and its field.
    page
        What the page's scripts share (`Explorer.layout`).
    frames, missing, dates
        What is shown, how many snapshots are missing before each, and their times as text.
    """
    from bokeh.layouts import column, row
    from bokeh.models import BoxSelectTool, ColumnDataSource, CustomJSHover, Div, HoverTool

    under = CustomJSHover(args={**page, "certain": CERTAIN}, code=code("under"))
    lines = '<div style="white-space: pre-line">@cell{custom}</div>'
    box = BoxSelectTool(renderers=[], persistent=True)
    box.overlay.fill_alpha = 0.1
    figure.add_tools(HoverTool(renderers=[raster], tooltips=lines, formatters={"@cell": under}), box)
    asked, boxed = ColumnDataSource({"cell": []}, name="asked"), ColumnDataSource({"cell": []}, name="boxed")
    series = ColumnDataSource({"day": [], "value": [], "color": []}, name="series")
    panel, now = _panel(series, frames.days, dates)
    told, card = (Div(visible=False, name=name, width=WIDTH) for name in ("region", "card"))
    where = {**page, "size": frames.place.shape, "figure": figure}
    figure.js_on_event("tap", script("tap", **where, asked=asked))
    figure.js_on_event("selectiongeometry", script("box", **where, boxed=boxed))
    figure.js_on_event("reset", script("clear", asked=asked, boxed=boxed))

    draw = script("series", **page, asked=asked, panel=panel, now=now, series=series, days=frames.days, missing=missing)
    areas = cell_areas_km2(frames.lat, frames.lon)[:, 0].tolist()
    tell = script("region", **page, boxed=boxed, told=told, areas=areas)
    boxed.js_on_change("data", tell)
    asked.js_on_change("data", draw)
    for widget in (page["slider"], page["channel"]):
        widget.js_on_change("value", draw)
        if not page["live"]:
            widget.js_on_change("value", tell)
    if page["live"]:
        page["frames"].js_on_change("data", tell)

        def read(attr: str, old: Any, new: Any) -> None:
            for cell in np.asarray(asked.data["cell"], int):
                series.data = frames.series(page["channel"].value, int(cell))

        asked.on_change("data", read)
        page["channel"].on_change("value", read)
    if frames.storms is not None:
        from climlab_dl.plot.tables import MEASURES, SHOWN

        measures = [(name, *SHOWN[name][:2]) for name in MEASURES if name in frames.storms]
        show = script("card", **page, card=card, measures=measures)
        page["storms"]["here"].selected.js_on_change("indices", show)
    hint = _HINT.format(storms="" if frames.storms is None else " and the storm there")
    hint_line = Div(text=hint, styles={"color": "#606060", "flex": "1 0 100%"})
    # Beside the map there is room for one column, below it for the series and the card next to each other.
    return row(hint_line, panel, column(told, card), styles={"flex-wrap": "wrap", "flex": f"1 1 {WIDTH}px"})


def _panel(series: Any, days: list[float], dates: list[str]) -> tuple[Any, Any]:
    """Small figure for a series, hidden until one is asked for, with a mark at the time shown."""
    from bokeh.models import FixedTicker, NoOverlap, Span
    from bokeh.plotting import figure as new_figure

    panel: Any = new_figure(
        width=WIDTH, height=190, tools="", toolbar_location=None, title="", visible=False, name="panel",
        min_border_right=30,
    )  # fmt: skip
    panel.line("day", "value", source=series, line_color="#909090")
    panel.scatter("day", "value", source=series, size=6, color="color")
    if any(dates):
        labels = _labels(days, dates)
        panel.xaxis.ticker = FixedTicker(ticks=list(labels))
        panel.xaxis.major_label_overrides = labels
        panel.xaxis.major_label_policy = NoOverlap()
    else:
        panel.xaxis.axis_label = "snapshots since the first"
    now = Span(location=0, dimension="height", line_color="#3a6ea5", line_width=1.5)
    panel.add_layout(now)
    return panel, now


def _labels(days: list[float], dates: list[str]) -> dict[float, str]:
    """Dates to write at some snapshots, about evenly spaced in time: theirs, for calendars differ; the hour below."""
    wanted = np.linspace(min(days), max(days), LABELS)
    steps = np.unique([np.abs(np.subtract(days, day)).argmin() for day in wanted])
    return {float(days[step]): dates[step].replace(" ", "\n", 1) for step in steps}
