"""Tracks of any origin as one kind of table."""

# pandas' annotations do not tell a column from a table.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAssignmentType=false, reportGeneralTypeIssues=false, reportOptionalMemberAccess=false
# pyright: reportOperatorIssue=false, reportReturnType=false

from collections.abc import Sequence
from pathlib import Path

import cftime
import numpy as np
import pandas as pd
import xarray as xr

from climlab_dl.climate import besttracks, times
from climlab_dl.netcdf import opened


def read_tracks(path: str | Path, *, variables: Sequence[str] = ()) -> pd.DataFrame:
    """Read tracks, observed or detected, whatever program wrote them.

    Recognised by content: IBTrACS (NetCDF and CSV), HURDAT2, CF trajectories as `climlab_dl.events.to_netcdf` writes
    them, TempestExtremes' ``StitchNodes`` text, TECA's trajectory CSV, and CSV with columns ``track`` or ``track_id``,
    ``lat``, ``lon``, and ``time`` or year, month, day, hour.

    Parameters
    ----------
    path
        The file.
    variables
        Names of the values that a TempestExtremes file has between position and date, in their order; ``slp`` (Pa)
        and ``wind10`` (m/s) are understood. By default value_1, value_2, ...

    Returns
    -------
    pandas.DataFrame
        ``track``, ``time``, ``lat``, ``lon`` (degrees; 0..360 in best tracks); ``max_wind_m_s``, ``min_psl_hPa``,
        ``saffir_simpson``, ``name`` and ``nature`` where the file tells them; and the file's other columns.

    Raises
    ------
    ValueError
        Where the file is none of these, or is cut off.
    """
    path = Path(path)
    if path.suffix.lower() in (".nc", ".nc4", ".cdf"):
        with opened(path, decode_times=False) as file:
            best = "sid" in file
            ragged = "rowSize" in file
        if best:
            return besttracks.read_ibtracs(path)
        if ragged:
            return _read_cf(path)
        raise ValueError(f"{path} is neither IBTrACS (no variable 'sid') nor CF trajectories (no variable 'rowSize')")
    with path.open(encoding="utf-8") as file:
        first = file.readline()
    if besttracks.is_hurdat2(first):
        return besttracks.read_hurdat2(path)
    if first.startswith("SID,"):
        return besttracks.read_ibtracs(path)
    if first.startswith("# teca_table"):
        return _read_teca(path)
    if first.split()[:1] == ["start"]:
        return _read_tempest(path, variables)
    table = pd.read_csv(path)
    if "basin" in table:  # NA is the North Atlantic there, and a missing number elsewhere
        table["basin"] = pd.read_csv(path, usecols=["basin"], keep_default_na=False, na_values=[""])["basin"]
    return _named(table, path)


def _read_cf(path: Path) -> pd.DataFrame:
    """Read a contiguous ragged array; missing integers stay integers."""
    with opened(path, mask_and_scale=False) as file:
        file = file.load()
    lengths = file["rowSize"].values
    names = np.array(str(file["class"].attrs["flag_meanings"]).split())
    columns = {name: _column(file[name]) for name in file.variables if file[name].dims == ("obs",)}
    table = pd.DataFrame(columns)
    table.insert(0, "class", pd.Series(np.repeat(names[file["class"].values], lengths), dtype="str"))
    table.insert(1, "track", np.repeat(file["track"].values, lengths))
    return table


def _column(variable: xr.DataArray) -> pd.Series:
    values = variable.values
    if pd.api.types.infer_dtype(values) in ("string", "empty"):
        text = pd.Series(values, dtype="str")
        return text.mask(text == "")
    if variable.attrs.get("flag_meanings") == "no yes":
        return pd.Series(values.astype(bool))
    missing = variable.attrs.get("_FillValue")
    if values.dtype.kind == "i" and missing is not None:
        return pd.Series(values, dtype=values.dtype.name.capitalize()).mask(values == missing)
    return pd.Series(values)


def _read_teca(path: Path) -> pd.DataFrame:
    header = {}
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                break
            if "=" in line:
                name, value = line.lstrip("# ").split("=", 1)
                header[name.strip()] = value.strip().strip('"')
    table = pd.read_csv(path, comment="#", skipinitialspace=True)
    table.columns = table.columns.str.replace(r"\(\d+\)$", "", regex=True)
    attrs = {"units": header["time_units"], "calendar": header.get("calendar", "standard")}
    table["time"] = times.decode(xr.Variable("time", table["time"].to_numpy(), attrs)).values
    return _named(table.rename(columns={"surface_wind": "wind10", "sea_level_pressure": "slp"}), path)


def _read_tempest(path: Path, variables: Sequence[str]) -> pd.DataFrame:
    lines = path.read_text(encoding="utf-8").splitlines()
    rows: list[list[str]] = []
    track, position = 0, 0
    while position < len(lines):
        words = lines[position].split()
        count = int(words[1]) if words[:1] == ["start"] else 0
        points = [line.split() for line in lines[position + 1 : position + 1 + count]]
        if not count or len(points) < count or any(point[:1] == ["start"] for point in points):
            raise ValueError(
                f"{path}, line {position + 1}: expected 'start', the number of points and as many lines; got "
                f"{lines[position]!r} and {len(points)} lines"
            )
        track += 1
        rows += [[str(track), *point] for point in points]
        position += 1 + count
    # On a structured grid i and j come before the longitude, on an unstructured one a single index.
    indices = ["i", "j"] if "." not in rows[0][2] else ["i"]
    values = len(rows[0]) - 1 - len(indices) - 2 - 4
    names = list(variables) or [f"value_{number + 1}" for number in range(values)]
    if len(names) != values:
        raise ValueError(f"{path} has {values} values between position and date; got the names {names}")
    columns = ["track", *indices, "lon", "lat", *names, "year", "month", "day", "hour"]
    table = pd.DataFrame(rows, columns=columns).apply(pd.to_numeric)
    return _named(table, path)


def _named(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Bring the names and units of other programs to those of `climlab_dl.events.find`."""
    date = ["year", "month", "day", "hour"]
    if set(date) <= set(table.columns):
        table = table.assign(time=pd.to_datetime(table[date])).drop(columns=date)
    table = table.rename(columns={"track_id": "track", "wind10": "max_wind_m_s"})
    if "slp" in table:
        table["min_psl_hPa"] = table.pop("slp") / 100
    if absent := {"track", "time", "lat", "lon"} - set(table.columns):
        raise ValueError(
            f"{path} has no column {', '.join(sorted(absent))} (found: {', '.join(table.columns)}). Known are IBTrACS, "
            "HURDAT2, CF trajectories, TempestExtremes, TECA, and CSV with track, time, lat, lon"
        )
    if table["time"].dtype.kind != "M" and not isinstance(table["time"].iloc[0], cftime.datetime):
        table["time"] = pd.to_datetime(table["time"])
    if "max_wind_m_s" in table and "saffir_simpson" not in table:
        table["saffir_simpson"] = besttracks.hurricane_class(table["max_wind_m_s"])
    if table["track"].dtype.kind == "f" and (table["track"] % 1 == 0).all():
        table["track"] = table["track"].astype(int)
    front = ["track", "time", "lat", "lon"]
    return table[front + [name for name in table.columns if name not in front]]
