"""Storms as rows: connected events on the sphere, followed through time, measured and exported.

``find`` gives one row for each event and time; what follows takes and gives that table.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from climlab_dl.climate import sphere
from climlab_dl.climate.basins import basin
from climlab_dl.climate.climatology import density, occurrence, summary
from climlab_dl.climate.layout import Layout
from climlab_dl.climate.matching import match, scores
from climlab_dl.climate.outlines import FeatureCollection, feature, outlines
from climlab_dl.climate.scales import river_scale, saffir_simpson
from climlab_dl.climate.separation import Parts, Separation, divide
from climlab_dl.climate.snapshots import as_classes, class_names, read, series_of, times_of
from climlab_dl.climate.survey import Survey, label
from climlab_dl.climate.trackfiles import to_netcdf, to_teca, to_tempest
from climlab_dl.climate.trackreading import read_tracks
from climlab_dl.climate.tracks import Linking, Tracker, time_text
from climlab_dl.files import beside, write_text
from climlab_dl.words import counted

__all__ = [
    "Linking",
    "Separation",
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
    separation: Separation | None = Separation(),  # noqa: B008 (frozen)
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
    separation
        When a connected region of cyclones is several storms, which needs PSL: by default two centres of pressure more
        than 6 degrees apart, each with a closed contour of 200 Pa. None, or fields without PSL, leave every connected
        region one event.
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
        rating (0..5) that any place under the river has reached so far; ``max_precipitation_mm_h``. A river is taken
        to last from one snapshot to the next, and in its first for the step to the nearest one; where no other snapshot
        of the series is within the linking's ``max_gap_hours``, the duration is unknown and ``ar_scale`` is <NA>.

        ``merged_into``: track that took this one up after this row; ``split_from``: track that this one left;
        ``region``: number in `regions` of this time's mask; the storms of a region that was divided share it, and their
        pressure is that at their centre.

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
        parts = survey.separated(snapshot, regions, kinds, separation)
        regions, kinds = parts.regions, kinds[parts.origin]
        table = survey.table(snapshot, parts, kinds)
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
    fields: xr.Dataset | None = None,
    tolerance_deg: float = 0.0,
    connectivity: int = 8,
) -> FeatureCollection:
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
    fields
        As for `find`. With a table they are needed only where it lacks some storms of a region that was divided.
    tolerance_deg
        Leave out corners as long as the outline moves by no more than this many degrees. 0 keeps every cell's corner.
    connectivity
        As given to `find`.

    Returns
    -------
    dict
        The collection, in longitudes -180..180, in properties too. Missing values are null, times are ISO 8601. In a
        notebook it shows how many features it has.

    Raises
    ------
    ValueError
        Where the table has a time or region that the mask has not, or lacks some storms of a divided region.
    """
    table = find(mask, fields, connectivity=connectivity) if table is None else table
    complete = table if fields is None else find(mask, fields, connectivity=connectivity)
    series = series_of(mask)
    rows, whole = (_by_snapshot(some, list(series)) for some in (table, complete))
    there = list(zip((time_text(time) or "" for time in times_of(mask)), *series.values(), strict=True))
    if lost := rows.keys() - set(there):
        raise ValueError(f"the mask has no time {min(lost)[0]!r}; give the mask that the table was made from")
    if "time" in mask.dims:
        mask = mask.isel(time=[number for number, key in enumerate(there) if key in rows])
    survey = Survey(mask, None, connectivity, Linking().max_gap_hours)
    layout = survey.layout
    features: list[dict[str, Any]] = []
    for snapshot in read(mask, None, (), layout):
        key = (time_text(snapshot.time) or "", *snapshot.series.values())
        group, regions = rows[key], survey.regions(snapshot.mask)[0]
        if (largest := int(group["region"].to_numpy().max())) > regions.count:
            raise ValueError(
                f"at {snapshot.time} the mask has {counted(regions.count, 'region')} and the table names region "
                f"{largest}; give the mask, and the connectivity, that the table was made with"
            )
        parts = divide(regions, _centres(whole[key]))
        wanted = [_part(parts, row) for row in group.to_dict("records")]
        shapes = outlines(parts.regions.labels, layout.lat, layout.lon, wanted, tolerance_deg)
        features += [feature(shapes[i], row) for i, row in zip(wanted, group.to_dict("records"), strict=True)]
    collection = FeatureCollection(features)
    if path is not None:
        write_text(Path(path), json.dumps(collection, allow_nan=False))
    return collection


def _by_snapshot(table: pd.DataFrame, series: list[str]) -> dict[Any, pd.DataFrame]:
    times = [time_text(time) or "" for time in table["time"]]
    keys = pd.Series(list(zip(times, *(table[name] for name in series), strict=True)), index=table.index, dtype=object)
    return dict(iter(table.groupby(keys)))


def _centres(rows: pd.DataFrame) -> dict[int, NDArray[np.float64]]:
    """Centres of the regions that have several rows, as `Separation.centres` gives them."""
    several = rows.loc[rows["region"].duplicated(keep=False)]
    found: dict[int, NDArray[np.float64]] = {}
    for region, parts in several.groupby("region"):
        parts = parts.sort_values("min_psl_hPa", kind="stable")
        points = sphere.unit_vectors(parts["psl_lat"], parts["psl_lon"])
        found[int(str(region)) - 1] = np.column_stack([points, 100 * parts["min_psl_hPa"]])
    return found


def _part(parts: Parts, row: dict[str, Any]) -> int:
    """Find the number of the part that a row is about: of a divided region, the one around its centre."""
    numbers = np.flatnonzero(parts.origin == row["region"] - 1)
    if len(numbers) > 1:
        centre = sphere.unit_vectors(row["psl_lat"], row["psl_lon"])
        numbers = numbers[np.linalg.norm(parts.centres[numbers, :3] - centre, axis=1).argmin(keepdims=True)]
    area = float(parts.regions.area_km2[numbers[0]])
    if not np.isclose(area, row.get("area_km2", area), rtol=1e-3):
        raise ValueError(
            f"region {row['region']} at {row['time']} covers {area:,.0f} km2 and the table says "
            f"{row['area_km2']:,.0f}: another mask, or some storms of a divided region are not in the table. "
            "Give fields as well, the same as to find"
        )
    return int(numbers[0]) + 1


def to_csv(table: pd.DataFrame, path: str | Path) -> Path:
    """Write a table of events as CSV, times as ISO 8601 in the calendar that they have, numbers with nine digits.

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
        dated = table.assign(time=[time_text(time) for time in table["time"]])
        # Nine digits are what the single precision of the fields needs to come back as it was; -88.0 stays no integer.
        dated.to_csv(unfinished, index=False, float_format=lambda value: repr(float(f"{value:.9g}")))
    return path
