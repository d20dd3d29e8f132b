"""Observed cyclones: the best tracks of IBTrACS and HURDAT2 as tables like those of detected events."""

# pandas' annotations do not tell a column from a table.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAssignmentType=false, reportGeneralTypeIssues=false, reportOptionalMemberAccess=false
# pyright: reportOperatorIssue=false, reportReturnType=false

import re
from pathlib import Path

import numpy as np
import pandas as pd

from climlab_dl.climate.scales import KNOT_M_S, saffir_simpson
from climlab_dl.netcdf import opened

# A cyclone is AL, EP, CP and so on, number, year: "AL012021,                ANA,     17,".
_HURDAT2_STORM = re.compile(r"^([A-Z]{2}\d{6}),\s*([^,]*?)\s*,\s*(\d+)\s*,?\s*$")
_HURDAT2_COLUMNS = ("date", "hour", "record", "status", "lat", "lon", "wind_kt", "psl_hPa")


def is_hurdat2(first_line: str) -> bool:
    """Tell by its first line whether a file is HURDAT2."""
    return _HURDAT2_STORM.match(first_line) is not None


def read_hurdat2(path: str | Path) -> pd.DataFrame:
    """Read a HURDAT2 file of the National Hurricane Center; columns as in `climlab_dl.events.read_tracks`.

    Raises
    ------
    ValueError
        Where a storm has fewer lines than its header says: the file is cut off.

    References
    ----------
    C. W. Landsea and J. L. Franklin (2013), Atlantic hurricane database uncertainty and presentation of a new
    database format, Mon. Wea. Rev. 141, 3576-3592; format description at nhc.noaa.gov/data.
    """
    lines = [line for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
    rows: list[list[str]] = []
    position = 0
    while position < len(lines):
        header = _HURDAT2_STORM.match(lines[position])
        if header is None:
            raise ValueError(f"{path}: expected a storm's header such as 'AL012021, ANA, 17,'; got {lines[position]!r}")
        storm, name, count = header[1], header[2], int(header[3])
        entries = lines[position + 1 : position + 1 + count]
        if len(entries) < count or any(_HURDAT2_STORM.match(entry) for entry in entries):
            raise ValueError(f"{path}: {storm} {name} has fewer than its {count} lines; the file is cut off")
        values = ([value.strip() for value in entry.split(",")] for entry in entries)
        rows += [[storm, name, *row[: len(_HURDAT2_COLUMNS)]] for row in values]
        position += 1 + count
    table = pd.DataFrame(rows, columns=["track", "name", *_HURDAT2_COLUMNS])
    return _finished(
        pd.DataFrame(
            {
                "track": table["track"],
                "name": table["name"],
                "time": pd.to_datetime(table["date"] + table["hour"], format="%Y%m%d%H%M"),
                "lat": _degrees(table["lat"], "S"),
                "lon": _degrees(table["lon"], "W"),
                "max_wind_m_s": table["wind_kt"].astype(float).where(lambda knots: knots >= 0) * KNOT_M_S,
                "min_psl_hPa": table["psl_hPa"].astype(float).where(lambda pressure: pressure > 0),
                "nature": table["status"],
            }
        )
    )


def _degrees(text: pd.Series, negative: str) -> pd.Series:
    """Read '30.3N' or '55.5W'."""
    return text.str[:-1].astype(float) * np.where(text.str[-1] == negative, -1.0, 1.0)


def read_ibtracs(path: str | Path) -> pd.DataFrame:
    """Read an IBTrACS file, NetCDF or CSV, version 4; columns as in `climlab_dl.events.read_tracks`.

    Wind and pressure are those of the United States' agencies where they report any (one-minute means, as the
    Saffir-Simpson scale wants them), else of the responsible WMO agency. Spur tracks, which differ from the main
    track of the same storm, are left out.

    References
    ----------
    K. R. Knapp et al. (2010), The International Best Track Archive for Climate Stewardship (IBTrACS), BAMS 91,
    363-376; column documentation of version 4 at ncei.noaa.gov.
    """
    table = _ibtracs_csv(path) if str(path).lower().endswith(".csv") else _ibtracs_netcdf(path)
    table = table[~table["track_type"].str.lower().str.contains("spur")]
    return _finished(
        pd.DataFrame(
            {
                "track": table["sid"],
                "name": table["name"],
                "time": pd.to_datetime(table["iso_time"], format="%Y-%m-%d %H:%M:%S"),
                "lat": table["lat"].astype(float),
                "lon": table["lon"].astype(float),
                "max_wind_m_s": table["usa_wind"].fillna(table["wmo_wind"]).astype(float) * KNOT_M_S,
                "min_psl_hPa": table["usa_pres"].fillna(table["wmo_pres"]).astype(float),
                "nature": table["nature"],
            }
        )
    )


_PER_STORM = ("sid", "name", "track_type")
_PER_TIME = ("iso_time", "lat", "lon", "usa_wind", "usa_pres", "wmo_wind", "wmo_pres", "nature")


def _ibtracs_netcdf(path: str | Path) -> pd.DataFrame:
    with opened(path, decode_times=False) as file:
        file = file[[*_PER_STORM, *_PER_TIME]].load()
    known = np.char.strip(file["iso_time"].values.astype(str)) != ""
    storm, _ = np.nonzero(known)
    columns = {name: file[name].values[storm] for name in _PER_STORM} | {
        name: file[name].values[known] for name in _PER_TIME
    }
    return pd.DataFrame({k: v.astype(str) if v.dtype.kind in "SO" else v for k, v in columns.items()})


def _ibtracs_csv(path: str | Path) -> pd.DataFrame:
    # The second line has the units, blanks are missing, and NA is the North Atlantic.
    names = [name.upper() for name in (*_PER_STORM, *_PER_TIME)]
    table = pd.read_csv(path, skiprows=[1], usecols=names, na_values=["", " "], keep_default_na=False)
    return table.rename(columns=str.lower)


def hurricane_class(wind_m_s: pd.Series) -> pd.Series:
    """Saffir-Simpson class, <NA> where the wind is unknown."""
    return pd.Series(saffir_simpson(wind_m_s), wind_m_s.index, dtype="Int8").where(wind_m_s.notna())


def _finished(table: pd.DataFrame) -> pd.DataFrame:
    """Longitudes 0..360, so that no track jumps at the dateline, and the class that the wind gives."""
    table["lon"] = table["lon"] % 360
    table.insert(7, "saffir_simpson", hurricane_class(table["max_wind_m_s"]))
    return table.reset_index(drop=True)
