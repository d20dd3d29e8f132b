"""What several tests of the atmosphere start from."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import ndimage


def _snapshot(**changes) -> xr.Dataset:
    """One plausible snapshot on a small grid, with changes to it."""
    rng = np.random.default_rng(0)
    dims = ("time", "lat", "lon")
    variables = {
        "TMQ": (dims, 10 + 40 * rng.random((1, 6, 8)), {"units": "kg m-2"}),
        "PSL": (dims, 98000 + 5000 * rng.random((1, 6, 8)), {"units": "Pa"}),
        "PRECT": (dims, 1e-6 * rng.random((1, 6, 8)), {"units": "m/s"}),
    }
    coordinates = {
        "time": ("time", [np.datetime64("2001-01-01", "ns")]),
        "lat": ("lat", np.linspace(-75, 75, 6), {"units": "degrees_north"}),
        "lon": ("lon", np.arange(0, 360, 45.0), {"units": "degrees_east"}),
    }
    return xr.Dataset(variables, coordinates).assign(changes)


def _weather(seed=0, times=4, shape=(45, 90), calendar="standard"):
    """A random mask whose blobs drift, with fields, on a grid around the Earth."""
    rng = np.random.default_rng(seed)
    lat = -90 + (np.arange(shape[0]) + 0.5) * 180 / shape[0]
    lon = np.arange(shape[1]) * 360 / shape[1]
    noise = np.pad(rng.normal(size=(times, *shape)), ((0, 0), (0, 0), (8, 8)), mode="wrap")
    smooth = ndimage.gaussian_filter(noise, 1.5)[..., 8:-8]
    mask = np.where(smooth > np.quantile(smooth, 0.93), 2, 0) + np.where(smooth < np.quantile(smooth, 0.03), 1, 0)
    dates = xr.date_range("2001-02-26", periods=times, freq="6h", calendar=calendar, use_cftime=calendar != "standard")
    coords = {"time": dates, "lat": lat, "lon": lon}
    dims = ("time", "lat", "lon")
    scaled = (smooth / np.abs(smooth).max()).astype(np.float32)
    fields = xr.Dataset(
        {
            "PSL": (dims, 101325 + 3000 * scaled),
            "UBOT": (dims, 30 * scaled),
            "VBOT": (dims, 20 * scaled),
            "IVT": (dims, 400 + 500 * scaled),
        },
        coords,
    )
    return xr.DataArray(mask.astype(np.int8), coords, dims, name="mask"), fields


@pytest.fixture(scope="session")
def snapshot() -> Callable[..., xr.Dataset]:
    """Make one plausible snapshot on a small grid, with changes to it."""
    return _snapshot


@pytest.fixture(scope="session")
def weather() -> Callable[..., Any]:
    """Make a random mask whose blobs drift, with fields, on a grid around the Earth."""
    return _weather
