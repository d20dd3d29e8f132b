"""Geometry on the sphere: distances, cell areas, centroids, and connected regions that wrap in longitude.

Latitudes and longitudes are in degrees, distances in km, areas in km2. Longitude is cyclic; latitude never is.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

EARTH_RADIUS_KM = 6371.0


def great_circle_km(lat1: ArrayLike, lon1: ArrayLike, lat2: ArrayLike, lon2: ArrayLike) -> NDArray[np.float64]:
    """Great-circle distance in km between points in degrees; arguments broadcast.

    The haversine form, which keeps its precision for neighbouring points.
    """
    phi1, lambda1, phi2, lambda2 = (np.radians(np.asarray(angle, float)) for angle in (lat1, lon1, lat2, lon2))
    haversine = np.sin((phi2 - phi1) / 2) ** 2 + np.cos(phi1) * np.cos(phi2) * np.sin((lambda2 - lambda1) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.minimum(haversine, 1.0)))


def unit_vectors(lat: ArrayLike, lon: ArrayLike) -> NDArray[np.float64]:
    """Give unit vectors (..., 3) from the Earth's centre to points in degrees; lat and lon broadcast."""
    phi, lambda_ = np.broadcast_arrays(np.radians(np.asarray(lat, float)), np.radians(np.asarray(lon, float)))
    return np.stack([np.cos(phi) * np.cos(lambda_), np.cos(phi) * np.sin(lambda_), np.sin(phi)], axis=-1)


def lat_lon(vectors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give latitude and longitude (0..360) in degrees of vectors (..., 3) of any length above zero."""
    x, y, z = np.moveaxis(vectors, -1, 0)
    lon = np.degrees(np.arctan2(y, x)) % 360
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.where(lon == 360, 0.0, lon)


def centroid(lat: ArrayLike, lon: ArrayLike, weights: ArrayLike = 1.0) -> tuple[float, float]:
    """Weighted centroid on the sphere: the direction of the mean unit vector, so that a seam does not matter.

    Parameters
    ----------
    lat, lon
        Points in degrees, of one shape or broadcasting to one.
    weights
        Weight of each point, usually its cell area.

    Returns
    -------
    tuple of float
        Latitude and longitude (0..360) in degrees. The centroid of a ring around the Earth is a pole.
    """
    vectors = unit_vectors(lat, lon)
    weights = np.broadcast_to(np.asarray(weights, float), vectors.shape[:-1])
    mean_lat, mean_lon = lat_lon(np.tensordot(weights, vectors, axes=weights.ndim))
    return float(mean_lat), float(mean_lon)


def wraps(lon: ArrayLike) -> bool:
    """Whether evenly spaced longitudes close the circle, so that the last column is a neighbour of the first.

    Raises
    ------
    ValueError
        When a meridian is there twice (0 and 360, or -180 and 180).
    """
    lon = np.unwrap(np.asarray(lon, float), period=360)
    if lon.size < 2:
        return False
    step = abs(lon[-1] - lon[0]) / (lon.size - 1)
    span = step * lon.size
    if span > 360 + step / 2:
        raise ValueError(
            f"longitude runs from {lon[0]:g} to {lon[-1]:g} in steps of {step:g} degrees and has a meridian twice; "
            "drop the last column, e.g. fields.isel(lon=slice(None, -1))"
        )
    return bool(span > 360 - step / 2)


def cell_edges(centers: ArrayLike) -> NDArray[np.float64]:
    """Edges (n + 1) of n cells: half way between the centres, and as far beyond the outermost ones."""
    centers = np.asarray(centers, float)
    if centers.ndim != 1 or centers.size < 2:
        raise ValueError(f"cells need at least 2 centres along an axis to have a width; got shape {centers.shape}")
    middle = (centers[1:] + centers[:-1]) / 2
    return np.concatenate([[2 * centers[0] - middle[0]], middle, [2 * centers[-1] - middle[-1]]])


def latitude_edges(lat: ArrayLike) -> NDArray[np.float64]:
    """Edges (n + 1) of n latitude rows in either order; the polar rows of a global grid end at the poles.

    Rows centred on a pole are half rows. On Gaussian grids the outermost row is stretched to the pole, so that the
    cells cover the sphere.
    """
    edges = cell_edges(lat)
    for outer, inner in ((0, 1), (-1, -2)):
        height = abs(edges[outer] - edges[inner])
        if abs(edges[outer]) > 90 - height / 2:
            edges[outer] = np.copysign(90.0, edges[outer])
    return edges


def longitude_edges(lon: ArrayLike) -> NDArray[np.float64]:
    """Edges (n + 1) of n longitude columns, continuous across 0 and the dateline (so they may leave 0..360).

    Where the columns close the circle the last edge is the first one, a turn on, however the centres were rounded.
    """
    edges = cell_edges(np.unwrap(np.asarray(lon, float), period=360))
    turn = np.copysign(360, edges[-1] - edges[0])
    if abs(edges[-1] - edges[0] - turn) < abs(edges[1] - edges[0]) / 2:
        edges[-1] = edges[0] + turn
    return edges


def cell_areas_km2(lat: ArrayLike, lon: ArrayLike) -> NDArray[np.float64]:
    """Area in km2 of every cell (lat, lon) of a rectilinear grid, exact between parallels and meridians."""
    heights = np.abs(np.diff(np.sin(np.radians(latitude_edges(lat)))))
    widths = np.abs(np.diff(np.radians(longitude_edges(lon))))
    return EARTH_RADIUS_KM**2 * np.outer(heights, widths)


def connected(mask: ArrayLike, connectivity: int = 8, wrap: bool = True) -> tuple[NDArray[np.int32], int]:
    """Label the connected regions of a mask on the sphere.

    Parameters
    ----------
    mask
        Array (lat, lon), true inside.
    connectivity
        4: cells that share an edge; 8: also cells that share a corner.
    wrap
        Whether the last column is a neighbour of the first. Rows are never joined across a pole.

    Returns
    -------
    labels, count
        int32 array (lat, lon) with 0 outside and 1..count inside, in the order in which a scan by rows meets them.
    """
    from scipy import ndimage

    if connectivity not in (4, 8):
        raise ValueError(f"connectivity must be 4 (shared edges) or 8 (also corners); got {connectivity}")
    mask = np.asarray(mask, bool)
    if mask.ndim != 2:
        raise ValueError(f"connected needs one mask (lat, lon); got shape {mask.shape}; go through times one by one")
    structure = ndimage.generate_binary_structure(2, 1 if connectivity == 4 else 2)
    labels = np.empty(mask.shape, np.int32)
    count = int(ndimage.label(mask, structure, output=labels))  # type: ignore[arg-type]
    if not wrap or count < 2 or mask.shape[1] < 2:
        return labels, count

    # Pairs of labels that meet over the seam: in the same row, and with corners also one row up or down.
    east, west = labels[:, -1], labels[:, 0]
    pairs = [(east, west)] if connectivity == 4 else [(east, west), (east[1:], west[:-1]), (east[:-1], west[1:])]
    first = np.concatenate([a for a, _ in pairs])
    second = np.concatenate([b for _, b in pairs])
    meet = (first > 0) & (second > 0) & (first != second)
    if not meet.any():
        return labels, count

    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(meet.sum(), bool), (first[meet], second[meet])), shape=(count + 1, count + 1))
    # Label 0 is outside and joined to nothing, so the components number it 0 and keep the order of first members.
    count, component = connected_components(graph, directed=False)
    return component.astype(np.int32)[labels], int(count) - 1
