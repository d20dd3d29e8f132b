"""Rows and columns in one order, whatever order the user has them in."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from climlab_dl.climate import sphere
from climlab_dl.climate.grid import described


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Where the rows and columns of the user's arrays go: latitude ascending, longitude ascending from the seam.

    On a grid around the Earth the seam is at 0; a regional grid keeps its columns together, also across 0 or 180.

    Parameters
    ----------
    lat, lon
        Degrees of the ordered rows and columns; those of a region continue across 0 and 360.
    rows, columns
        Which of the user's rows and columns they are.
    wrap
        Whether the columns close the circle.
    western
        Whether the user writes western longitudes as negative numbers.
    """

    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    wrap: bool
    western: bool

    @classmethod
    def of(cls, array: xr.DataArray | xr.Dataset) -> "Layout":
        """Read the layout from an array's coordinates ``lat`` and ``lon``.

        Raises
        ------
        ValueError
            Where a coordinate is missing, is not 1-D, or repeats a meridian.
        """
        for name in ("lat", "lon"):
            if name not in array.coords or array[name].dims != (name,):
                raise ValueError(
                    f"events need 1-D coordinates lat and lon in degrees; {name!r} is not one (dims {array.dims}, "
                    f"coordinates {list(array.coords)}). archive.open gives them, or array.assign_coords(...)"
                )
        lat, lon = array["lat"].values.astype(float), array["lon"].values.astype(float)
        wrap = sphere.wraps(lon)
        rows = np.argsort(lat, kind="stable")
        # Rounding must not take a column at -1e-14 to the far end of 0..360.
        east = np.asarray(np.round(lon % 360, 9) % 360 if wrap else np.unwrap(lon, period=360), np.float64)
        columns = np.argsort(east, kind="stable")
        return cls(
            lat=lat[rows],
            lon=east[columns],
            rows=rows,
            columns=columns,
            wrap=wrap,
            western=bool((lon < 0).any()),
        )

    def arrange(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring a user's array (lat, lon) into this layout."""
        in_place = (np.diff(self.rows) == 1).all() and (np.diff(self.columns) == 1).all()
        return values if in_place else values[self.rows[:, None], self.columns]

    def restore(self, values: NDArray[Any]) -> NDArray[Any]:
        """Bring an array (lat, lon) in this layout back to the user's."""
        back = np.empty_like(values)
        back[self.rows[:, None], self.columns] = values
        return back

    def longitudes(self, lon: NDArray[np.float64]) -> NDArray[np.float64]:
        """Write longitudes the way the user does: -180..180 or 0..360."""
        return (lon + 180) % 360 - 180 if self.western else lon % 360


def same_grid(fields: xr.Dataset, layout: Layout) -> Layout:
    """Give the layout of fields on the grid of a mask, whatever the order of their rows and columns.

    Raises
    ------
    ValueError
        Where they are on another grid.
    """
    other = Layout.of(fields)
    if other.lat.shape == layout.lat.shape and other.lon.shape == layout.lon.shape:
        shift = np.abs((other.lon - layout.lon + 180) % 360 - 180).max()
        if np.allclose(other.lat, layout.lat, atol=1e-3) and shift < 1e-3:
            return other
    both = " and ".join(described(one.lat, one.lon) for one in (layout, other))
    raise ValueError(
        f"mask and fields are on different grids: {both}; "
        "bring the fields to the mask's grid, e.g. fields.interp(lat=mask.lat, lon=mask.lon)"
    )
