"""WRF's output on grids whose latitude depends on the row and whose longitude on the column alone.

Winds are staggered, temperature is a perturbation of potential temperature, pressure and geopotential are split in two,
humidity is a mixing ratio: these are put together here. Rotated and conic grids have to be regridded first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr

from climlab_dl.climate import times
from climlab_dl.climate.fields import GRAVITY
from climlab_dl.climate.formats.levels import STANDARD_AXIS, offers
from climlab_dl.climate.formats.opening import reading
from climlab_dl.climate.grid import Grid
from climlab_dl.climate.parts import Content, Part

GAS_CONSTANT = 287.05
"""Of dry air, in J/(kg K)."""
LAPSE_RATE = 0.0065
"""Of the standard atmosphere, in K/m."""
_TIME = "Time"


@dataclass(frozen=True)
class Formula:
    """Reads variables of a snapshot of a file and puts them together."""

    path: Path
    dataset: xr.Dataset
    names: tuple[str, ...]
    formula: Callable[..., np.ndarray]

    def __call__(self, file: int, index: int) -> np.ndarray:
        """Read at one time of the file."""
        with reading(self.path):
            found = [self.dataset.variables[name].isel({_TIME: index}).to_numpy() for name in self.names]
        return self.formula(*found)


def recognises(dataset: xr.Dataset) -> bool:
    """Whether an opened file is output of WRF."""
    return {"XLAT", "XLONG"} <= set(dataset.variables) and _TIME in dataset.dims


def snapshots(dataset: xr.Dataset) -> int:
    """Count the times of a file."""
    return dataset.sizes[_TIME]


def parts(opened: Sequence[tuple[Path, xr.Dataset]], names: Mapping[str, str | None]) -> list[Part]:
    """Give one group a file, since domains may differ and move."""
    return [_part(path, dataset, names) for path, dataset in opened]


def _part(path: Path, dataset: xr.Dataset, names: Mapping[str, str | None]) -> Part:
    there = set(dataset.variables)
    contents: dict[str, Content] = {}
    for field, (inputs, formula) in _FLAT.items():
        if set(inputs) <= there and not _left_out(inputs, names):
            contents[field] = Content(read=Formula(path, dataset, inputs, formula), original=" ".join(inputs))
    coordinates: dict[str, xr.Variable] = {}
    pressure = Formula(path, dataset, ("P", "PB"), _sum)
    for family, (inputs, formula) in _DEEP.items():
        if {"P", "PB", *inputs} <= there and not _left_out(inputs, names):
            for name, content in offers(family, Formula(path, dataset, inputs, formula), pressure).items():
                contents[name] = replace(content, original=" ".join(inputs))
            coordinates |= dict([STANDARD_AXIS])
    used = {name for content in contents.values() for name in content.original.split()}
    spread = [name for name, v in dataset.data_vars.items() if v.ndim >= 3 and name not in used]
    return Part(
        files=[path],
        where=np.array([(0, k) for k in range(dataset.sizes[_TIME])]),
        time=_time(path, dataset),
        numbers=np.full((dataset.sizes[_TIME], 2), -1),
        grid=_grid(path, dataset),
        contents=contents,
        coordinates=coordinates,
        unrecognised=tuple(map(str, spread)),
    )


def _left_out(inputs: tuple[str, ...], names: Mapping[str, str | None]) -> bool:
    return any(name in names and names[name] is None for name in inputs)


def _grid(path: Path, dataset: xr.Dataset) -> Grid:
    lat, lon = (np.atleast_3d(dataset[name].to_numpy()) for name in ("XLAT", "XLONG"))
    # A ten-thousandth of a degree is ten metres.
    if max(np.ptp(lat, axis=2).max(), np.ptp(lon, axis=1).max()) > 1e-4:
        raise ValueError(
            f"{path}: latitude varies along rows (projection {dataset.attrs.get('MAP_PROJ_CHAR', 'unknown')}); "
            "expected a Mercator or latitude-longitude domain. Regrid it first, with xESMF or `cdo remapbil`."
        )
    if max(np.ptp(lat, axis=0).max(), np.ptp(lon, axis=0).max()) > 1e-4:
        raise ValueError(
            f"{path}: the domain moves, from latitude {lat[0].min():g} to {lat[-1].min():g} (a nest that follows a "
            "storm); an archive has one grid. Cut it into a file a time (`ncks -d Time,0`) and open them one by one."
        )
    return Grid.of(lat[0, :, 0], lon[0, 0, :], str(path))


def _time(path: Path, dataset: xr.Dataset) -> xr.Variable:
    if "XTIME" in dataset.variables and "units" in dataset["XTIME"].attrs:
        raw = dataset["XTIME"].variable
        times.refuse_missing(raw, path)
        return times.decode(xr.Variable("time", raw.values, {"calendar": "standard", **raw.attrs}))
    words = [bytes(text).decode() for text in dataset["Times"].values]
    return times.coordinate([date for word in words if (date := times.from_name(word).time) is not None])


def _same(values: np.ndarray) -> np.ndarray:
    return values


def _sum(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return one + two


def _fraction(mixing_ratio: np.ndarray) -> np.ndarray:
    """Mass of vapour per mass of moist air, from that per mass of dry air."""
    return mixing_ratio / (1 + mixing_ratio)


def _sea_level(ground: np.ndarray, height: np.ndarray, temperature: np.ndarray) -> np.ndarray:
    """Pressure that a column of standard lapse rate down to sea level would add."""
    middle = temperature + 0.5 * LAPSE_RATE * height
    return ground * np.exp(GRAVITY * height / (GAS_CONSTANT * middle))


def _temperature(perturbation: np.ndarray, pressure: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Temperature from WRF's perturbation of the potential temperature of 300 K."""
    return (perturbation + 300.0) * ((pressure + base) / 1e5) ** (2 / 7)


def _height(perturbation: np.ndarray, base: np.ndarray) -> np.ndarray:
    """Height of the middle of layers, from geopotential at their faces."""
    faces = (perturbation + base) / GRAVITY
    return 0.5 * (faces[:-1] + faces[1:])


def _middle_columns(wind: np.ndarray) -> np.ndarray:
    return 0.5 * (wind[..., :-1] + wind[..., 1:])


def _middle_rows(wind: np.ndarray) -> np.ndarray:
    return 0.5 * (wind[..., :-1, :] + wind[..., 1:, :])


_FLAT: dict[str, tuple[tuple[str, ...], Callable[..., np.ndarray]]] = {
    "UBOT": (("U10",), _same),
    "VBOT": (("V10",), _same),
    "QREFHT": (("Q2",), _fraction),
    "PS": (("PSFC",), _same),
    "PSL": (("PSFC", "HGT", "T2"), _sea_level),
    "TS": (("TSK",), _same),
    "TREFHT": (("T2",), _same),
}
_DEEP: dict[str, tuple[tuple[str, ...], Callable[..., np.ndarray]]] = {
    "U": (("U",), _middle_columns),
    "V": (("V",), _middle_rows),
    "T": (("T", "P", "PB"), _temperature),
    "Q": (("QVAPOR",), _fraction),
    "Z": (("PH", "PHB"), _height),
}
