"""Whether fields can be what they claim: limits, missing numbers, classes of masks."""

import numpy as np
import xarray as xr
from dask.local import get_sync

from climlab_dl.climate.fields import FIELDS, Field

_FILLS = (-9999.0, -999.0, -99.0, 9999.0, -32767.0, -32768.0, 1e20, 1e30, 1e36, 9.969209968386869e36, -1e34, -9.99e8)
# What numbers in another unit would become in the right one: scale, offset.
_MISTAKES: dict[str, tuple[tuple[str, float, float], ...]] = {
    "Pa": (("hPa", 100, 0), ("kPa", 1000, 0)),
    "K": (("degrees Celsius", 1, 273.15),),
    "m": (("geopotential in m2/s2", 1 / 9.80665, 0), ("dam", 10, 0), ("km", 1000, 0)),
    "kg kg-1": (("g/kg", 1e-3, 0),),
    "m s-1": (("mm/s", 1e-3, 0), ("mm/h", 1e-3 / 3600, 0), ("mm/day", 1e-3 / 86400, 0), ("m/day", 1 / 86400, 0)),
    "kg m-2": (("g/m2", 1e-3, 0),),
}


def look(fields: xr.Dataset) -> None:
    """Read the first snapshot and refuse what cannot be.

    Raises
    ------
    ValueError
        Naming the file, and every field with its values, its limits and the likely mistake.
    """
    # The scheduler as a function: by its name, dask would import its cluster first.
    first = fields.isel(time=0).compute(scheduler=get_sync)
    problems = []
    for name in map(str, fields.data_vars):
        if name not in FIELDS:
            continue
        values = first[name].values
        if np.isnan(values).all():
            # A first snapshot may lack what accumulates up to it; a last one may not.
            last = fields[name].isel(time=-1).compute(scheduler=get_sync).values
            if np.isnan(last).all():
                problems.append(f"{name} has no number at all, in the first and in the last snapshot")
        elif problem := beyond(FIELDS[name], float(np.nanmin(values)), float(np.nanmax(values))):
            problems.append(problem)
    if problems:
        raise ValueError(
            f"{fields.encoding['files'][0]}: {'; '.join(problems)}. Correct the attributes units and _FillValue in the "
            "file, or leave a field out with names={'their_name': None}."
        )


def beyond(field: Field, low: float, high: float) -> str:
    """Say what is wrong with a field that reaches from ``low`` to ``high``, or nothing."""
    bottom, top = field.limits
    if bottom <= low and high <= top:
        return ""
    possible = f"possible is {bottom:g} to {top:g} {field.unit}"
    if np.isinf([low, high]).any():
        return f"{field.name} has infinite values, of a division by zero or an overflow; {possible}"
    fills = [fill for fill in _FILLS for value in (low, high) if np.isclose(value, fill, rtol=1e-5)]
    if fills:
        cause = f", an undeclared fill value {fills[0]:g}"
    else:
        unit = _likely_unit(field, low, high)
        cause = f", as numbers in {unit} would" if unit else ""
    return f"{field.name} reaches from {low:g} to {high:g}{cause}; {possible}"


def _likely_unit(field: Field, low: float, high: float) -> str:
    """Name the unit in which numbers come nearest to what maps of the field show, or none that fits."""
    fits = {}
    for unit, scale, offset in _MISTAKES.get(field.unit, ()):
        bottom, top = low * scale + offset, high * scale + offset
        if field.limits[0] <= bottom and top <= field.limits[1]:
            fits[unit] = abs(np.log(max(abs(bottom), abs(top), 1e-30) / max(map(abs, field.display))))
    return min(fits, key=lambda unit: fits[unit], default="")
