"""Which cells of a grid are land: Natural Earth 1:110m, packaged, so that no download is needed."""

from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike, NDArray

_SHAPES = files("climlab_dl") / "data/cartopy/shapefiles/natural_earth/physical/ne_110m_land.shp"


def land_mask(lat: ArrayLike, lon: ArrayLike) -> NDArray[np.bool_]:
    """Tell for every cell whether its centre is on land; the Caspian Sea is water, smaller lakes are land.

    Parameters
    ----------
    lat, lon
        Degrees of rows and columns, longitude in any convention.

    Returns
    -------
    numpy.ndarray
        Read-only bool array (lat, lon), kept for the next call with the same grid.

    References
    ----------
    Natural Earth, 1:110m physical vectors, land, naturalearthdata.com (public domain).
    """
    return _land_mask(np.asarray(lat, float).tobytes(), np.asarray(lon, float).tobytes())


@lru_cache(maxsize=8)
def _land_mask(lat_bytes: bytes, lon_bytes: bytes) -> NDArray[np.bool_]:
    import shapely

    lat, lon = np.frombuffer(lat_bytes), (np.frombuffer(lon_bytes) + 180) % 360 - 180
    # Antarctica ends along 90S and the dateline, where a point on the border has to count.
    land = shapely.intersects_xy(_continents(), *np.meshgrid(lon, lat))
    land.setflags(write=False)
    return land


@lru_cache(maxsize=1)
def _continents():
    """All land as one prepared geometry, longitudes -180..180."""
    import shapely
    from cartopy.io import shapereader

    land = shapely.union_all(list(shapereader.Reader(str(_SHAPES)).geometries()))
    shapely.prepare(land)
    return land
