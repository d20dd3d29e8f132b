"""From one latitude-longitude grid to another: rows, then columns, each as weights that sum to one."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from climlab_dl.climate.sphere import latitude_edges, longitude_edges, wraps

Method = Literal["bilinear", "conservative"]
METHODS = get_args(Method)


@dataclass(frozen=True, eq=False)
class Regridder:
    """Values on a grid as weighted sums of those on another.

    Attributes
    ----------
    rows
        Weights (new lat, old lat).
    columns
        Weights (new lon, old lon).
    """

    rows: np.ndarray
    columns: np.ndarray

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Regrid.

        Parameters
        ----------
        values
            Numbers (..., lat, lon); NaN where there are none.

        Returns
        -------
        ndarray
            float32 (..., new lat, new lon): the mean over what is known, NaN where that is under half of the weight.
        """
        known = np.isfinite(values)
        total = self.rows @ np.where(known, values, 0.0) @ self.columns.T
        if known.all() and (self.rows.sum(1) > 0.999).all() and (self.columns.sum(1) > 0.999).all():
            return total.astype(np.float32)
        weight = self.rows @ known.astype(np.float64) @ self.columns.T
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(weight > 0.499, total / weight, np.nan).astype(np.float32)


def regridder(
    lat: np.ndarray, lon: np.ndarray, new_lat: np.ndarray, new_lon: np.ndarray, method: Method = "bilinear"
) -> Regridder:
    """Weights from one grid to another.

    Parameters
    ----------
    lat, lon, new_lat, new_lon
        Ascending degrees, longitudes within 0..360; a grid round the globe is closed, rows end at the poles.
    method
        "bilinear" interpolates between centres: for fields that vary smoothly, and towards finer grids. "conservative"
        averages over the area that cells share on the sphere: it keeps the integral, and is for coarser grids.

    Raises
    ------
    ValueError
        Another method.
    """
    if method == "bilinear":
        return Regridder(_between_rows(lat, new_lat), _between_columns(lon, new_lon))
    if method == "conservative":
        # On the sphere the area between two parallels goes with the difference of their sines.
        rows = _shared(np.sin(np.radians(latitude_edges(lat))), np.sin(np.radians(latitude_edges(new_lat))))
        old, new = longitude_edges(lon), longitude_edges(new_lon)
        columns = np.sum([_shared(old + turn, new) for turn in (-360.0, 0.0, 360.0)], axis=0)
        return Regridder(rows, columns)
    raise ValueError(f"regrid is {method!r}; choose one of {', '.join(METHODS)}")


def _shared(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Share of each new cell that lies in each old one."""
    low = np.maximum(old[None, :-1], new[:-1, None])
    high = np.minimum(old[None, 1:], new[1:, None])
    return np.maximum(high - low, 0.0) / np.diff(new)[:, None]


def _between_rows(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Linear weights; up to the outermost rows' own edges their value holds."""
    edges = latitude_edges(old)
    inside = (new >= edges[0]) & (new <= edges[-1])
    return np.where(inside[:, None], _linear(old, np.clip(new, old[0], old[-1])), 0.0)


def _between_columns(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Linear weights around the circle, or within a region."""
    # Counted from the first column on, so that a region that crosses 360 needs no special care.
    start = old[0]
    along = np.mod(new - start, 360.0)
    if wraps(old):
        weights = _linear(np.append(old - start, 360.0), along)
        weights[:, 0] += weights[:, -1]
        return weights[:, :-1]
    edges = longitude_edges(old) - start
    # Half a cell west of the first column counts as -0.5, not as nearly 360.
    along = np.where(along > edges[-1], along - 360.0, along)
    inside = (along >= edges[0]) & (along <= edges[-1])
    return np.where(inside[:, None], _linear(old - start, np.clip(along, 0.0, old[-1] - start)), 0.0)


def _linear(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    right = np.clip(np.searchsorted(old, new, side="left"), 1, len(old) - 1)
    share = (new - old[right - 1]) / (old[right] - old[right - 1])
    weights = np.zeros((len(new), len(old)))
    each = np.arange(len(new))
    weights[each, right - 1] = 1.0 - share
    weights[each, right] = share
    return weights
