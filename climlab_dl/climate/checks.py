"""Whether fields can be what they claim: in the first snapshot, and in each when it is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from dask.local import get_sync

from climlab_dl.climate.fields import FAMILIES, FIELDS

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
REMEDY = (
    "Correct the file: d = xarray.open_dataset('FILE', decode_cf=False); d['NAME'].attrs['units'] = 'hPa'; "
    "d.to_netcdf('mended.nc'); for a fill value d['NAME'].attrs['_FillValue'] = -9999. "
    "Or leave the field out with names={'NAME': None}."
)
"""What to do about numbers that a file's attributes do not explain."""


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
        elif problem := beyond(name, float(np.nanmin(values)), float(np.nanmax(values))):
            problems.append(problem)
    if problems:
        raise ValueError(f"{fields.encoding['files'][0]}: {'; '.join(problems)}. {REMEDY}")


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Refuses snapshots that cannot be, when they are read.

    What the first snapshot does not show (a fill value in the thousandth, another unit from some year on) so ends the
    work that reads it, instead of going into a mask, a mean or a network.

    Attributes
    ----------
    fields : sequence of (int or None, str)
        What is looked at: component of what is read together, or None for all of it, and its canonical name.
    files : sequence of Path
    where : ndarray of int, shape (time, 2)
        File number of each snapshot, first.
    times : ndarray
        Time of each snapshot.
    """

    fields: Sequence[tuple[int | None, str]]
    files: Sequence[Path]
    where: np.ndarray
    times: np.ndarray

    def __call__(self, number: int, values: np.ndarray, picks: Sequence[int] | None = None) -> bool:
        """Look at snapshot ``number``, in SI units, and say whether a field has gaps.

        Parameters
        ----------
        number
            Of the snapshot.
        values
            (lat, lon) or (component, lat, lon) and so on.
        picks
            Which components these are, where they are not all.

        Raises
        ------
        ValueError
            Naming file, time and field, where a value is beyond what is possible.
        """
        gaps = False
        for component, name in self.fields:
            if picks is not None and component not in picks:
                continue
            place = component if picks is None or component is None else list(picks).index(component)
            one = values if place is None else values[place]
            low, high = float(one.min()), float(one.max())
            if np.isnan(low):  # fmin and fmax pass over what is missing, and take longer
                low, high = float(np.fmin.reduce(one, axis=None)), float(np.fmax.reduce(one, axis=None))
                gaps = True
            if not np.isnan(low) and (problem := beyond(name, low, high)):
                time = self.times[number]
                time = time.astype("datetime64[s]") if isinstance(time, np.datetime64) else time
                raise ValueError(
                    f"{self.files[self.where[number, 0]]}: at {time} {problem}. {REMEDY} "
                    "climlab-dl check lists all that is wrong."
                )
        return gaps


def beyond(name: str, low: float, high: float) -> str:
    """Say what is wrong with a field, or one on levels, that reaches from ``low`` to ``high``, or nothing."""
    known = FIELDS[name] if name in FIELDS else FAMILIES[name]
    bottom, top = known.limits
    if bottom <= low and high <= top:
        return ""
    possible = f"possible is {bottom:g} to {top:g} {known.unit}"
    if np.isinf([low, high]).any():
        return f"{name} has infinite values, of a division by zero or an overflow; {possible}"
    fills = [fill for fill in _FILLS for value in (low, high) if np.isclose(value, fill, rtol=1e-5)]
    if fills:
        cause = f", an undeclared fill value {fills[0]:g}"
    else:
        unit = _likely_unit(name, low, high)
        cause = f", as numbers in {unit} would" if unit else ""
    return f"{name} reaches from {low:g} to {high:g}{cause}; {possible}"


def _likely_unit(name: str, low: float, high: float) -> str:
    """Name the unit in which numbers come nearest to what maps of the field show, or none that fits."""
    known = FIELDS[name] if name in FIELDS else FAMILIES[name]
    usual = FIELDS[name].display if name in FIELDS else known.limits
    fits = {}
    for unit, scale, offset in _MISTAKES.get(known.unit, ()):
        bottom, top = low * scale + offset, high * scale + offset
        if known.limits[0] <= bottom and top <= known.limits[1]:
            fits[unit] = abs(np.log(max(abs(bottom), abs(top), 1e-30) / max(map(abs, usual))))
    return min(fits, key=lambda unit: fits[unit], default="")
