"""Extremes of a field on the sphere: the nearest, how far they stand out, and closed contours around them."""

import numpy as np

from climlab_dl.climate import sphere
from climlab_dl.climate.mesh import Mesh, Patch

Cells = tuple[np.ndarray, np.ndarray]  # rows and columns, as np.nonzero gives them


def at_least(radius: float, mesh: Mesh) -> float:
    """Widen a radius in degrees to 1.5 steps of the mesh, so that it holds a cell's neighbours."""
    return max(radius, 1.5 * mesh.step)


def extreme_near(field: np.ndarray, mesh: Mesh, cells: Cells, radius: float) -> Cells:
    """Find the largest value within ``radius`` degrees of each cell, the nearest of equals; itself if all are NaN."""
    radius, rows, columns = at_least(radius, mesh), cells[0].copy(), cells[1].copy()
    for i, (row, column) in enumerate(zip(*cells, strict=True)):
        patch = mesh.patch(float(mesh.lat[row]), float(mesh.lon[column]), radius)
        values = field[patch.rows, patch.columns]
        values = np.where((patch.distance <= radius) & np.isfinite(values), values, -np.inf)
        largest = values.max()
        if np.isfinite(largest):
            best = np.unravel_index(np.where(values == largest, patch.distance, np.inf).argmin(), values.shape)
            rows[i], columns[i] = patch.rows[best[0], 0], patch.columns[0, best[1]]
    return rows, columns


def least_rise(field: np.ndarray, mesh: Mesh, cells: Cells, radius: float) -> np.ndarray:
    """Rise of a field from each cell along that ray of eight on which it rises least within ``radius`` degrees.

    NaN where the cell or a whole ray is unknown.
    """
    values = mesh.rays(field, mesh.lat[cells[0]], mesh.lon[cells[1]], at_least(radius, mesh))
    highest = np.fmax.reduce(values, axis=2)
    return highest.min(axis=1, initial=np.inf) - field[cells]


def least_rise_everywhere(field: np.ndarray, mesh: Mesh, radius: float) -> np.ndarray:
    """Give `least_rise` of every cell, (lat, lon), but that a ray of which nothing is known does not count."""
    least = np.full(field.shape, np.nan, field.dtype)
    for steps in mesh.rays_everywhere(field, at_least(radius, mesh)):
        least = np.fmin(least, np.fmax.reduce(steps))
    return least - field


def lowest_of_neighbours(field: np.ndarray, mesh: Mesh, latitude: float) -> Cells:
    """Find the cells within ``latitude`` degrees of the equator that no cell of the eight around is below."""
    from scipy.ndimage import minimum_filter1d

    known = np.where(np.isfinite(field), field, np.inf)
    least = minimum_filter1d(known, 3, axis=0, mode="nearest")
    least = minimum_filter1d(least, 3, axis=1, mode="wrap" if mesh.periodic else "nearest")
    low = (known == least) & np.isfinite(known) & (np.abs(mesh.lat) <= latitude)[:, None]
    rows, columns = np.nonzero(low)
    return rows, columns


def merge(field: np.ndarray, mesh: Mesh, cells: Cells, distance: float) -> Cells:
    """Drop each cell that has a lower one within ``distance`` degrees."""
    from scipy.spatial import KDTree

    rows, columns = cells
    if not len(rows):
        return cells
    chord = 2 * np.sin(np.radians(at_least(distance, mesh)) / 2)
    pairs = KDTree(sphere.unit_vectors(mesh.lat[rows], mesh.lon[columns])).query_pairs(chord, output_type="ndarray")
    depth = field[cells]
    keep = np.ones(len(rows), dtype=bool)
    keep[np.where(depth[pairs[:, 0]] <= depth[pairs[:, 1]], pairs[:, 1], pairs[:, 0])] = False
    return rows[keep], columns[keep]


def closed(field: np.ndarray, mesh: Mesh, cells: Cells, rise: float, radius: float) -> np.ndarray:
    """Whether every path from a cell meets a value ``rise`` above it before it is ``radius`` degrees away.

    A path that leaves a regional grid, or meets an unknown value, has not met the rise.
    """
    radius, inside = at_least(radius, mesh), np.zeros(len(cells[0]), dtype=bool)
    for i, (row, column) in enumerate(zip(*cells, strict=True)):
        patch = mesh.patch(float(mesh.lat[row]), float(mesh.lon[column]), radius + 1.5 * mesh.step)
        below = ~(field[patch.rows, patch.columns] >= field[row, column] + rise)
        pool, _ = sphere.connected(below, connectivity=8, wrap=False)
        here = pool == pool[np.unravel_index(patch.distance.argmin(), pool.shape)]
        inside[i] = patch.distance[here].max() <= radius and not _touches_edge(here, patch, mesh)
    return inside


def largest_piece(cells: np.ndarray) -> np.ndarray:
    """Keep the largest 8-connected piece of a small mask that does not wrap."""
    pieces, count = sphere.connected(cells, connectivity=8, wrap=False)
    return pieces == 1 + np.bincount(pieces[cells])[1:].argmax() if count else cells


def _touches_edge(here: np.ndarray, patch: Patch, mesh: Mesh) -> bool:
    rows, columns = patch.rows[here.any(axis=1), 0], patch.columns[0, here.any(axis=0)]
    at_end = np.isin(rows, (0, len(mesh.lat) - 1)).any()
    at_side = not mesh.periodic and np.isin(columns, (0, len(mesh.lon) - 1)).any()
    return bool(at_end or at_side)
