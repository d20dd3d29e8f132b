"""Many storms at once: one row a track, and maps of how often storms occur, begin, pass and end, month by month."""

# pandas' annotations do not tell a column from a table.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAssignmentType=false, reportGeneralTypeIssues=false, reportOptionalMemberAccess=false
# pyright: reportOperatorIssue=false, reportReturnType=false

from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from tqdm import tqdm

from climlab_dl.climate import sphere
from climlab_dl.climate.basins import basin
from climlab_dl.climate.layout import Layout
from climlab_dl.climate.matching import centres
from climlab_dl.climate.scales import KNOT_M_S, SAFFIR_SIMPSON_KNOTS
from climlab_dl.climate.snapshots import class_names, read
from climlab_dl.climate.tracks import hours_since_first

_BAR: dict[str, Any] = {"leave": False, "delay": 2, "disable": None}


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Describe each track by one row.

    Parameters
    ----------
    table
        From `climlab_dl.events.find`, or tracks with dates from `climlab_dl.events.read_tracks`.

    Returns
    -------
    pandas.DataFrame
        Indexed by track: ``class`` and ``name`` where known; ``steps``, ``start``, ``end``, ``hours``; ``start_lat``,
        ``start_lon``, ``end_lat``, ``end_lon``; the ``basin`` where a cyclone begins; ``distance_km`` along the track
        and mean ``speed_km_h``; the largest and smallest values of the other columns under their names; for tracks
        with winds ``ace_1e4_kt2``, the accumulated cyclone energy: squares of winds of 34 knots and more at 0, 6, 12
        and 18 UTC, summed.

        Distances are great circles, so that a jump of the longitude's sign at the dateline is none.

    Raises
    ------
    ValueError
        Where the table has no times.

    Notes
    -----
    In CSV pandas takes "NA", the North Atlantic, for a missing value unless told otherwise::

        events.summary(table).to_csv("tracks.csv")
        pd.read_csv("tracks.csv", index_col="track", keep_default_na=False, na_values=[""])
    """
    hours = hours_since_first(table["time"].to_numpy())
    if hours is None:
        raise ValueError("a summary of tracks needs times; give the mask a coordinate 'time' of dates")
    lat, lon = centres(table)
    points = table.assign(lat=lat, lon=lon, hours_=hours).sort_values(["track", "hours_"])
    tracks = points.groupby("track")
    before = tracks[["lat", "lon", "hours_"]].shift()
    points["step_km"] = sphere.great_circle_km(before["lat"], before["lon"], points["lat"], points["lon"])
    first, last = tracks.nth(0).set_index("track"), tracks.nth(-1).set_index("track")
    rows = pd.DataFrame(
        {
            "steps": tracks.size(),
            "start": first["time"],
            "end": last["time"],
            "hours": last["hours_"] - first["hours_"],
            "start_lat": first["lat"],
            "start_lon": first["lon"],
            "end_lat": last["lat"],
            "end_lon": last["lon"],
            "distance_km": points.groupby("track")["step_km"].sum(),
        }
    )
    rows["speed_km_h"] = rows["distance_km"] / rows["hours"].where(rows["hours"] > 0)
    rows["basin"] = basin(rows["start_lat"], rows["start_lon"])
    if "class" in points:
        rows["basin"] = rows["basin"].where(first["class"] == "cyclone")
    for name in ("name", "class"):
        if name in points:
            rows.insert(0, name, first[name])
    for name in points.columns:
        if name.startswith(("max_", "saffir", "ar_scale", "touches")) or name in ("area_km2", "length_km"):
            rows[name] = tracks[name].max()
        elif name.startswith("min_"):
            rows[name] = tracks[name].min()
    if "max_wind_m_s" in points:
        knots = (points["max_wind_m_s"] / KNOT_M_S).round(6)
        synoptic = np.array([time.hour % 6 == 0 and time.minute == 0 for time in points["time"]])
        counts = (knots >= SAFFIR_SIMPSON_KNOTS[0]) & synoptic
        rows["ace_1e4_kt2"] = (1e-4 * knots**2).where(counts, 0.0).groupby(points["track"]).sum()
        if "class" in points:
            rows["ace_1e4_kt2"] = rows["ace_1e4_kt2"].where(first["class"] == "cyclone")
    return rows


def occurrence(mask: xr.DataArray) -> xr.DataArray:
    """Map how often each class covers each cell, month by month.

    Parameters
    ----------
    mask
        Classes (time, lat, lon), or probabilities; read one snapshot at a time.

    Returns
    -------
    xarray.DataArray
        Share of the snapshots of each month, float32 (class, month, lat, lon), with the mask's rows and columns. The
        months are those that the mask has, all years together; ``snapshots`` counts them.

    Raises
    ------
    ValueError
        Where the mask's times are no dates.
    """
    layout, names = Layout.of(mask), class_names(mask)
    if "time" not in mask.coords or hours_since_first(np.atleast_1d(mask["time"].values)) is None:
        raise ValueError("a climatology needs dates; give the mask a coordinate 'time' of datetime64 or cftime")
    covered: dict[int, NDArray[np.int32]] = {}
    snapshots: dict[int, int] = {}
    for snapshot in tqdm(read(mask, None, (), layout), "occurrence", mask.sizes.get("time", 1), **_BAR):
        month = _month(snapshot.time)
        there = np.stack([snapshot.mask == value for value in names])
        covered[month] = covered.get(month, 0) + there.astype(np.int32)
        snapshots[month] = snapshots.get(month, 0) + 1
    months = sorted(covered)
    shares = [[layout.restore(of_class) / snapshots[month] for of_class in covered[month]] for month in months]
    return xr.DataArray(
        np.stack(shares, axis=1).astype(np.float32),
        {
            "class": list(names.values()),
            "month": months,
            "lat": mask["lat"],
            "lon": mask["lon"],
            "snapshots": ("month", [snapshots[month] for month in months]),
        },
        ("class", "month", "lat", "lon"),
        name="occurrence",
        attrs={"long_name": "share of the snapshots", "units": "1"},
    )


def density(
    table: pd.DataFrame, of: Literal["tracks", "genesis", "termination"] = "tracks", *, cell_deg: float = 5.0
) -> xr.DataArray:
    """Map how many tracks pass, begin or end in each cell, month by month.

    Parameters
    ----------
    table
        From `climlab_dl.events.find`, with dates; or from `climlab_dl.events.read_tracks`.
    of
        ``tracks``: each track counts once in each cell and month in which it was seen. ``genesis``: where tracks
        begin, but for those that were there at the table's first time or split from another. ``termination``: where
        they end, but for those still there at the last time or merged into another.
    cell_deg
        Size of the cells in degrees; 180 has to be a multiple.

    Returns
    -------
    xarray.DataArray
        Counts, int32 (class, month, lat, lon), months 1 to 12 over all years, longitudes 0..360.

    Raises
    ------
    ValueError
        Where the size does not divide 180, ``of`` is none of the three, or the table has no dates.
    """
    if not (cell_deg > 0 and np.isclose(180 / cell_deg, round(180 / cell_deg))):
        raise ValueError(f"cell_deg must divide 180; got {cell_deg}. 2, 2.5, 5 and 10 do")
    hours = hours_since_first(table["time"].to_numpy())
    if hours is None:
        raise ValueError("a climatology needs dates; give the mask a coordinate 'time' of datetime64 or cftime")
    rows, columns = round(180 / cell_deg), round(360 / cell_deg)
    lat, lon = centres(table)
    kinds = table["class"] if "class" in table else pd.Series("cyclone", table.index)
    points = pd.DataFrame(
        {
            "class": kinds,
            "month": [_month(time) for time in table["time"]],
            # Rounded, so that a centroid on an edge falls to one side of it whatever its last digit.
            "row": np.clip(np.floor((lat + 90).round(6) / cell_deg), 0, rows - 1).astype(int),
            "column": (np.floor((lon % 360).round(6) / cell_deg) % columns).astype(int),
            "track": table["track"],
            "hours": hours,
            "split_from": table.get("split_from"),
            "merged_into": table.get("merged_into"),
        }
    ).sort_values("hours")
    if of == "tracks":
        points = points.drop_duplicates(["class", "month", "row", "column", "track"])
    elif of == "genesis":
        points = points.drop_duplicates("track", keep="first")
        points = points[(points["hours"] > hours.min()) & points["split_from"].isna()]
    elif of == "termination":
        points = points.drop_duplicates("track", keep="last")
        points = points[(points["hours"] < hours.max()) & points["merged_into"].isna()]
    else:
        raise ValueError(f"of must be 'tracks', 'genesis' or 'termination'; got {of!r}")
    classes = sorted(kinds.unique())
    counts = np.zeros((len(classes), 12, rows, columns), np.int32)
    number = points["class"].map({name: i for i, name in enumerate(classes)})
    np.add.at(counts, (number, points["month"] - 1, points["row"], points["column"]), 1)
    return xr.DataArray(
        counts,
        {
            "class": classes,
            "month": np.arange(1, 13),
            "lat": -90 + cell_deg * (np.arange(rows) + 0.5),
            "lon": cell_deg * (np.arange(columns) + 0.5),
        },
        ("class", "month", "lat", "lon"),
        name=of,
        attrs={"long_name": f"number of tracks ({of})", "units": "1"},
    )


def _month(time: Any) -> int:
    """Month of a datetime64, Timestamp or cftime date."""
    return pd.Timestamp(time).month if isinstance(time, np.datetime64) else time.month
