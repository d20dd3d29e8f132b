"""The one grid convention inside: latitude ascends, longitude is 0..360 and ascends; and the way back.

A region across the Greenwich meridian keeps its columns together: its longitudes ascend from within 0..360 and go on
beyond 360, so that neighbours in the array are neighbours on the Earth.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import xarray as xr

Fields = TypeVar("Fields", xr.Dataset, xr.DataArray)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """How the rows and columns of a file become latitude ascending and longitude 0..360 ascending.

    Attributes
    ----------
    lat, lon : ndarray
        Coordinates in degrees after the reordering.
    rows : slice
        Takes the file's rows in the new order.
    columns : slice or ndarray of int
        Takes the file's columns in the new order, without a repeated last meridian.
    came : dict
        Attributes of ``lon`` and ``lat`` from which `restore` finds the way back.
    """

    lat: np.ndarray
    lon: np.ndarray
    rows: slice
    columns: slice | np.ndarray
    came: dict[str, dict[str, float | str]]

    @classmethod
    def of(cls, lat: np.ndarray, lon: np.ndarray, where: str = "the source") -> "Grid":
        """Find the reordering for a file's coordinates (degrees).

        Raises
        ------
        ValueError
            When an axis does not go one way only, or leaves the sphere.
        """
        lat, lon = np.asarray(lat, np.float64), np.asarray(lon, np.float64)
        for name, axis in (("latitude", lat), ("longitude", lon)):
            if axis.ndim != 1 or axis.size == 0:
                raise ValueError(
                    f"{where}: {name} has shape {axis.shape}, a curvilinear grid perhaps; expected one dimension. "
                    "Regrid to latitude-longitude first, with xESMF or `cdo remapbil`. "
                    "(Tracks are for events.read_tracks.)"
                )
            if not np.isfinite(axis).all():
                raise ValueError(
                    f"{where}: {name} has missing or infinite values; expected degrees for every row and column."
                )
            if axis.size == 1:
                raise ValueError(
                    f"{where}: {name} has the single value {axis[0]:g}, a station or a cross-section perhaps; expected "
                    "a map of at least 2 x 2 points. Leave the file out, or cut a larger piece."
                )
        if np.abs(lat).max() > 90.001:
            raise ValueError(f"{where}: latitude runs {lat.min():g}..{lat.max():g}; expected degrees within -90..90.")
        down = lat.size > 1 and lat[0] > lat[-1]
        rows = slice(None, None, -1) if down else slice(None)
        _one_way(np.diff(lat[rows]), "latitude", where)
        back = lon.size > 1 and np.median(_turn(np.diff(lon))) < 0
        eastward = np.arange(lon.size)[::-1] if back else np.arange(lon.size)
        closed = lon.size > 2 and np.isclose(abs(lon[-1] - lon[0]), 360, atol=1e-4)
        kept = eastward[:-1] if closed else eastward
        _one_way(_turn(np.diff(lon[kept])), "longitude", where)
        inside = wrapped(lon[kept])
        order = np.argsort(inside)
        gaps = np.mod(np.diff(inside[order], append=inside[order[0]]), 360)
        if gaps.max() > 1.5 * np.median(gaps):  # a region: begin behind the part of the globe that it leaves out
            order = np.roll(order, -1 - int(np.argmax(gaps)))
            inside = inside + 360 * (inside < inside[order[0]])
        columns = kept[order]
        came: dict[str, dict[str, float | str]] = {"lat": {}, "lon": {}}
        if down:
            came["lat"]["came_descending"] = 1
        if back:
            came["lon"]["came_descending"] = 1
        if not np.allclose(inside[order], lon[kept], atol=1e-6):
            came["lon"] |= {"came_from": float(lon[kept[0]]), "came_lowest": float(lon[kept].min())}
        if closed:
            came["lon"]["came_closed"] = 1
        columns = slice(None) if np.array_equal(columns, np.arange(lon.size)) else columns
        return cls(lat=lat[rows], lon=inside[order], rows=rows, columns=columns, came=came)

    def matches(self, other: "Grid") -> bool:
        """Whether two files have the same grid, to a ten-thousandth of a degree."""
        return (self.lat.size, self.lon.size) == (other.lat.size, other.lon.size) and bool(
            np.allclose(self.lat, other.lat, atol=1e-4) and np.allclose(self.lon, other.lon, atol=1e-4)
        )

    def __str__(self) -> str:
        return described(self.lat, self.lon)


def described(lat: np.ndarray, lon: np.ndarray) -> str:
    """Say in words how many rows and columns a grid has, and from where to where."""
    return f"{lat.size} x {lon.size} ({lat[0]:g}..{lat[-1]:g} N, {lon[0]:g}..{lon[-1]:g} E)"


def same_axis(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether latitudes or longitudes are the same, to a thousandth of a degree and what single precision loses."""
    return ours.shape == theirs.shape and np.allclose(ours, theirs, atol=1e-3)


def by_shape(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of a global grid that only its shape is known of: poles included, from the Greenwich meridian.

    This is CAM's finite-volume grid, on which DeepCAM and ExtremeWeather files lie without saying so.
    """
    return np.linspace(-90.0, 90.0, rows), np.arange(columns) * (360.0 / columns)


def wrapped(lon: np.ndarray) -> np.ndarray:
    """Longitude within 0..360 degrees, without the rounding noise of files and of the shift."""
    inside = _tidy(np.mod(lon, 360.0))
    return np.where(inside >= 360, 0.0, inside)


def _tidy(degrees: np.ndarray) -> np.ndarray:
    """Degrees that are a hair from six decimals, there."""
    rounded = np.round(degrees, 6)
    return np.where(np.abs(degrees - rounded) < 1e-8, rounded, degrees)


def restore(fields: Fields) -> Fields:
    """Give fields the latitude order and the longitude convention that their source had.

    Parameters
    ----------
    fields : Dataset or DataArray
        From `archive.open`, or computed from it with its coordinates kept.

    Returns
    -------
    Dataset or DataArray
        The same numbers, in the order in which the user's own files have them, with their longitudes. Axes are still
        called ``lat`` and ``lon``, as everything here that takes fields or masks expects.
    """
    lat, lon = fields["lat"], fields["lon"]
    if "came_from" in lon.attrs:
        # In their order, which begins anew at the lowest where they went on across the dateline.
        ours = np.asarray(lon)
        order = np.argsort(_beyond(ours, lon.attrs["came_from"]))
        theirs = _beyond(ours, lon.attrs["came_lowest"])
        fields = fields.assign_coords(lon=("lon", theirs, lon.attrs)).isel(lon=order)
    if "came_closed" in lon.attrs:
        closed = np.append(fields["lon"].data, fields["lon"].data[0] + 360.0)
        fields = fields.pad(lon=(0, 1), mode="wrap").assign_coords(lon=("lon", closed, lon.attrs))
    if "came_descending" in lon.attrs:
        fields = fields.isel(lon=slice(None, None, -1))
    if "came_descending" in lat.attrs:
        fields = fields.isel(lat=slice(None, None, -1))
    plain = {
        axis: (axis, fields[axis].values, {k: v for k, v in fields[axis].attrs.items() if not k.startswith("came_")})
        for axis in ("lat", "lon")
    }
    return fields.assign_coords(plain)


def _beyond(lon: np.ndarray, first: float) -> np.ndarray:
    """Longitudes within the 360 degrees from the first on."""
    # A hair is taken off before the wrap, so that rounding cannot send the first column to the far end.
    return _tidy(np.mod(lon - first + 1e-6, 360.0) + first - 1e-6)


def _turn(steps: np.ndarray) -> np.ndarray:
    """Take steps in longitude the short way round: -179 after 179 is two degrees on, 180 after 0 is 180 on."""
    return np.mod(steps + 179.999, 360.0) - 179.999


def _one_way(steps: np.ndarray, name: str, where: str) -> None:
    """Refuse an axis that turns back, or goes round the sphere more than once."""
    if (steps <= 0).any() or steps.sum() >= 360:
        at = int(np.argmax(steps <= 0))
        raise ValueError(
            f"{where}: {name} is not monotonic (near number {at} it goes on by {steps[at]:g} degrees). "
            "Sort the axis, or rebuild the file it was cut from."
        )
