"""Outlines of masks: the edges of the grid's own cells, not a curve through their centres."""

from dataclasses import dataclass

import numpy as np

from climlab_dl.climate.sphere import latitude_edges, longitude_edges
from climlab_dl.plot.canvas import Canvas


@dataclass(frozen=True, kw_only=True)
class Outline:
    """Line pieces in a projection's units, float32, with the class that each one bounds."""

    x0: np.ndarray
    y0: np.ndarray
    x1: np.ndarray
    y1: np.ndarray
    classes: np.ndarray

    def __len__(self) -> int:
        return len(self.x0)


def outline(mask: np.ndarray, lat: np.ndarray, lon: np.ndarray, canvas: Canvas) -> Outline:
    """Edges between cells of different class, projected.

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
    import cartopy.crs as ccrs

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

    crs = canvas.crs
    start = crs.transform_points(ccrs.PlateCarree(), lon0, lat0)[:, :2]
    end = crs.transform_points(ccrs.PlateCarree(), lon1, lat1)[:, :2]
    span = crs.x_limits[1] - crs.x_limits[0]
    seen = np.isfinite(start + end).all(axis=1) & (np.abs(end[:, 0] - start[:, 0]) < span / 4)
    if canvas.polar:
        seen &= np.maximum(np.hypot(*start.T), np.hypot(*end.T)) <= canvas.extent[1]
    x0, y0, x1, y1 = np.concatenate([start, end], axis=1)[seen].T.astype(np.float32)
    return Outline(x0=x0, y0=y0, x1=x1, y1=y1, classes=classes[seen])


def _bounded(here: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Class that an edge belongs to: the one that is not background, the lower where two classes meet."""
    return np.where((here > 0) & ((there == 0) | (here < there)), here, there)
