"""The table of storms under the interactive map, linked both ways; and how tables show numbers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from climlab_dl.plot import styles
from climlab_dl.plot.canvas import Canvas

if TYPE_CHECKING:
    from bokeh.models import ColumnDataSource, DataTable, Div

# Columns of `events.find` that are shown, with their heading, decimals and factor.
SHOWN = {
    "track": ("track", 0, 1.0),
    "class": ("class", None, 1.0),
    "lat": ("lat °N", 1, 1.0),
    "lon": ("lon °E", 1, 1.0),
    "area_km2": ("area 10³ km²", 0, 1e-3),
    "length_km": ("length km", 0, 1.0),
    "width_km": ("width km", 0, 1.0),
    "min_psl_hPa": ("PSL hPa", 1, 1.0),
    "max_wind_m_s": ("wind m/s", 1, 1.0),
    "max_tmq_kg_m2": ("TMQ kg/m²", 1, 1.0),
    "max_ivt_kg_m_s": ("IVT kg/m/s", 0, 1.0),
}
# What a storm's card lists; it names the storm and its place in words.
MEASURES = tuple(SHOWN)[4:]
# Of the table, in screen pixels, and how many rows it shows at once.
ROW, HEADER, SCROLL_BAR, MOST_ROWS = 25, 25, 20, 8
# A map that moves to a storm shows so many of its widths around it.
ZOOM = 4


@dataclass(frozen=True, kw_only=True)
class Storms:
    """Every row, the rows of the time shown, the table of the latter, and what is said where it has to be scrolled."""

    rows: "ColumnDataSource"
    here: "ColumnDataSource"
    table: "DataTable"
    hint: "list[Div]"


def number(value: float) -> str:
    """Write a number with as many digits as are read: 1,060,225, 281.7, 0.03119."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def storms(table: pd.DataFrame, dates: list[str], canvas: Canvas, figure: Any) -> Storms:
    """Table of the storms at the time shown, and a mark for each on the map.

    Parameters
    ----------
    table
        From `events.find`.
    dates
        Of the map's snapshots, as `styles.dates` writes them; rows of other times are not shown.
    canvas, figure
        The map.
    """
    import cartopy.crs as ccrs
    from bokeh.models import ColumnDataSource, DataTable, Div, NumberFormatter, TableColumn

    from climlab_dl.plot.widgets import script

    steps = {date: step for step, date in enumerate(dates)}
    when = [styles.date(time) for time in table["time"]] if "time" in table else [dates[0]] * len(table)
    step = np.array([steps.get(date, -1) for date in when], int)
    points = canvas.crs.transform_points(ccrs.PlateCarree(), table["lon"].to_numpy(float), table["lat"].to_numpy(float))
    columns = {name: name for name in SHOWN if name in table}
    data: dict[str, Any] = {"step": step, "x": points[:, 0], "y": points[:, 1], "date": np.array(when, dtype=object)}
    data |= {name: table[name].to_numpy() for name in ("event", "region") if name in table}
    for name in columns:
        values = table[name]
        factor = SHOWN[name][2]
        data[name] = values.astype(str).to_numpy() if name == "class" else values.to_numpy(float) * factor
    # As on the axes and in GeoJSON, west is negative.
    data["lon"] = 180.0 - (180.0 - data["lon"]) % 360.0
    data["color"] = np.array([styles.CLASS_COLORS.get(name, "#404040") for name in table["class"]], dtype=object)
    first = step == 0
    rows = ColumnDataSource({name: list(values) for name, values in data.items()})
    here = ColumnDataSource({name: list(values[first]) for name, values in data.items()}, name="storms")

    figure.scatter(
        "x", "y", source=here, size=11, marker="circle_cross", fill_color="white", fill_alpha=0.3, line_color="color",
        line_width=2, nonselection_alpha=0.5, selection_line_width=5, name="storm marks",
    )  # fmt: skip
    left, right, bottom, top = canvas.extent
    window = {"reach": (right - left) / (2 * ZOOM), "tall": (top - bottom) / (2 * ZOOM)}
    here.selected.js_on_change("indices", script("fly", here=here, figure=figure, **window))
    shown = []
    for name in columns:
        heading, decimals, _ = SHOWN[name]
        column = TableColumn(field=name, title=heading, width=24 + 7 * len(heading))
        if decimals is not None:
            column.formatter = NumberFormatter(format=f"0.{'0' * decimals}" if decimals else "0")
        shown.append(column)
    # All storms of a time in whole rows, or as many as a screen has room for.
    busiest = int(np.bincount(step[step >= 0], minlength=1).max())
    most = min(MOST_ROWS, busiest)
    # Not every system shows the bar of what can be scrolled.
    text = f"Up to {busiest} storms at a time; scroll the table for those beyond {MOST_ROWS}."
    hint = [Div(text=text, styles={"color": "#606060"})] if busiest > most else []
    shown_here = DataTable(
        source=here,
        columns=shown,
        width=sum(column.width for column in shown) + SCROLL_BAR,
        height=HEADER + ROW * max(1, most),
        row_height=ROW,
        index_position=None,
        reorderable=False,
    )
    return Storms(rows=rows, here=here, table=shown_here, hint=hint)
