"""When a snapshot was: from a coordinate in any calendar, from the file's name, or unknown and kept as found."""

import logging
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import cftime
import numpy as np
import xarray as xr

log = logging.getLogger(__name__)

# data-1996-06-09-01-1.nc: date, three-hourly step, run of the model, and in some copies the number of the labelling.
_CLIMATENET = re.compile(r"data-(\d{4})-(\d{2})-(\d{2})-(\d{2})-(\d+)(?:_(\d+))?(?:-ANOMALY)?(?:\.\w+)?$")
# cam.h1.2001-06-09-10800.nc: seconds of the day.
_CESM = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})-(\d{5})(?!\d)")
_DATE = re.compile(
    r"(?<!\d)(\d{4})-?([01]\d)-?([0-3]\d)"
    r"(?:[T_ .-]?([0-2]\d)(?!\d{3,})(?:[:_-]?([0-5]\d))?(?:[:_-]?([0-5]\d))?)?Z?(?!\d)"
)
_HOURS_A_STEP = 3


class Name(NamedTuple):
    """What a file's name says: time, run of the model, number of the labelling (-1 where it says nothing)."""

    time: cftime.datetime | None
    run: int = -1
    labelling: int = -1


def from_name(path: str | Path, calendar: str = "standard") -> Name:
    """Read the time from a file's name, as ClimateNet, DeepCAM, CESM and most archives write it.

    Parameters
    ----------
    path : str or Path
        Only its last part is looked at: ``data-1996-06-09-01-1.nc`` is 9 June 1996 03:00, run 1.
    calendar : str
        CF name of the calendar of the date.
    """
    name = Path(path).name
    run = labelling = -1
    seconds = 0
    if match := _CLIMATENET.search(name):
        year, month, day, step, run = (int(g) for g in match.groups()[:5])
        labelling = int(match[6] or -1)
        seconds = step * _HOURS_A_STEP * 3600
    elif match := _CESM.search(name):
        year, month, day, seconds = (int(g) for g in match.groups())
    elif match := _DATE.search(name):
        year, month, day, *clock = (int(g or 0) for g in match.groups())
        seconds = clock[0] * 3600 + clock[1] * 60 + clock[2]
    else:
        return Name(None)
    try:
        date = cftime.datetime(year, month, day, calendar=calendar)
        return Name(cftime.num2date(seconds, f"seconds since {date.isoformat()}", calendar=calendar), run, labelling)
    except ValueError:
        return Name(None, run, labelling)


def coordinate(times: list[cftime.datetime]) -> xr.Variable:
    """Put dates in a variable: ``datetime64`` where the calendar and the years allow it, else cftime objects."""
    calendar = times[0].calendar
    numbers = cftime.date2num(times, "seconds since 1970-01-01", calendar=calendar)
    raw = xr.Variable("time", numbers, {"units": "seconds since 1970-01-01", "calendar": calendar})
    return decode(raw)


def numbered(count: int) -> xr.Variable:
    """Time coordinate of snapshots that nobody dates: their numbers, from 0."""
    return xr.Variable("time", np.arange(count), {"long_name": "number of the snapshot"})


def decode(raw: xr.Variable, where: str = "time") -> xr.Variable:
    """Decode a time variable; one that cannot be decoded is kept as it is, with a notice.

    Standard calendars give ``datetime64[ns]``; noleap, 360_day and the like, and years before 1678, give cftime
    objects, in which 30 February exists where the calendar has it and 29 February does not where it has not.
    """
    if "units" not in raw.attrs or not np.issubdtype(raw.dtype, np.number):
        return raw
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that cftime objects are used where datetime64 cannot
            return xr.coders.CFDatetimeCoder().decode(raw, name="time").load()
    except (ValueError, OverflowError) as error:
        log.warning("%s cannot be decoded (%s); its numbers are kept", where, str(error).splitlines()[0])
        return raw


def refuse_missing(raw: xr.Variable, path: Path) -> None:
    """Raise ValueError where a snapshot has no time; cftime would decode what is no number to some date."""
    if raw.dtype.kind == "f" and (missing := np.flatnonzero(np.isnan(np.atleast_1d(raw.values)))).size:
        raise ValueError(
            f"{path} has no time for its snapshot number {missing[0]} (counted from 0), but a missing value. Write its "
            "time, or leave the snapshot out with xarray's dropna('time')."
        )


def dates(raw: xr.Variable) -> np.ndarray:
    """Give a numeric time variable as an array of cftime dates."""
    return cftime.num2date(raw.values, raw.attrs["units"], raw.attrs.get("calendar", "standard"))


def dated(time: xr.DataArray) -> cftime.datetime:
    """Give one decoded time as a cftime date."""
    value: Any = time.values[()]
    if isinstance(value, np.datetime64):
        moment = value.astype("datetime64[us]").item()
        return cftime.datetime(*moment.timetuple()[:6], moment.microsecond, calendar="standard")
    return value


def names(fields: xr.Dataset) -> list[str]:
    """Name snapshots ``data-YYYY-MM-DD-TT-R``, TT being the three-hourly step of the day and R the model run.

    Raises
    ------
    ValueError
        When a time is not a date, or two times fall into the same three hours.
    """
    if calendar(fields["time"]) == "none":
        raise ValueError(
            f"The times are {fields['time'].values[:2]}..., not dates, and a file's name has to say when its snapshot "
            "is. Give dates with fields.assign_coords(time=...)."
        )
    found = []
    for i in range(fields.sizes["time"]):
        date = dated(fields["time"][i])
        run = int(fields["run"][i]) if "run" in fields.coords else 1
        copy = f"_{int(fields['labelling'][i])}" if "labelling" in fields.coords else ""
        step = date.hour // _HOURS_A_STEP
        found.append(f"data-{date.year:04d}-{date.month:02d}-{date.day:02d}-{step:02d}-{run}{copy}")
    if len(set(found)) < len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise ValueError(
            f"Two snapshots would both be {twice}: names of this layout tell three-hourly steps apart, no finer. "
            "Thin the times first, for example with fields.isel(time=slice(None, None, 3))."
        )
    return found


def calendar(times: xr.DataArray | xr.Variable) -> str:
    """CF name of the calendar of decoded times, or ``"none"`` where they are not dates."""
    if np.issubdtype(times.dtype, np.datetime64):
        return "standard"
    first: Any = times.values.flat[0] if times.size else None
    return first.calendar if isinstance(first, cftime.datetime) else "none"
