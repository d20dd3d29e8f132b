"""Tables of tracks for other programs: CF trajectories, TempestExtremes and TECA."""

# pandas' annotations do not tell a column from a table.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAssignmentType=false, reportGeneralTypeIssues=false, reportOptionalMemberAccess=false
# pyright: reportOperatorIssue=false, reportReturnType=false

from pathlib import Path
from typing import Any

import cftime
import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from climlab_dl import netcdf
from climlab_dl.climate import sphere
from climlab_dl.climate.layout import Layout
from climlab_dl.climate.matching import centres
from climlab_dl.climate.scales import KNOT_M_S, SAFFIR_SIMPSON_KNOTS
from climlab_dl.climate.tracks import hours_since_first, time_text
from climlab_dl.files import beside, write_text

# The end of a column's name tells its unit; the longest match counts.
_UNITS = {
    "_km2": "km2",
    "_km": "km",
    "_hPa": "hPa",
    "_m_s": "m s-1",
    "_kg_m2": "kg m-2",
    "_kg_m_s": "kg m-1 s-1",
    "_mm_h": "mm h-1",
    "lat": "degrees_north",
    "lon": "degrees_east",
}
_STANDARD_NAMES = {"time": "time", "lat": "latitude", "lon": "longitude"}


def to_netcdf(table: pd.DataFrame, path: str | Path) -> Path:
    """Write tracks as CF trajectories: a contiguous ragged array (CF-1.11, section H.4.3).

    Parameters
    ----------
    table
        From `climlab_dl.events.find`, all rows or some.
    path
        The NetCDF file. The calendar, the units, missing values and columns of text, such as a basin, are kept;
        `climlab_dl.events.read_tracks` reads it.

    Raises
    ------
    ValueError
        Where the table has no times.
    """
    path = Path(path)
    _dated(table, "CF trajectories")
    table = table.sort_values(["track", "event"])
    tracks, first, lengths = np.unique(table["track"], return_index=True, return_counts=True)
    classes = sorted(table["class"].unique())
    file = xr.Dataset(
        {
            "track": ("trajectory", tracks, {"cf_role": "trajectory_id", "long_name": "number of the track"}),
            "rowSize": ("trajectory", lengths, {"sample_dimension": "obs", "long_name": "number of points"}),
            "class": (
                "trajectory",
                np.array([classes.index(name) for name in table["class"].iloc[first]], np.int8),
                {
                    "long_name": "class of the event",
                    "flag_values": np.arange(len(classes), dtype=np.int8),
                    "flag_meanings": " ".join(classes),
                },
            ),
        },
        attrs={"Conventions": "CF-1.11", "featureType": "trajectory", "title": "tracks of weather events"},
    )
    for name in table.columns.drop(["track", "class"]):
        file[name] = _variable(name, table[name])
    with beside(path) as unfinished:
        netcdf.write(file.set_coords(["time", "lat", "lon"]), unfinished)
    return path


def _variable(name: str, column: pd.Series) -> xr.Variable:
    """Give a column as a variable along ``obs``, with its unit.

    Missing integers are the lowest one, missing text is empty.
    """
    attrs: dict[str, Any] = {"long_name": name.replace("_", " ")}
    if name in _STANDARD_NAMES:
        attrs["standard_name"] = _STANDARD_NAMES[name]
    if name == "time":
        return xr.Variable("obs", column.to_numpy(), attrs)
    if pd.api.types.infer_dtype(column, skipna=True) in ("string", "categorical", "empty"):
        text = column.astype(object).where(column.notna(), "")
        return xr.Variable("obs", text.to_numpy(str), attrs)
    endings = [ending for ending in _UNITS if name.endswith(ending)]
    attrs["units"] = _UNITS[max(endings, key=len)] if endings else "1"
    if column.dtype == bool:
        flags = {"flag_values": np.array([0, 1], np.int8), "flag_meanings": "no yes"}
        return xr.Variable("obs", column.to_numpy(np.int8), attrs | flags)
    if isinstance(column.dtype, pd.api.extensions.ExtensionDtype):
        kind = np.dtype(str(column.dtype).lower())
        missing = np.iinfo(kind).min
        return xr.Variable("obs", column.to_numpy(kind, na_value=missing), attrs, {"_FillValue": missing})
    return xr.Variable("obs", column.to_numpy(), attrs)


def to_tempest(table: pd.DataFrame, path: str | Path, grid: xr.Dataset | xr.DataArray) -> Path:
    """Write tracks in the text format of TempestExtremes' ``StitchNodes``.

    A line ``start``, number of points and first date for each track; then for each point i, j, longitude and
    latitude (degrees), lowest sea-level pressure (Pa), largest wind (m/s), year, month, day and hour.

    Parameters
    ----------
    table
        From `climlab_dl.events.find` with fields PSL, UBOT and VBOT. A point is a cyclone's lowest pressure, a river's
        centroid.
    path
        The text file.
    grid
        The mask or the fields, whose columns and rows i and j count from 0.

    Raises
    ------
    ValueError
        Where the table has no times, pressures or winds.
    """
    path = Path(path)
    _dated(table, "TempestExtremes' tracks")
    if absent := [name for name in ("min_psl_hPa", "max_wind_m_s") if name not in table]:
        raise ValueError(f"the table has no {absent}; give events.find the fields PSL, UBOT and VBOT")
    lat, lon = centres(table)
    layout = Layout.of(grid)
    j = layout.rows[np.abs(lat.to_numpy()[:, None] - layout.lat).argmin(axis=1)]
    i = layout.columns[np.abs((lon.to_numpy()[:, None] - layout.lon + 180) % 360 - 180).argmin(axis=1)]
    points = table.assign(lat=lat, lon=lon % 360, i=i, j=j).sort_values(["track", "event"])
    lines = []
    for _, track in points.groupby("track"):
        lines.append(f"start\t{len(track)}\t{_date(track['time'].iloc[0])}")
        for p in track.itertuples():
            values = f"{p.lon:.6f}\t{p.lat:.6f}\t{100 * p.min_psl_hPa:.6e}\t{p.max_wind_m_s:.6e}"
            lines.append(f"\t{p.i}\t{p.j}\t{values}\t{_date(p.time)}")
    write_text(path, "\n".join(lines) + "\n")
    return path


def _date(time: Any) -> str:
    return f"{time.year}\t{time.month}\t{time.day}\t{time.hour}"


# Name and type code (core/teca_variant_array_impl.h: 3 int, 7 long, 12 double) of each column of teca_tc_trajectory.
_TECA = {
    "track_id": 3,
    "storm_id": 3,
    "step": 7,
    "time": 12,
    "lon": 12,
    "lat": 12,
    "duration": 12,
    "wind_duration": 12,
    "surface_wind": 12,
    "850mb_vorticity": 12,
    "sea_level_pressure": 12,
    "have_core_temp": 3,
    "have_thickness": 3,
    "core_temp": 12,
    "thickness": 12,
    "storm_speed": 12,
}


def to_teca(table: pd.DataFrame, path: str | Path) -> Path:
    """Write cyclone tracks as the CSV table of TECA's ``teca_tc_trajectory``.

    Time and durations are in days, wind in m/s, pressure in Pa, storm speed in km per day, positions are the lowest
    pressure. The wind duration counts the time with a tropical storm's wind (34 knots). What a mask does not tell is
    NaN: vorticity, core temperature, thickness; their flags are 0.

    Parameters
    ----------
    table
        From `climlab_dl.events.find`; other classes than cyclones are left out.
    path
        The CSV file.

    Raises
    ------
    ValueError
        Where the table has no times.
    """
    path = Path(path)
    table = table[table["class"] == "cyclone"].sort_values(["track", "event"])
    hours = _dated(table, "TECA's tracks")
    first = table["time"].iloc[0] if len(table) else pd.Timestamp(1970, 1, 1)
    epoch = f"{first.year:04d}-{first.month:02d}-{first.day:02d} 00:00:00"
    days = pd.Series(hours / 24 + (first.hour + first.minute / 60 + first.second / 3600) / 24, table.index)
    lat, lon = centres(table)
    track = table["track"]
    since = days.groupby(track).diff()
    wind = table.get("max_wind_m_s", pd.Series(np.nan, table.index))
    windy = since.where(wind.groupby(track).shift() >= SAFFIR_SIMPSON_KNOTS[0] * KNOT_M_S, 0.0)
    moved = sphere.great_circle_km(lat.groupby(track).shift(), lon.groupby(track).shift(), lat, lon)
    columns = {
        "track_id": track,
        "storm_id": table["event"],
        "step": days.rank(method="dense").astype(int) - 1,
        "time": days,
        "lon": lon % 360,
        "lat": lat,
        "duration": days.groupby(track).transform("max") - days.groupby(track).transform("min"),
        "wind_duration": windy.groupby(track).transform("sum"),
        "surface_wind": wind,
        "850mb_vorticity": np.nan,
        "sea_level_pressure": 100 * table.get("min_psl_hPa", pd.Series(np.nan, table.index)),
        "have_core_temp": 0,
        "have_thickness": 0,
        "core_temp": np.nan,
        "thickness": np.nan,
        "storm_speed": (moved / since).fillna(0.0),
    }
    written = pd.DataFrame(columns).sort_values(["track_id", "step"])
    calendar = first.calendar if isinstance(first, cftime.datetime) else "standard"
    header = ", ".join(f'"{name}({code})"' for name, code in _TECA.items())
    with beside(path) as unfinished, unfinished.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f'# teca_table v1 \n# climlab-dl\n# calendar = "{calendar}"\n# time_units = "days since {epoch}"\n')
        file.write(header + "\n")
        for row in written.itertuples(index=False):
            file.write(", ".join("nan" if value != value else repr(value) for value in map(_python, row)) + "\n")
    return path


def _python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _dated(table: pd.DataFrame, what: str) -> NDArray[np.float64]:
    """Hours since the first row's time of each row; an error where the times are no dates."""
    hours = hours_since_first(table["time"].to_numpy())
    if hours is None:
        raise ValueError(
            f"{what} need times; the table's first is {time_text(table['time'].iloc[0])!r}. Give the mask a "
            "coordinate 'time' of dates before events.find"
        )
    return hours
