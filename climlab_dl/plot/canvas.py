"""Where a map's pixels lie on the sphere.

A canvas is a projection cut into pixels, each of which knows its latitude and longitude. A field is drawn by looking up
the grid cell under each pixel: classes are never averaged, longitude wraps so that no seam shows, and the same few
lines serve every projection, the interactive map and its static twin.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from climlab_dl.climate.sphere import latitude_edges, longitude_edges

if TYPE_CHECKING:
    from collections.abc import Iterable

    import xarray as xr
    from cartopy.crs import Projection
    from shapely.geometry.base import BaseGeometry

PROJECTIONS = ("PlateCarree", "Robinson", "Mollweide", "Orthographic", "NorthPolarStereo", "SouthPolarStereo")
# Polar maps show the extratropics: from this latitude to the pole.
POLAR_EDGE = 20.0


def projection(name: "str | Projection", central_longitude: float = 0.0) -> "Projection":
    """Projection by name, or the cartopy projection given.

    Raises
    ------
    ValueError
        No such name.
    """
    import cartopy.crs as ccrs

    if not isinstance(name, str):
        return name
    if name not in PROJECTIONS:
        raise ValueError(f"projection is {name!r}; take one of {', '.join(PROJECTIONS)}, or a cartopy projection")
    if name == "Orthographic":
        return ccrs.Orthographic(central_longitude, 20.0)
    return getattr(ccrs, name)(central_longitude=central_longitude)


def fitting(
    grid: "xr.DataArray | xr.Dataset", name: "str | Projection | None" = None, central_longitude: float | None = None
) -> "Projection":
    """Projection in which a grid is seen whole and in one piece.

    Parameters
    ----------
    grid
        Fields with `lat` and `lon`, both ascending, longitude within 0..360.
    name
        As for `projection`; by default Robinson of the whole Earth, whose areas it hardly distorts, and of a region a
        flat map, which it fills.
    central_longitude
        In the middle, in degrees east; by default 0 of the whole Earth, and the middle of a region.
    """
    whole = _is_whole(grid)
    longitude = (0.0 if whole else _middle(grid)) if central_longitude is None else central_longitude
    return projection(name or ("Robinson" if whole else "PlateCarree"), longitude)


def _middle(grid: "xr.DataArray | xr.Dataset") -> float:
    """Longitude in the middle of a region; a round one, as far as that leaves the region in one piece."""
    west, east = longitude_edges(grid.lon)[[0, -1]]
    middle = (west + east) / 2
    if east - west <= 340.0:
        middle = 10.0 * round(middle / 10.0)
    return float(180.0 - (180.0 - middle) % 360.0)


def _is_whole(grid: "xr.DataArray | xr.Dataset") -> bool:
    """Whether a grid's columns close the circle."""
    west, east = longitude_edges(grid.lon)[[0, -1]]
    return bool(east - west > 359.0)


@dataclass(frozen=True, eq=False)
class Canvas:
    """Pixels of a projection: rows from the bottom up.

    Attributes
    ----------
    crs
        The projection.
    extent
        Left, right, bottom, top in the projection's units.
    lat, lon
        Degrees at the pixel centres, (height, width); NaN off the globe. Longitude is in 0..360.
    """

    crs: "Projection"
    extent: tuple[float, float, float, float]
    lat: np.ndarray
    lon: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in pixels."""
        height, width = self.lat.shape
        return height, width

    @property
    def whole(self) -> bool:
        """Whether all of what the projection can show is shown."""
        return not self.flat or self.extent[1] - self.extent[0] > 359.0

    @property
    def flat(self) -> bool:
        """Whether the axes are degrees of longitude and latitude."""
        return is_flat(self.crs)

    @property
    def polar(self) -> bool:
        """Whether the map is a disk around a pole."""
        return is_polar(self.crs)

    @property
    def centres(self) -> tuple[np.ndarray, np.ndarray]:
        """Middles of the columns and of the rows, in the projection's units."""
        return _centres(self.extent, self.lat.shape[1])

    def clip(self, xs: list[np.ndarray], ys: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Lines without the points that lie off a polar map's disk; on other maps, the lines."""
        if not self.polar:
            return xs, ys
        inside = [np.hypot(x, y) <= self.extent[1] for x, y in zip(xs, ys, strict=True)]
        cut = [[np.where(keep, line, np.nan) for keep, line in zip(inside, lines, strict=True)] for lines in (xs, ys)]
        return cut[0], cut[1]

    def cells(self, lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
        """Flat index of the grid cell under each pixel, int32 (height, width); -1 where the grid has none.

        Parameters
        ----------
        lat, lon
            Ascending cell centres in degrees, longitude within 0..360. A cell reaches half-way to its neighbours; the
            outermost rows of a grid that reaches the last degrees before a pole reach the pole.
        """
        row = np.searchsorted(latitude_edges(lat), np.nan_to_num(self.lat, nan=999.0), side="right") - 1
        edges = longitude_edges(lon)
        # Pixels are counted from the grid's own western edge, so that a grid that crosses 0 or ends before 360 wraps.
        east_of_edge = np.mod(np.nan_to_num(self.lon) - edges[0], 360.0)
        width = edges[-1] - edges[0]
        column = np.searchsorted(edges - edges[0], east_of_edge, side="right") - 1
        if width > 359.0:
            column = np.minimum(column, len(lon) - 1)
        inside = np.isfinite(self.lat) & (row >= 0) & (row < len(lat)) & (column < len(lon))
        return np.where(inside, row * len(lon) + column, -1).astype(np.int32)


def under(values: np.ndarray, cells: np.ndarray, nothing: float = np.nan) -> np.ndarray:
    """Value of the cell under each pixel (`Canvas.cells`), never an average of several; `nothing` off the grid."""
    return np.append(values.ravel(), np.asarray(nothing, values.dtype))[cells]


def is_flat(crs: "Projection") -> bool:
    """Whether a projection's coordinates are degrees of longitude and latitude."""
    import cartopy.crs as ccrs

    return isinstance(crs, ccrs.PlateCarree)


def central(crs: "Projection") -> float:
    """Longitude in the middle of a flat map."""
    return float(crs.proj4_params["pm"])


def is_polar(crs: "Projection") -> bool:
    """Whether a projection is stereographic around a pole."""
    import cartopy.crs as ccrs

    return isinstance(crs, ccrs.NorthPolarStereo | ccrs.SouthPolarStereo)


def over(grid: "xr.DataArray | xr.Dataset", crs: "Projection", width: int | None = None) -> Canvas:
    """Canvas for a grid: its own cells on a flat map, about a thousand pixels across elsewhere.

    Parameters
    ----------
    grid
        Fields with `lat` and `lon`, both ascending, longitude within 0..360.
    crs
        The projection.
    width
        Pixels across; by default whole multiples of the grid's columns on a flat map, so that cells are drawn equally
        wide.
    """
    lat, lon = np.asarray(grid.lat, float), np.asarray(grid.lon, float)
    west, east = longitude_edges(lon)[[0, -1]]
    if not is_flat(crs):
        return _globe(crs, width or 1000)
    columns = width or len(lon) * max(1, round(400 / len(lon)))
    if _is_whole(grid):
        return _flat(crs, (-180.0, 180.0, -90.0, 90.0), columns)
    bottom, top = np.clip(latitude_edges(lat)[[0, -1]], -90, 90)
    # Relative to the map's centre, so that the region is in one piece if the cut is not within it.
    left = (west - central(crs) + 180.0) % 360.0 - 180.0
    return _flat(crs, (left, left + east - west, bottom, top), columns)


def _flat(crs: "Projection", extent: tuple[float, float, float, float], width: int) -> Canvas:
    x, y = _centres(extent, width)
    lon, lat = np.meshgrid(np.mod(x + central(crs), 360.0), y)
    return Canvas(crs, extent, lat, lon)


def _centres(extent: tuple[float, float, float, float], width: int) -> tuple[np.ndarray, np.ndarray]:
    """Give where the middles of so many columns of square pixels lie, and those of their rows."""
    left, right, bottom, top = extent
    height = max(2, round(width * (top - bottom) / (right - left)))
    x = left + (np.arange(width) + 0.5) * (right - left) / width
    return x, bottom + (np.arange(height) + 0.5) * (top - bottom) / height


@lru_cache(maxsize=8)
def _globe(crs: "Projection", width: int) -> Canvas:
    import cartopy.crs as ccrs

    left, right = crs.x_limits
    bottom, top = crs.y_limits
    if is_polar(crs):
        edge = POLAR_EDGE if isinstance(crs, ccrs.NorthPolarStereo) else -POLAR_EDGE
        radius = float(np.hypot(*crs.transform_point(0.0, edge, ccrs.PlateCarree())))
        left, right, bottom, top = -radius, radius, -radius, radius
    xs, ys = np.meshgrid(*_centres((left, right, bottom, top), width))
    lon, lat, _ = np.moveaxis(ccrs.PlateCarree().transform_points(crs, xs, ys), -1, 0)
    # Some inverse projections answer off the globe too: such points do not come back to where they were.
    back = crs.transform_points(ccrs.PlateCarree(), np.nan_to_num(lon), np.nan_to_num(lat))
    away = np.hypot(back[..., 0] - xs, back[..., 1] - ys)
    off = ~np.isfinite(lon + lat + away) | (away > 0.01 * (right - left))
    if left == -right and bottom == left:  # a disk
        off |= np.hypot(xs, ys) > right
    lat, lon = np.where(off, np.nan, lat), np.where(off, np.nan, np.mod(lon, 360.0))
    return Canvas(crs, (left, right, bottom, top), lat, lon)


@lru_cache(maxsize=8)
def graticule(crs: "Projection", step: int = 30) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Meridians and parallels every `step` degrees, as lines in the projection's units."""
    from shapely import LineString

    up, around = np.linspace(-90, 90, 91), np.linspace(-180, 180, 181)
    meridians = [np.column_stack([np.full_like(up, lon), up]) for lon in range(-180, 180, step)]
    parallels = [np.column_stack([around, np.full_like(around, lat)]) for lat in range(-90 + step, 90, step)]
    return projected(crs, (LineString(line) for line in meridians + parallels))


def projected(crs: "Projection", lines: "Iterable[BaseGeometry]") -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Lines in degrees, in a projection's units and cut where it is cut: x and y of each piece, float32."""
    import cartopy.crs as ccrs

    cut = [crs.project_geometry(line, ccrs.PlateCarree()) for line in lines]
    pieces = [np.asarray(piece.coords, np.float32) for line in cut for piece in line.geoms]
    return [piece[:, 0] for piece in pieces], [piece[:, 1] for piece in pieces]


def ticks(canvas: Canvas) -> tuple[list[int], list[int]]:
    """Where a flat map's degrees are written, across (relative to its middle) and up."""
    left, right, bottom, top = canvas.extent
    step = 60 if right - left > 180 else 30 if right - left > 90 else 10 if right - left > 25 else 2
    across = [tick for tick in range(-540, 541, step) if left <= tick <= right]
    return across, [tick for tick in range(-90, 91, min(step, 30)) if bottom <= tick <= top]
