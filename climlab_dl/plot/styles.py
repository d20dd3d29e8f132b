"""How a field and a class look: the same colours, limits, units and names on every map."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from climlab_dl.climate.fields import CLASSES, FIELDS
from climlab_dl.plot.colors import even

if TYPE_CHECKING:
    import xarray as xr

# Told apart by people who do not see red or green, in grey by their lightness, and legible over both maps below.
CLASS_COLORS = {"background": "#00000000", "cyclone": "#d01c8b", "river": "#ff8c00"}
VERDICT_COLORS = {"hit": "#1b9e77", "miss": "#b30000", "false alarm": "#ffc20a"}
SEQUENTIAL, DIVERGING = "YlGnBu", "RdBu_r"
NO_DATA = "#c8c8c8"
# Units in which people read fields whose SI values have too many digits or too few, and the factor to them.
READ_IN = {
    "PS": ("hPa", 1e-2),
    "PSL": ("hPa", 1e-2),
    "QREFHT": ("g kg-1", 1e3),
    "PRECT": ("mm h-1", 3.6e6),
    "VORT850": ("10-5 s-1", 1e5),
    "DIV850": ("10-5 s-1", 1e5),
}
# Where more than this share of the globe in the first snapshot lies beyond a field's limits, they are fitted to it.
BEYOND = 0.05
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, kw_only=True)
class Style:
    """Look of one field.

    Attributes
    ----------
    name, long_name
        As in the archive.
    unit
        As it is written on maps, "kg m⁻²".
    low, high
        Colour limits, in `unit`; the same at all times.
    colormap
        Matplotlib's name of the colour map.
    fitted
        Whether the limits are the 1st and 99th percentile of the first snapshot, because the table of channels knows
        none, or none that hold the field.
    """

    name: str
    long_name: str
    unit: str
    low: float
    high: float
    colormap: str
    fitted: bool = False

    @property
    def label(self) -> str:
        """Name and unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def scale(self) -> str:
        """Name and unit as on a colour bar, which says so where the colours are not those of other archives."""
        return f"{self.label}, colours fitted to the first snapshot" if self.fitted else self.label

    def palette(self, colors: int = 256) -> list[str]:
        """List the colour map, in steps that look equally large, as hexadecimal colours."""
        return list(even(self.colormap, colors, diverging=self.colormap == DIVERGING))

    def to_page(self) -> dict[str, object]:
        """Tell what the page's script needs of it."""
        limits = {"low": self.low, "high": self.high, "palette": self.palette()}
        return {"label": self.label, "scale": self.scale, "unit": self.unit, **limits}


def readable(field: "xr.DataArray") -> "xr.DataArray":
    """Give a field in the unit in which it is shown: sea level pressure in hPa rather than Pa."""
    name = str(field.name)
    if name not in READ_IN or field.attrs.get("units", FIELDS[name].unit) != FIELDS[name].unit:
        return field
    unit, factor = READ_IN[name]
    return (field * np.float32(factor)).assign_attrs({**field.attrs, "units": unit})


def style(field: "xr.DataArray", first: np.ndarray | None = None) -> Style:
    """Look of a field: from the table of channels, or from its values where the table's limits do not hold them.

    Parameters
    ----------
    field
        Named field, as `readable` gives it; `units`, `long_name` and `valid_range`, the limits of a field that the
        table does not know, are read from its attributes.
    first
        Its first snapshot, (lat, lon), where that has been read already. The limits hold at all times, so that
        pictures and the frames of an animation can be compared.
    """
    name = str(field.name or "field")
    known = FIELDS.get(name)
    unit = str(field.attrs.get("units", known.unit if known else ""))
    long_name = str(field.attrs.get("long_name", known.long_name if known else name))
    shown_in, factor = READ_IN.get(name, ("", 1.0))
    limits, of_table = field.attrs.get("valid_range"), None
    if known and unit in (known.unit, shown_in):
        limits, of_table = np.array(known.display) * (factor if unit == shown_in else 1.0), known
    if first is None:
        first = np.asarray(field.isel(time=0) if "time" in field.dims else field)
    finite = first[np.isfinite(first)]
    fitted = finite.size > 0 and (limits is None or _share_beyond(first, field, *limits) > BEYOND)
    low, high = np.percentile(finite, [1, 99]) if fitted else (0.0, 1.0) if limits is None else limits
    diverging = of_table.diverging if of_table else bool(low < 0 < high)
    if diverging:
        high = max(abs(low), abs(high))
        low = -high
    if not high > low:
        high = low + 1.0
    return Style(
        name=name,
        long_name=long_name,
        unit=_typeset(unit),
        low=float(low),
        high=float(high),
        colormap=DIVERGING if diverging else SEQUENTIAL,
        fitted=fitted,
    )


def _share_beyond(values: np.ndarray, field: "xr.DataArray", low: float, high: float) -> float:
    """Share of the known area that lies beyond limits; of the known values, where there are no latitudes."""
    weights = np.isfinite(values).astype(float)
    if values.ndim == 2 and field.dims[-2:] == ("lat", "lon") and "lat" in field.coords:
        weights *= np.cos(np.radians(field["lat"].values.astype(float)))[:, None]
    return float((weights * ((values < low) | (values > high))).sum() / weights.sum())


def _typeset(unit: str) -> str:
    """Write powers of a CF unit as such, kg m⁻² for kg m-2, and of a pure number none."""
    if unit == "1":
        return ""
    return re.sub(r"(?<=[A-Za-z])-?\d+|(?<=\d)-\d+", lambda power: power[0].translate(_SUPERSCRIPT), unit)


def class_colors(names: Sequence[str] = CLASSES) -> list[str]:
    """Colour of each class, background transparent."""
    return [CLASS_COLORS[name] for name in names]


def line_color(kind: int) -> str:
    """Colour of a line or point that belongs to a class, or to none (0)."""
    return CLASS_COLORS[CLASSES[kind]] if 0 < kind < len(CLASSES) else "#303030"


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
