"""Outlines of events: polygons that run along cell edges, as GeoJSON wants them (RFC 7946)."""

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from climlab_dl.climate import sphere
from climlab_dl.climate.tracks import time_text
from climlab_dl.words import counted

if TYPE_CHECKING:
    from shapely import MultiPolygon, Polygon

_DIGITS = 6  # of a degree: a tenth of a metre


def outlines(
    labels: NDArray[np.integer],
    lat: NDArray[np.float64],
    lon: NDArray[np.float64],
    wanted: Collection[int],
    tolerance_deg: float = 0.0,
) -> dict[int, "Polygon | MultiPolygon"]:
    """Outline regions along the edges of their cells.

    Parameters
    ----------
    labels
        Numbers of the regions (lat, lon).
    lat, lon
        Degrees of rows and columns, both ascending, longitude without a jump.
    wanted
        Numbers of the regions to outline.
    tolerance_deg
        Leave out corners as long as the outline moves by no more than this; 0 leaves out none.

    Returns
    -------
    dict
        Geometry by number, in longitudes -180..180: cut at the dateline, with holes, shells counter-clockwise.
        Cells that share only a corner are separate polygons.
    """
    import shapely

    latitudes = np.round(sphere.latitude_edges(lat), _DIGITS)
    west, east, source = _columns_of_the_map(lon)
    numbers = np.where(np.isin(labels, list(wanted)), labels, 0)[:, source]
    rows, columns = np.nonzero(numbers)
    if not len(rows):
        return {}
    region = numbers[rows, columns]
    # Cells side by side become one box: far fewer shapes to unite.
    begins = (np.diff(rows, prepend=-1) != 0) | (np.diff(region, prepend=0) != 0)
    begins[1:] |= west[columns[1:]] != east[columns[:-1]]
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(rows)) - 1
    south, north = latitudes[rows[first]], latitudes[rows[first] + 1]
    boxes = shapely.box(west[columns[first]], south, east[columns[last]], north)

    order = np.argsort(region[first], kind="stable")
    found, start = np.unique(region[first][order], return_index=True)
    shapes = [shapely.union_all(group) for group in np.split(boxes[order], start[1:])]
    shapes = shapely.orient_polygons(shapely.simplify(shapes, tolerance_deg))
    return dict(zip(found.tolist(), shapes, strict=True))


def _columns_of_the_map(
    lon: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """West and east edge in -180..180, and number, of each column from west to east; one on the dateline is two."""
    edges = sphere.longitude_edges(lon)
    turns = 360 * np.floor((edges[:-1] + 180) / 360)
    west, east = np.round(edges[:-1] - turns, _DIGITS), np.round(edges[1:] - turns, _DIGITS)
    over = np.flatnonzero(east > 180)
    west = np.concatenate([west, np.full(len(over), -180.0)])
    east = np.concatenate([np.minimum(east, 180.0), east[over] - 360])
    source = np.concatenate([np.arange(len(lon)), over])
    order = np.argsort(west, kind="stable")
    return west[order], east[order], source[order]


class FeatureCollection(dict[str, Any]):
    """A GeoJSON FeatureCollection that shows itself in a line: all its corners would fill pages of a notebook."""

    def __init__(self, features: list[dict[str, Any]]):
        super().__init__(type="FeatureCollection", features=features)

    def __repr__(self) -> str:
        kinds = Counter(feature["properties"]["class"] for feature in self["features"])
        each = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
        return f"FeatureCollection of {counted(kinds.total(), 'feature')}" + (f" ({each})" if each else "")


def feature(geometry: "Polygon | MultiPolygon", row: dict[str, Any]) -> dict[str, Any]:
    """Make a GeoJSON feature of an outline and the row of the event, both in longitudes -180..180."""
    import shapely

    western = {name: (row[name] + 180) % 360 - 180 for name in ("lon", "psl_lon") if name in row}
    properties = {name: _plain(value) for name, value in (row | western).items() if name != "time"}
    return {
        "type": "Feature",
        "id": properties["event"],
        "properties": properties | {"time": time_text(row["time"])},
        "geometry": shapely.geometry.mapping(geometry),
    }


def _plain(value: Any) -> Any:
    """Give a value that JSON has: missing ones are null."""
    if pd.isna(value):
        return None
    return value.item() if isinstance(value, np.generic) else value
