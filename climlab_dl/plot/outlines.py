"""Lines over a map, as pieces in its projection: outlines of masks, contours of probabilities, winds, tracks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from climlab_dl.climate.fields import CLASSES
from climlab_dl.climate.sphere import lat_lon, latitude_edges, longitude_edges, unit_vectors
from climlab_dl.plot.canvas import Canvas

SIDES = ("x0", "y0", "x1", "y1")
LEVELS = (0.05, 0.5, 0.95)
# Length of an arrow, in spacings between arrows, at this speed in m/s.
FULL_SPEED = 25.0
# Arrows across a map.
ACROSS = 48
# Pieces between two places of a track, so that it bends as great circles do and ends close to the map's cut.
BENDS = 12
# Radius of the dot where a storm is seen for the first time, as a share of the map's width, and its corners.
DOT = 1 / 500
CORNERS = 12


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Straight pieces in a projection's units, float32, with the class that each one belongs to (0: none)."""

    x0: np.ndarray
    y0: np.ndarray
    x1: np.ndarray
    y1: np.ndarray
    classes: np.ndarray

    def __len__(self) -> int:
        return len(self.x0)


def outline(mask: np.ndarray, lat: np.ndarray, lon: np.ndarray, canvas: Canvas) -> Pieces:
    """Edges between cells of different class: the cells' own edges, not a curve through their centres.

    Parameters
    ----------
    mask
        Classes, (lat, lon); cells outside 1..127 count as background.
    lat, lon
        Ascending cell centres in degrees, longitude within 0..360. A global grid is closed across its seam; rows are
        not joined over the poles.
    canvas
        The map. Pieces that its cut would stretch across it, and those off it, are left out.
    """
    mask = np.where((mask > 0) & (mask < 128), mask, 0).astype(np.uint8)
    south_north, west_east = latitude_edges(lat), longitude_edges(lon)
    # What lies beyond the grid: the other side of the seam, nothing around a region, no line along a pole.
    whole = west_east[-1] - west_east[0] > 359.0
    around = np.pad(mask, [(0, 0), (1, 1)], mode="wrap" if whole else "constant")
    above = np.pad(mask, [(1, 1), (0, 0)])
    if south_north[0] == -90:
        above[0] = mask[0]
    if south_north[-1] == 90:
        above[-1] = mask[-1]

    west, east = around[:, :-1], around[:, 1:]
    # The last edge of a closed circle is the first.
    i, j = np.nonzero(west[:, : len(lon)] != east[:, : len(lon)] if whole else west != east)
    south, north = above[:-1], above[1:]
    k, m = np.nonzero(south != north)
    lon0, lon1 = np.concatenate([west_east[j], west_east[m]]), np.concatenate([west_east[j], west_east[m + 1]])
    lat0, lat1 = np.concatenate([south_north[i], south_north[k]]), np.concatenate([south_north[i + 1], south_north[k]])
    classes = np.concatenate([_bounded(west[i, j], east[i, j]), _bounded(south[k, m], north[k, m])])
    return _projected(lon0, lat0, lon1, lat1, classes, canvas)


def contours(probabilities: np.ndarray, lat: np.ndarray, lon: np.ndarray, canvas: Canvas) -> Pieces:
    """Lines of equal probability, at `LEVELS`, of every class but the first.

    Parameters
    ----------
    probabilities
        (class, lat, lon) from 0 to 1; NaN where unknown.
    lat, lon, canvas
        As for `outline`.
    """
    from contourpy import contour_generator

    edges = longitude_edges(lon)
    x = np.append(lon, lon[0] + 360.0) if edges[-1] - edges[0] > 359.0 else lon
    starts, ends, classes = [np.zeros((0, 2))], [np.zeros((0, 2))], [np.zeros(0, np.uint8)]
    for kind, values in enumerate(probabilities[1:], start=1):
        z = np.concatenate([values, values[:, :1]], axis=1) if len(x) > len(lon) else values
        lines = contour_generator(x, lat, np.ma.masked_invalid(z))
        for line in (line for level in LEVELS for line in lines.lines(level)):
            points = np.asarray(line)
            starts.append(points[:-1])
            ends.append(points[1:])
            classes.append(np.full(len(points) - 1, kind, np.uint8))
    start, end = np.concatenate(starts), np.concatenate(ends)
    return _projected(start[:, 0], start[:, 1], end[:, 0], end[:, 1], np.concatenate(classes), canvas)


def arrows(
    u: np.ndarray, v: np.ndarray, lat: np.ndarray, lon: np.ndarray, canvas: Canvas, spacing: float | None = None
) -> Pieces:
    """Draw arrows along a wind, thinned, as three pieces each.

    Parameters
    ----------
    u, v
        Eastward and northward wind in m/s, (lat, lon); NaN where unknown.
    lat, lon, canvas
        As for `outline`.
    spacing
        Degrees between arrows at the equator; by default 48 across the map. Fewer are drawn along the shorter
        parallels, none next to the poles.
    """
    if spacing is None:
        spacing = (canvas.extent[1] - canvas.extent[0] if canvas.flat else 360.0) / ACROSS
    rows = np.unique([np.abs(lat - at).argmin() for at in np.arange(-75, 76, spacing) if lat[0] <= at <= lat[-1]])
    each = [_thinned(row, lat, lon, spacing) for row in rows]
    if not each:
        each = [(np.zeros(0, int), np.zeros(0, int))]
    i, j = np.concatenate([row for row, _ in each]), np.concatenate([column for _, column in each])
    east, north = u[i, j] / FULL_SPEED * spacing, v[i, j] / FULL_SPEED * spacing
    narrow = np.cos(np.radians(lat[i]))
    tail, head = (lon[j], lat[i]), (lon[j] + east / narrow, lat[i] + north)
    pieces = [(*tail, *head)]
    for side in (-1, 1):
        # A barb points back, a sixth of a turn off the shaft, a third as long.
        angle = side * np.pi / 6
        back_east = -(east * np.cos(angle) - north * np.sin(angle)) / 3
        back_north = -(east * np.sin(angle) + north * np.cos(angle)) / 3
        pieces.append((*head, head[0] + back_east / narrow, head[1] + back_north))
    lon0, lat0, lon1, lat1 = np.concatenate(pieces, axis=1) if len(i) else np.zeros((4, 0))
    return _projected(lon0, lat0, lon1, lat1, np.zeros(len(lon0), np.uint8), canvas)


def _thinned(row: int, lat: np.ndarray, lon: np.ndarray, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    step = max(1, round(spacing / np.cos(np.radians(lat[row])) / abs(lon[1] - lon[0])))
    columns = np.arange(0, len(lon), step)
    return np.full(len(columns), row), columns


def tracks(storms: pd.DataFrame, time: Any, canvas: Canvas) -> Pieces:
    """Draw the way that each storm of a time has come until then, along great circles; a dot where it is seen first.

    Parameters
    ----------
    storms
        Table from `events.find`.
    time
        One of its times.
    canvas
        As for `outline`.
    """
    alive = storms.loc[storms["time"] == time, "track"]
    past = storms.loc[storms["track"].isin(alive) & (storms["time"] <= time)].sort_values(by=["track", "time"])
    number = past["track"].to_numpy()
    on = np.flatnonzero(number[1:] == number[:-1])
    places = unit_vectors(past["lat"].to_numpy(), past["lon"].to_numpy())
    share = np.linspace(0, 1, BENDS + 1)[:, None, None]
    lat, lon = lat_lon((1 - share) * places[on] + share * places[on + 1])
    kinds = np.array([CLASSES.index(name) if name in CLASSES else 0 for name in past["class"]], np.uint8)
    ends = (lon[:-1].ravel(), lat[:-1].ravel(), lon[1:].ravel(), lat[1:].ravel())
    ways = _projected(*ends, np.tile(kinds[on], BENDS), canvas)
    alone = ~past["track"].duplicated(keep=False).to_numpy()
    dots = _dots(past["lat"].to_numpy()[alone], past["lon"].to_numpy()[alone], kinds[alone], canvas)
    return Pieces(**{name: np.concatenate([getattr(ways, name), getattr(dots, name)]) for name in (*SIDES, "classes")})


def _dots(lat: np.ndarray, lon: np.ndarray, classes: np.ndarray, canvas: Canvas) -> Pieces:
    """Draw small circles around places, as round on every map, that lines as thick as tracks fill."""
    at = _projected(lon, lat, lon, lat, classes, canvas)
    angle = np.linspace(0, 2 * np.pi, CORNERS + 1)[:, None]
    radius = DOT * (canvas.extent[1] - canvas.extent[0])
    x = (at.x0 + radius * np.cos(angle)).astype(np.float32)
    y = (at.y0 + radius * np.sin(angle)).astype(np.float32)
    sides = {"x0": x[:-1].ravel(), "y0": y[:-1].ravel(), "x1": x[1:].ravel(), "y1": y[1:].ravel()}
    return Pieces(**sides, classes=np.tile(at.classes, CORNERS))


def _bounded(here: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Class that an edge belongs to: the one that is not background, the lower where two classes meet."""
    return np.where((here > 0) & ((there == 0) | (here < there)), here, there)


def _projected(
    lon0: np.ndarray, lat0: np.ndarray, lon1: np.ndarray, lat1: np.ndarray, classes: np.ndarray, canvas: Canvas
) -> Pieces:
    import cartopy.crs as ccrs

    degrees = ccrs.PlateCarree()
    start = canvas.crs.transform_points(degrees, np.asarray(lon0, float), np.asarray(lat0, float))[:, :2]
    end = canvas.crs.transform_points(degrees, np.asarray(lon1, float), np.asarray(lat1, float))[:, :2]
    span = canvas.crs.x_limits[1] - canvas.crs.x_limits[0]
    seen = np.isfinite(start + end).all(axis=1) & (np.abs(end[:, 0] - start[:, 0]) < span / 4)
    if canvas.polar:
        seen &= np.maximum(np.hypot(*start.T), np.hypot(*end.T)) <= canvas.extent[1]
    x0, y0, x1, y1 = np.concatenate([start, end], axis=1)[seen].T.astype(np.float32)
    return Pieces(x0=x0, y0=y0, x1=x1, y1=y1, classes=classes[seen])
