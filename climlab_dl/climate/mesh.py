"""Derivatives, windows, patches and rays on a latitude-longitude mesh; longitude wraps, latitude never."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from climlab_dl.climate.sphere import EARTH_RADIUS_KM, wraps

KM_PER_DEGREE = np.radians(1.0) * EARTH_RADIUS_KM
METRES_PER_DEGREE = 1000.0 * KM_PER_DEGREE


class Patch(NamedTuple):
    """The cells around a point; ``field[patch.rows, patch.columns]`` are their values."""

    rows: np.ndarray  # (rows, 1)
    columns: np.ndarray  # (1, columns)
    distance: np.ndarray  # (rows, columns) great-circle degrees from the centre


@dataclass(frozen=True, eq=False)
class Mesh:
    """Where the rows and columns of a 2-D field (lat, lon) lie, and who is whose neighbour.

    Parameters
    ----------
    lat, lon
        Degrees; latitude strictly monotonic in either direction, longitude ascending in equal steps.
    wrap
        Join the first and the last column. It takes effect only where the longitudes close the circle, so a
        regional mesh is never joined.

    Raises
    ------
    ValueError
        Where an axis is not as described.
    """

    lat: np.ndarray
    lon: np.ndarray
    wrap: bool = True

    def __post_init__(self) -> None:
        if len(self.lat) < 3 or len(self.lon) < 3:
            raise ValueError(f"the grid is {len(self.lat)} x {len(self.lon)}; rules need at least 3 x 3 cells")
        rows, columns = np.diff(self.lat), np.diff(self.lon)
        if not (np.all(rows > 0) or np.all(rows < 0)):
            raise ValueError("latitude is not strictly monotonic; sort the fields with fields.sortby('lat')")
        if columns.mean() <= 0 or not np.allclose(columns, columns.mean(), rtol=1e-3):
            raise ValueError(
                "longitude does not ascend in equal steps (a seam inside?); open the fields with archive.open, "
                "or sort them with fields.sortby('lon')"
            )

    @cached_property
    def lon_step(self) -> float:
        """Degrees between columns."""
        return float(np.diff(self.lon).mean())

    @cached_property
    def lat_step(self) -> float:
        """Mean degrees between rows."""
        return float(np.abs(np.diff(self.lat)).mean())

    @cached_property
    def step(self) -> float:
        """The larger of the two steps, in degrees."""
        return max(self.lon_step, self.lat_step)

    @cached_property
    def periodic(self) -> bool:
        """Whether the last column is a neighbour of the first."""
        return self.wrap and wraps(self.lon)

    @cached_property
    def cosines(self) -> np.ndarray:
        """Cosine of latitude as a column, never below 1e-6 so that the poles divide."""
        return np.maximum(np.cos(np.radians(self.lat)), 1e-6)[:, None]

    @cached_property
    def _rows_by_latitude(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.lat)
        return self.lat[order], order.astype(float)

    # ---------------------------------------------------------------- derivatives

    def eastward(self, field: np.ndarray) -> np.ndarray:
        """Give the derivative along the parallel, per metre; central, one-sided at the edges of a region."""
        if self.periodic:
            change = (np.roll(field, -1, axis=1) - np.roll(field, 1, axis=1)) / (2 * self.lon_step)
        else:
            change = np.gradient(field, self.lon_step, axis=1)
        return change / (METRES_PER_DEGREE * self.cosines)

    def northward(self, field: np.ndarray) -> np.ndarray:
        """Give the derivative along the meridian, per metre; second order, also on unequal (Gaussian) rows."""
        return np.gradient(field, self.lat * METRES_PER_DEGREE, axis=0)

    def vorticity(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Relative vorticity in 1/s of a wind in m/s; the same for either order of latitude.

        A row that lies on a pole takes the mean of the row next to it: meridians meet there and the eastward
        derivative has no meaning. Where the outermost row lies short of it (Gaussian grids), u cos(lat) is 0 there.
        """
        spin = self.eastward(v) - self._northward_from_poles(u * self.cosines) / self.cosines
        for pole, neighbour in ((0, 1), (-1, -2)):
            if abs(self.lat[pole]) > 90.0 - 1e-6:
                spin[pole] = spin[neighbour].mean()
        return spin

    def _northward_from_poles(self, field: np.ndarray) -> np.ndarray:
        """Give the derivative along the meridian of a field that is 0 at the poles."""
        up = np.sign(self.lat[-1] - self.lat[0])
        gaps = 90.0 + up * self.lat[0], 90.0 - up * self.lat[-1]
        before, after = (int(1e-6 < gap < 1.5 * self.lat_step) for gap in gaps)
        lat = np.concatenate([[-90.0 * up] * before, self.lat, [90.0 * up] * after])
        whole = np.pad(field, ((before, after), (0, 0)))
        return np.gradient(whole, lat * METRES_PER_DEGREE, axis=0)[before : before + len(self.lat)]

    # ---------------------------------------------------------------- windows

    def window_maximum(self, field: np.ndarray, half_width: float) -> np.ndarray:
        """Largest value within ``half_width`` degrees north, south and, along the parallel, east and west."""
        from scipy.ndimage import maximum_filter1d

        rows = 2 * max(1, int(half_width / self.lat_step)) + 1
        tall = maximum_filter1d(field, rows, axis=0, mode="nearest")
        wide = np.empty_like(tall)
        mode = "wrap" if self.periodic else "nearest"
        reach = np.minimum(half_width / (self.cosines[:, 0] * self.lon_step), (len(self.lon) - 1) // 2)
        for row, columns in enumerate(np.maximum(1, reach.astype(int))):
            maximum_filter1d(tall[row], 2 * columns + 1, output=wide[row], mode=mode)
        return wide

    def patch(self, lat: float, lon: float, radius: float) -> Patch:
        """Return the cells of the smallest box that holds the cap of ``radius`` degrees around a point."""
        over_pole = abs(lat) + radius >= 90.0
        half = 180.0 if over_pole else np.degrees(np.arcsin(np.sin(np.radians(radius)) / np.cos(np.radians(lat))))
        return self.box(lat, lon, radius, float(half))

    def box(self, lat: float, lon: float, half_lat: float, half_lon: float) -> Patch:
        """Return the cells within ``half_lat`` and ``half_lon`` degrees; cut at the edges where nothing wraps."""
        rows = np.flatnonzero(np.abs(self.lat - lat) <= half_lat + 1e-9)[:, None]
        first = int(np.ceil((lon - half_lon - self.lon[0]) / self.lon_step - 1e-9))
        last = int(np.floor((lon + half_lon - self.lon[0]) / self.lon_step + 1e-9))
        if self.periodic:
            columns = np.arange(first, min(last, first + len(self.lon) - 1) + 1)[None] % len(self.lon)
        else:
            columns = np.arange(max(first, 0), min(last, len(self.lon) - 1) + 1)[None]
        return Patch(rows, columns, degrees_between(lat, lon, self.lat[rows], self.lon[columns]))

    # ---------------------------------------------------------------- rays

    def sample(self, field: np.ndarray, lat: np.ndarray, lon: np.ndarray) -> np.ndarray:
        """Bilinear values at points in degrees; NaN outside a region and beyond the first and last row."""
        row = np.interp(lat, *self._rows_by_latitude, left=np.nan, right=np.nan)
        column = (lon - self.lon[0]) / self.lon_step
        count = len(self.lon)
        inside = (column >= 0) & (column <= count - 1)
        column = column % count if self.periodic else np.where(inside, column, np.nan)
        outside = np.isnan(row) | np.isnan(column)
        row, column = np.where(outside, 0.0, row), np.where(outside, 0.0, column)
        south = np.minimum(row.astype(int), len(self.lat) - 2)
        up, right = row - south, column - np.floor(column)
        west = column.astype(int) % count
        east = (west + 1) % count if self.periodic else np.minimum(west + 1, count - 1)
        lower = field[south, west] * (1 - right) + field[south, east] * right
        upper = field[south + 1, west] * (1 - right) + field[south + 1, east] * right
        return np.where(outside, np.nan, lower * (1 - up) + upper * up)

    def rays(self, field: np.ndarray, lat: np.ndarray, lon: np.ndarray, reach: float) -> np.ndarray:
        """Return values along eight great circles from each point, (points, 8, steps), up to ``reach`` degrees."""
        distance, bearings = self._along_rays(reach)
        return self.sample(field, *destination(lat[:, None, None], lon[:, None, None], bearings[:, None], distance))

    def rays_everywhere(self, field: np.ndarray, reach: float) -> Iterator[list[np.ndarray]]:
        """Give the same along each of the eight great circles for all cells: per step one array (lat, lon).

        The columns are equally far apart, so a row's cells all look the same number of rows and columns away.
        """
        distance, bearings = self._along_rays(reach)
        for bearing in bearings:
            yield [self._looked_at(field, *destination(self.lat, 0.0, bearing, away)) for away in distance]

    def _looked_at(self, field: np.ndarray, lat: np.ndarray, shift: np.ndarray) -> np.ndarray:
        """Bilinear values at a latitude for each row, and so many degrees east of each cell."""
        row = np.interp(lat, *self._rows_by_latitude, left=np.nan, right=np.nan)
        beyond = np.isnan(row)
        row = np.where(beyond, 0.0, row)
        south = np.minimum(row.astype(int), len(self.lat) - 2)
        up = (row - south).astype(field.dtype)[:, None]
        along = field[south] * (1 - up) + field[south + 1] * up
        columns, count = (shift / self.lon_step)[:, None], len(self.lon)
        whole = np.floor(columns).astype(int)
        right = (columns - whole).astype(field.dtype)
        # Twice round the globe, so that no look leaves its row; and one index into all rows, which is taken fastest.
        round_twice = np.concatenate([along, along, along[:, :1]], axis=1)
        west = np.arange(len(row))[:, None] * (2 * count + 1) + whole % count + np.arange(count)
        found = np.take(round_twice, west) * (1 - right) + np.take(round_twice, west + 1) * right
        if beyond.any():
            found[beyond] = np.nan
        if not self.periodic:
            column = np.arange(count) + whole
            found[(column < 0) | (column + right > count - 1)] = np.nan
        return found

    def _along_rays(self, reach: float) -> tuple[np.ndarray, np.ndarray]:
        """Degrees from the point of each step along a ray, and bearings of the eight rays."""
        steps = max(2, int(np.ceil(reach / min(self.lat_step, self.lon_step))))
        return np.linspace(reach / steps, reach, steps), np.arange(0.0, 360.0, 45.0)


def degrees_between(lat: Any, lon: Any, lats: np.ndarray, lons: np.ndarray) -> np.ndarray:
    """Great-circle degrees from one point to others (haversine, exact for small distances)."""
    phi, phis = np.radians(lat), np.radians(lats)
    half = np.sin((phis - phi) / 2) ** 2 + np.cos(phi) * np.cos(phis) * np.sin(np.radians(lons - lon) / 2) ** 2
    return np.degrees(2 * np.arcsin(np.sqrt(np.minimum(half, 1.0))))


def destination(lat: Any, lon: Any, bearing: Any, distance: Any) -> tuple[np.ndarray, np.ndarray]:
    """Latitude and longitude reached from a point along a great circle; all in degrees, bearing from north."""
    phi, lam, bearing, distance = (np.radians(value) for value in (lat, lon, bearing, distance))
    sine = np.sin(phi) * np.cos(distance) + np.cos(phi) * np.sin(distance) * np.cos(bearing)
    sine = np.clip(sine, -1.0, 1.0)
    turn = np.arctan2(np.sin(bearing) * np.sin(distance) * np.cos(phi), np.cos(distance) - np.sin(phi) * sine)
    return np.degrees(np.arcsin(sine)), np.degrees(lam + turn)


def mesh_of(lat: Any, lon: Any, wrap: bool = True) -> Mesh:
    """Return the mesh of two coordinate axes in degrees."""
    return Mesh(np.asarray(lat, dtype=float), np.asarray(lon, dtype=float), wrap)
