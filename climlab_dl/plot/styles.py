"""How a field and a class look: the same colours, limits and names on every map."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from climlab_dl.climate.fields import CLASSES, FIELDS

if TYPE_CHECKING:
    import xarray as xr

# Told apart by people who do not see red or green, and legible over both colour maps below.
CLASS_COLORS = {"background": "#00000000", "cyclone": "#d01c8b", "river": "#ff8c00"}
VERDICT_COLORS = {"hit": "#1b9e77", "miss": "#d7301f", "false alarm": "#ffc20a"}
SEQUENTIAL, DIVERGING = "YlGnBu", "RdBu_r"
NO_DATA = "#c8c8c8"


@dataclass(frozen=True, kw_only=True)
class Style:
    """Look of one field.

    Attributes
    ----------
    name, long_name, unit
        As in the archive.
    low, high
        Colour limits, in `unit`; the same at all times.
    colormap
        Matplotlib's name of the colour map.
    """

    name: str
    long_name: str
    unit: str
    low: float
    high: float
    colormap: str

    @property
    def label(self) -> str:
        """Name and unit, as on a colour bar."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def palette(self, colors: int = 256) -> list[str]:
        """List the colour map as hexadecimal colours."""
        from matplotlib import colormaps
        from matplotlib.colors import to_hex

        return [to_hex(color) for color in colormaps[self.colormap](np.linspace(0, 1, colors))]

    def to_page(self) -> dict[str, object]:
        """Tell what the page's script needs of it."""
        return {"label": self.label, "unit": self.unit, "low": self.low, "high": self.high, "palette": self.palette()}


def style(field: "xr.DataArray", values: np.ndarray | None = None) -> Style:
    """Look of a field: from the table of channels, or from its values where the table does not know it.

    Parameters
    ----------
    field
        Named field; `units` and `long_name` are read from its attributes.
    values
        What is drawn, for the limits of an unknown field; by default its first snapshot.
    """
    name = str(field.name or "field")
    known = FIELDS.get(name)
    unit = str(field.attrs.get("units", known.unit if known else ""))
    long_name = str(field.attrs.get("long_name", known.long_name if known else name))
    if known:
        low, high = known.display
        diverging = known.diverging
    else:
        if values is None:
            values = np.asarray(field.isel(time=0) if "time" in field.dims else field)
        finite = values[np.isfinite(values)]
        low, high = np.percentile(finite, [1, 99]) if finite.size else (0.0, 1.0)
        diverging = bool(low < 0 < high)
    if diverging:
        high = max(abs(low), abs(high))
        low = -high
    if not high > low:
        high = low + 1.0
    colormap = DIVERGING if diverging else SEQUENTIAL
    return Style(name=name, long_name=long_name, unit=unit, low=float(low), high=float(high), colormap=colormap)


def class_colors(names: Sequence[str] = CLASSES) -> list[str]:
    """Colour of each class, background transparent."""
    return [CLASS_COLORS[name] for name in names]


def dates(fields: "xr.DataArray | xr.Dataset") -> list[str]:
    """Write times as text, whatever the calendar; one empty text for fields without time."""
    if "time" not in fields.coords:
        return [""] * fields.sizes.get("time", 1)
    return [date(time) for time in np.atleast_1d(fields["time"].values)]


def date(time: Any) -> str:
    """Write one time as text."""
    if hasattr(time, "to_datetime64"):
        time = time.to_datetime64()
    if isinstance(time, np.datetime64):
        return str(time.astype("datetime64[m]")).replace("T", " ") + " UTC"
    text = str(time)
    # cftime dates print with seconds; other times (a step number) as they are.
    return text[:16] if len(text) >= 16 and text[10] == " " else text
