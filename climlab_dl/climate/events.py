"""Storms as rows: connected events on the sphere, followed through time, measured and exported.

``find`` gives one row for each event and time; what follows takes and gives that table.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike
from tqdm import tqdm

from climlab_dl.climate.basins import basin
from climlab_dl.climate.climatology import density, occurrence, summary
from climlab_dl.climate.layout import Layout
from climlab_dl.climate.matching import match, scores
from climlab_dl.climate.outlines import feature, outlines
from climlab_dl.climate.scales import river_scale, saffir_simpson
from climlab_dl.climate.snapshots import as_classes, class_names, read, series_of, times_of
from climlab_dl.climate.survey import Survey, label
from climlab_dl.climate.trackfiles import to_netcdf, to_teca, to_tempest
from climlab_dl.climate.trackreading import read_tracks
from climlab_dl.climate.tracks import Linking, Tracker, time_text
from climlab_dl.files import beside

__all__ = [
    "Linking",
    "basin",
    "density",
    "find",
    "match",
    "occurrence",
    "read_tracks",
    "regions",
    "river_scale",
    "saffir_simpson",
    "scores",
    "summary",
    "to_csv",
    "to_geojson",
    "to_netcdf",
    "to_teca",
    "to_tempest",
]


def regions(mask: xr.DataArray | ArrayLike, connectivity: int = 8) -> Any:
    """Label the connected regions of one mask, class by class.

    Parameters
    ----------
    mask
        One snapshot (lat, lon) of classes. With coordinates, only a grid around the Earth wraps; a bare array does.
    connectivity
        4 or 8 neighbours.

    Returns
    -------
    xarray.DataArray or numpy.ndarray
        As the mask, int32: 0 outside, else the number in the column ``region`` of `find`.
    """
    if not isinstance(mask, xr.DataArray):
        names = dict.fromkeys(np.unique(np.asarray(mask)).tolist(), "")
        return label(as_classes(np.asarray(mask), names), connectivity, wrap=True)[0]
    layout = Layout.of(mask)
    mask = mask.transpose("lat", "lon")
    classes = as_classes(layout.arrange(mask.values), class_names(mask))
    labels, _ = label(classes, connectivity, layout.wrap)
    return xr.DataArray(
        layout.restore(labels), mask.coords, mask.dims, name="region", attrs={"long_name": "number of the region"}
    )


def find(
    mask: xr.DataArray,
    fields: xr.Dataset | None = None,
    *,
    linking: Linking = Linking(),  # noqa: B008 (frozen)
    connectivity: int = 8,
    min_area_km2: float = 0.0,
) -> pd.DataFrame:
    """Find the events of a mask and follow them through time.

    Snapshots are loaded one at a time, so a lazy mask over a whole archive needs the memory of a few snapshots.

    Parameters
    ----------
    mask
        Classes (time, lat, lon) or (lat, lon); or probabilities with a further dimension ``class``, of which the
        largest counts. Rows and columns in any order; longitude wraps where the columns close the circle, latitude
        never does. NaN and -1 (unlabelled) are background. Coordinates ``run`` and ``labelling`` along time, as
        `climlab_dl.archive.open` gives them, tell series apart: they become columns, and no track goes from one
        series to another.
    fields
        Dataset on the same grid and times, in SI units, as `climlab_dl.archive.open` gives it. PSL, UBOT and VBOT,
        TMQ, IVT, PRECT are used where present.
    linking
        When events at different times are one storm.
    connectivity
        8: cells that share a corner are connected; 4: only those that share an edge.
    min_area_km2
        Smaller events are left out, in km2.

    Returns
    -------
    pandas.DataFrame
        One row for each event and time, in order of time, class and place; units are in the names.

        ``event``, ``class``, ``track`` (from 1), ``time``; ``lat``, ``lon`` of the spherical centroid in degrees, in
        the mask's longitude convention; ``area_km2``, ``length_km`` along the axis, ``width_km`` = area / length;
        ``land_share`` of the area, ``touches_land``, ``touches_edge`` of a regional grid.

        With the fields: ``min_psl_hPa``, the lowest pressure in the event or a cell next to it, at ``psl_lat``,
        ``psl_lon``; ``max_wind_m_s`` at the lowest level and its ``saffir_simpson`` class for cyclones (-1
        depression, 0 storm, 1..5); ``max_tmq_kg_m2``; ``max_ivt_kg_m_s`` and, for rivers, ``ar_scale``, the highest
        rating (0..5) that any place under the river has reached so far; ``max_precipitation_mm_h``.

        ``merged_into``: track that took this one up after this row; ``split_from``: track that this one left;
        ``region``: number in `regions` of this time's mask.

    Raises
    ------
    ValueError
        Where mask values are no class, times repeat, the fields lack times or are on another grid, or have values in
        an event that are physically impossible.
    """
    survey = Survey(mask, fields, connectivity, linking.max_gap_hours)
    snapshots = read(mask, fields, survey.fields, survey.layout)
    tracker = Tracker(linking=linking)
    tables: list[pd.DataFrame] = []
    events, series = 0, None
    for snapshot in tqdm(snapshots, "events", mask.sizes.get("time", 1), leave=False, delay=2, disable=None):
        if snapshot.series != series:
            series = snapshot.series
            tracker.restart()
            survey.restart()
        regions, kinds = survey.regions(snapshot.mask)
        table = survey.table(snapshot, regions, kinds)
        kept = (table["area_km2"] >= min_area_km2).to_numpy()
        numbers = np.where(kept, events + np.cumsum(kept), 0)
        events += int(kept.sum())
        table.insert(0, "event", numbers)
        table.insert(2, "track", tracker.follow(snapshot.hours, regions, kinds, numbers))
        tables.append(table.loc[kept])
    if not tables:
        raise ValueError("the mask has no snapshots: its dimension 'time' is empty")
    table = pd.concat(tables, ignore_index=True)
    for column, tracks in {"merged_into": tracker.merged_into, "split_from": tracker.split_from}.items():
        table.insert(
            table.shape[1] - 1, column, pd.array([tracks.get(event) for event in table["event"]], dtype="Int64")
        )
    return table


def to_geojson(
    mask: xr.DataArray,
    path: str | Path | None = None,
    *,
    table: pd.DataFrame | None = None,
    tolerance_deg: float = 0.0,
    connectivity: int = 8,
) -> dict[str, Any]:
    """Outline the events of a mask as a GeoJSON FeatureCollection (RFC 7946).

    Polygons run along cell edges, so that their area is that of the cells. They keep holes, are cut at the dateline,
    end at the poles, and follow the right-hand rule.

    Parameters
    ----------
    mask
        As for `find`.
    path
        Also write the collection to this file.
    table
        The rows of `find` for this mask that become features, with the columns as properties; by default all.
    tolerance_deg
        Leave out corners as long as the outline moves by no more than this many degrees. 0 keeps every cell's corner.
    connectivity
        As given to `find`.

    Returns
    -------
    dict
        The collection, in longitudes -180..180. Missing values are null, times are ISO 8601.

    Raises
    ------
    ValueError
        Where the table has a time or region that the mask has not.
    """
    table = find(mask, connectivity=connectivity) if table is None else table
    series = series_of(mask)
    times = [time_text(time) or "" for time in table["time"]]
    keys = pd.Series(list(zip(times, *(table[name] for name in series), strict=True)), index=table.index, dtype=object)
    rows: dict[Any, pd.DataFrame] = dict(iter(table.groupby(keys)))
    there = list(zip((time_text(time) or "" for time in times_of(mask)), *series.values(), strict=True))
    if lost := rows.keys() - set(there):
        raise ValueError(f"the mask has no time {min(lost)[0]!r}; give the mask that the table was made from")
    if "time" in mask.dims:
        mask = mask.isel(time=[number for number, key in enumerate(there) if key in rows])
    layout = Layout.of(mask)
    features: list[dict[str, Any]] = []
    for snapshot in read(mask, None, (), layout):
        group = rows[time_text(snapshot.time) or "", *snapshot.series.values()]
        labels, kinds = label(snapshot.mask, connectivity, layout.wrap)
        wanted = group["region"].tolist()
        if max(wanted) > len(kinds):
            raise ValueError(
                f"at {snapshot.time} the mask has {len(kinds)} regions and the table names region {max(wanted)}; "
                "give the mask, and the connectivity, that the table was made with"
            )
        shapes = outlines(labels, layout.lat, layout.lon, wanted, tolerance_deg)
        features += [feature(shapes[row["region"]], row) for row in group.to_dict("records")]
    collection = {"type": "FeatureCollection", "features": features}
    if path is not None:
        with beside(Path(path)) as unfinished:
            unfinished.write_text(json.dumps(collection, allow_nan=False), encoding="utf-8")
    return collection


def to_csv(table: pd.DataFrame, path: str | Path) -> Path:
    """Write a table of events as CSV, times as ISO 8601 in the calendar that they have.

    Parameters
    ----------
    table
        From `find`, all rows or some.
    path
        The file; its folder is made where there is none.

    Returns
    -------
    pathlib.Path
        The file.
    """
    path = Path(path)
    with beside(path) as unfinished:
        table.assign(time=[time_text(time) for time in table["time"]]).to_csv(unfinished, index=False)
    return path
