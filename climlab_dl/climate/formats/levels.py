"""Fields at pressure levels out of fields on a model's own levels."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import xarray as xr

from climlab_dl.climate.fields import FIELDS
from climlab_dl.climate.parts import Content

Reader = Callable[[int, int], np.ndarray]

STANDARD: tuple[float, ...] = (1000.0, 925.0, 850.0, 700.0, 600.0, 500.0, 400.0, 300.0, 250.0, 200.0)
"""Levels in hPa that integrals over the column are taken on."""
STANDARD_AXIS = ("level", xr.Variable("level", np.array(STANDARD), {"units": "hPa", "standard_name": "air_pressure"}))


@dataclass(frozen=True)
class AtPressure:
    """Reads a field on model levels and interpolates it, linearly in the logarithm of pressure.

    Below the lowest and above the highest level of the model there is nothing (NaN).
    """

    field: Reader
    pressure: Reader
    levels: tuple[float, ...]

    def __call__(self, file: int, index: int) -> np.ndarray:
        """Give (level, lat, lon) with ``levels`` in hPa."""
        wanted = 100.0 * np.asarray(self.levels)
        return interpolated(self.field(file, index), self.pressure(file, index), wanted)


@dataclass(frozen=True)
class HybridPressure:
    """Pressure of hybrid levels, a p0 + b p_s, as CESM defines them."""

    surface: Reader
    a: np.ndarray
    b: np.ndarray
    reference: float

    def __call__(self, file: int, index: int) -> np.ndarray:
        """Give (level, lat, lon) in Pa."""
        ground = self.surface(file, index)
        return self.a[:, None, None] * self.reference + self.b[:, None, None] * ground


def offers(family: str, field: Reader, pressure: Reader) -> dict[str, Content]:
    """Give the known cuts of a field on model levels, and the whole of it on standard pressures.

    Only what the middle one of the columns of the first snapshot reaches is offered; the whole has to reach from
    850 to 300 hPa, because less of it would not be a column.
    """
    reach = pressure(0, 0) / 100
    top, bottom = float(np.median(reach.min(axis=0))), float(np.median(reach.max(axis=0)))
    cuts = [known for known in FIELDS.values() if known.family == family and top <= known.level <= bottom]
    at_cuts = AtPressure(field, pressure, tuple(known.level for known in cuts))
    found = {known.name: Content(read=at_cuts, inner=(len(cuts),), component=i) for i, known in enumerate(cuts)}
    if top <= 300 and bottom >= 850:
        whole = AtPressure(field, pressure, STANDARD)
        found[family] = Content(read=whole, dims=("level",), inner=(len(STANDARD),))
    return found


def interpolated(field: np.ndarray, pressure: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Interpolate (level, lat, lon) to pressures, linearly in their logarithm.

    Parameters
    ----------
    field, pressure : ndarray, shape (level, lat, lon)
        Pressure goes one way along the levels of every column, in Pa.
    wanted : ndarray
        Pressures in Pa.
    """
    if pressure[0, 0, 0] > pressure[-1, 0, 0]:
        field, pressure = field[::-1], pressure[::-1]
    height = np.log(pressure)
    found = np.full((len(wanted), *field.shape[1:]), np.nan)
    for i, target in enumerate(np.log(wanted)):
        # The first level below the target, and the one above it, of every column at once.
        below = np.clip((height < target).sum(axis=0), 1, len(height) - 1)[None]
        low, high = (np.take_along_axis(height, k, axis=0)[0] for k in (below, below - 1))
        under, over = (np.take_along_axis(field, k, axis=0)[0] for k in (below, below - 1))
        share = (target - high) / (low - high)
        found[i] = np.where((share >= 0) & (share <= 1), over + share * (under - over), np.nan)
    return found
