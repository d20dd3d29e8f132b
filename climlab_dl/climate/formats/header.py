"""What an opened file is made of: which variable is latitude, which longitude, time, pressure."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import cftime
import numpy as np
import xarray as xr

from climlab_dl.climate import times
from climlab_dl.climate.formats.opening import empty
from climlab_dl.climate.grid import Grid
from climlab_dl.climate.units import Conversion, conversion

COORDINATES = ("lat", "lon", "time", "level")
"""What names may call a coordinate of the files."""
_LATITUDES = ("lat", "latitude", "g0_lat_0", "lat_0")
_LONGITUDES = ("lon", "longitude", "g0_lon_1", "lon_0")
_TIMES = ("valid_time", "time", "Time", "t", "initial_time0_hours", "forecast_time0")
_LEVELS = ("plev", "level", "lev", "pressure_level", "isobaricInhPa", "pressure", "levels")
VERSIONS = "expver"
"""Dimension along which one file has ERA5 and its preliminary version ERA5T; each time has one of them."""


class Header:
    """A file that was opened, looked at and closed: which variable is which coordinate."""

    def __init__(
        self, path: Path, dataset: xr.Dataset, names: Mapping[str, str | None] | None = None, *, hdf5: bool = False
    ):
        self.path = path
        self.dataset = dataset
        self.hdf5 = hdf5
        self._named = {ours: [t for t, o in (names or {}).items() if o == ours] for ours in COORDINATES}
        self.lat = self._coordinate("latitude", ("degrees_north", "degree_north"), _LATITUDES)
        self.lon = self._coordinate("longitude", ("degrees_east", "degree_east"), _LONGITUDES)
        self.grid = Grid.of(self.lat.values, self.lon.values, str(path))
        self.row, self.column = str(self.lat.dims[0]), str(self.lon.dims[0])
        candidates = (dataset.variables[n] for n in (*self._named["time"], *_TIMES) if n in dataset.variables)
        self.time = next((variable.load() for variable in candidates if variable.ndim <= 1), None)
        in_dims = next((n for n in _TIMES if n in dataset.dims), "")
        if self.time is not None:
            times.refuse_missing(self.time, path)
        self.time_dim = str(self.time.dims[0]) if self.time is not None and self.time.ndim else in_dims
        self.snapshots = dataset.sizes.get(self.time_dim, 1)
        if not self.snapshots:
            raise empty(path)

    def _coordinate(self, name: str, units: tuple[str, ...], spellings: tuple[str, ...]) -> xr.Variable:
        ours = "lat" if name == "latitude" else "lon"
        told = [self.dataset.variables[theirs] for theirs in self._named[ours] if theirs in self.dataset.variables]
        found = told or [
            variable
            for key, variable in self.dataset.variables.items()
            if variable.attrs.get("standard_name") == name
            or variable.attrs.get("units") in units
            or str(key).lower() in spellings
        ]
        if not found:
            raise ValueError(
                f"{self.path} has no {name} (found variables {', '.join(map(str, self.dataset.variables))}); "
                f"expected one with the attribute units = {units[0]!r}. "
                f"If one of them is it, say so with names={{'THEIRS': {ours!r}}}."
            )
        return min(found, key=lambda v: v.ndim if v.ndim else 9).load()

    def pressure(self, dim: str) -> np.ndarray | None:
        """Levels of a dimension in hPa, or None where it is not one of pressure."""
        if dim not in self.dataset.variables:
            return None
        levels = self.dataset.variables[dim].load()
        unit = str(levels.attrs.get("units", ""))
        to_pascal = conversion(unit, "Pa")
        if (
            self._says_hybrid(dim)
            or (to_pascal is None and dim not in (*_LEVELS, *self._named["level"]))
            or not np.issubdtype(levels.dtype, np.number)
        ):
            return None
        if to_pascal is None:
            to_pascal = Conversion(1.0 if float(levels.max()) > 2000 else 100.0)
        return np.round(np.atleast_1d(levels.values).astype(float) * to_pascal.scale / 100, 3)

    def hybrid(self, dim: str) -> bool:
        """Whether a dimension is one of hybrid levels whose pressure follows from what is in the file."""
        return self._says_hybrid(dim) and {"hyam", "hybm", "PS"} <= set(self.dataset.variables)

    def _says_hybrid(self, dim: str) -> bool:
        attributes = self.dataset[dim].attrs if dim in self.dataset.variables else {}
        return "hybrid" in f"{attributes.get('standard_name', '')} {attributes.get('long_name', '')}"

    @cached_property
    def signature(self) -> tuple:
        """Equal for files that can be read alike."""
        sizes = {d: n for d, n in self.dataset.sizes.items() if d != self.time_dim}
        gridded = {k: v for k, v in self.dataset.variables.items() if not v.dims or self.row in v.dims}
        described = tuple((name, v.dims, v.attrs.get("units")) for name, v in gridded.items())
        axes = (self.dataset.variables[d].load().values for d in sizes if d in self.dataset.variables)
        # Of texts, which may be objects, the bytes would be their addresses.
        axes = (np.array([str(text) for text in axis]) if axis.dtype.kind in "OT" else axis for axis in axes)
        calendar = "" if self.time is None else self.time.attrs.get("calendar", "")
        return described, tuple(sizes.items()), self.time_dim, calendar, *(axis.tobytes() for axis in axes)

    def times(self) -> list[cftime.datetime | None]:
        """Read the times in a text coordinate (ClimateNet writes the file's name there), or from the file's name."""
        if self.time is not None and self.time.dtype.kind in "OSU":
            calendar = self.time.attrs.get("calendar", "standard")
            return [times.from_name(str(text), calendar).time for text in np.atleast_1d(self.time.values)]
        return [times.from_name(self.path).time] if self.snapshots == 1 else [None] * self.snapshots

    @property
    def numbers(self) -> tuple[int, int]:
        """Number of the model run and of the labelling, by the file's name; -1 where it does not say."""
        if self.snapshots != 1:
            return -1, -1
        named = times.from_name(self.path)
        return int(self.dataset.attrs.get("model_run", named.run)), named.labelling

    def beside(self, variable: xr.DataArray) -> list[str]:
        """Dimensions of a variable other than time, latitude, longitude and the version of ERA5."""
        usual = (self.time_dim, self.row, self.column, VERSIONS)
        return [d for d in map(str, variable.dims) if d not in usual]

    def holds(self, variable: xr.DataArray) -> bool:
        """Whether a variable lies on the grid, at every time of the file."""
        timed = self.snapshots == 1 or self.time_dim in variable.dims
        return timed and {self.row, self.column} <= set(variable.dims)
