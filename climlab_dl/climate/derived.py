"""Fields that follow from others: integrals over levels, and vorticity, divergence and speed of a wind."""

from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np
import xarray as xr

from climlab_dl.climate.contrasts import CONTRASTS
from climlab_dl.climate.extrema import least_rise_everywhere
from climlab_dl.climate.fields import FAMILIES, FIELDS, GRAVITY, missing
from climlab_dl.climate.labels import DETECTED, LABELS, MASK
from climlab_dl.climate.mesh import Mesh, mesh_of

DAMPING = 19.0
"""Standard deviation in degrees of the Gaussian that damps water vapour towards the equator (Kurth et al. 2018)."""

TRANSPORT_TOP = 200.0
"""Pressure in hPa above which water vapour transport is not counted, as in most river catalogues."""


def vorticity(u: xr.DataArray, v: xr.DataArray) -> xr.DataArray:
    """Relative vorticity in 1/s of a wind on the sphere: (d v / d lon - d (u cos lat) / d lat) / (a cos lat).

    The columns close round the globe where the grid does, rows never do; the order of latitude does not matter.

    Parameters
    ----------
    u, v : DataArray
        Eastward and northward wind (..., lat, lon) in m/s.
    """
    return _on_sphere(Mesh.vorticity, u, v)


def divergence(u: xr.DataArray, v: xr.DataArray) -> xr.DataArray:
    """Divergence in 1/s of a wind on the sphere: (d u / d lon + d (v cos lat) / d lat) / (a cos lat).

    Parameters
    ----------
    u, v : DataArray
        Eastward and northward wind (..., lat, lon) in m/s.
    """
    # Turned a quarter to the left, a wind's divergence becomes its vorticity.
    return _on_sphere(lambda mesh, u, v: mesh.vorticity(-v, u), u, v)


def speed(u: xr.DataArray, v: xr.DataArray) -> xr.DataArray:
    """Length of a horizontal vector, in the unit of its components."""
    return xr.apply_ufunc(np.hypot, u, v, dask="allowed")


def column(content: xr.DataArray, surface_pressure: xr.DataArray | None = None) -> xr.DataArray:
    """Integral of a mass fraction over the column: the sum of content dp / g, by the trapezoidal rule.

    Parameters
    ----------
    content : DataArray
        (..., level, lat, lon) with ``level`` in hPa, per kg of air.
    surface_pressure : DataArray, optional
        In Pa. Levels below ground then count nothing, and the lowest level's value holds down to the ground.
    """
    level = content["level"].values
    content = content.isel(level=np.argsort(-level))
    pressure = 100.0 * np.sort(level)[::-1]
    has_surface = surface_pressure is not None
    return xr.apply_ufunc(
        lambda values, *ground: _integral(values, pressure, *ground).astype(np.float32),
        content.astype(np.float32),
        *([surface_pressure] if has_surface else []),
        input_core_dims=[["level", "lat", "lon"], *([["lat", "lon"]] if has_surface else [])],
        output_core_dims=[["lat", "lon"]],
        dask="parallelized",
        output_dtypes=[np.float32],
    )


def complete(fields: xr.Dataset) -> xr.Dataset:
    """Add the water vapour integrals that fields on levels allow, and drop what is on levels.

    TMQ needs Q, the transports TUQ and TVQ need Q, U and V, on at least five levels from 850 hPa or lower to
    300 hPa or higher; IVT needs the transports.
    """
    levels = [name for name in FAMILIES if name in fields]
    ground = fields.get("PS")
    if "Q" in levels and _deep(fields["level"].values):
        if "TMQ" not in fields:
            fields = _with(fields, "TMQ", column(fields["Q"], ground))
        moist = fields["Q"].sel(level=fields["level"] >= TRANSPORT_TOP)
        for transport, wind in (("TUQ", "U"), ("TVQ", "V")):
            if transport not in fields and wind in levels:
                fields = _with(fields, transport, column(moist * fields[wind], ground))
    if "IVT" not in fields and {"TUQ", "TVQ"} <= set(fields):
        fields = _with(fields, "IVT", speed(fields["TUQ"], fields["TVQ"]))
    order = [name for name in (*FIELDS, MASK, LABELS, *DETECTED) if name in fields]
    return fields[order].drop_vars("level", errors="ignore")


def damped(vapour: xr.DataArray) -> xr.DataArray:
    """Total water vapour times 1 - exp(-lat^2 / 2 19^2), in which the moist tropics do not outshine the rivers."""
    return vapour * (1 - np.exp(-0.5 * (vapour["lat"] / DAMPING) ** 2)).astype(np.float32)


def pressure_rise(pressure: xr.DataArray) -> xr.DataArray:
    """Pa by which pressure at least rises within 5 degrees, along that one of eight rays on which it rises least.

    Where it is positive, the cell lies lower than all around it: what the cyclone rules ask of a centre.
    """
    return _on_sphere(partial(_least_rise, sign=1), pressure)


def warm_core(upper: xr.DataArray, lower: xr.DataArray) -> xr.DataArray:
    """K by which the mean of two temperatures at least falls within 5 degrees, likewise."""
    return _on_sphere(partial(_least_rise, sign=-1), (upper + lower) / 2)


def _least_rise(mesh: Mesh, field: np.ndarray, *, sign: int) -> np.ndarray:
    return least_rise_everywhere(sign * field, mesh, 5.0)


def _on_sphere(formula: Callable[..., np.ndarray], *fields: xr.DataArray) -> xr.DataArray:
    """Apply a formula of the mesh and the fields of one snapshot, (lat, lon) each, to all snapshots."""
    mesh = mesh_of(fields[0]["lat"].values, fields[0]["lon"].values)

    def snapshots(*arrays: np.ndarray) -> np.ndarray:
        each = zip(*(array.reshape(-1, *array.shape[-2:]) for array in arrays), strict=True)
        return np.stack([formula(mesh, *one) for one in each]).reshape(arrays[0].shape).astype(np.float32)

    return xr.apply_ufunc(
        snapshots,
        *fields,
        input_core_dims=[["lat", "lon"]] * len(fields),
        output_core_dims=[["lat", "lon"]],
        dask="parallelized",
        output_dtypes=[np.float32],
    )


Formula = Callable[..., xr.DataArray]
_FORMULAS: dict[str, tuple[tuple[str, ...], Formula]] = {
    "VORT850": (("U850", "V850"), vorticity),
    "DIV850": (("U850", "V850"), divergence),
    "WIND850": (("U850", "V850"), speed),
    "WINDBOT": (("UBOT", "VBOT"), speed),
    "IVT": (("TUQ", "TVQ"), speed),
    "TMQDAMPED": (("TMQ",), damped),
    "PSLRISE": (("PSL",), pressure_rise),
    "WARMCORE": (("T200", "T500"), warm_core),
    **{name: ((contrast.of,), contrast) for name, contrast in CONTRASTS.items()},
}


def require(fields: xr.Dataset, names: Sequence[str]) -> xr.Dataset:
    """Give the dataset with these fields in it, computed (lazily) where they follow from what is there.

    Parameters
    ----------
    fields : Dataset
        From `archive.open`.
    names : sequence of str
        Names of `fields.FIELDS`; VORT850, DIV850, WIND850, WINDBOT and IVT can be computed from others, and ABSLAT
        from the grid, for networks that should know how far from the equator they look; TMQDAMPED is TMQ
        (1 - exp(-lat^2 / 2 19^2)), in which the moist tropics do not outshine the rivers; PSLRISE and WARMCORE
        are those of `pressure_rise` and `warm_core`; `contrasts.CONTRASTS` has others that show a network sharply what
        a rule looks at.

    Raises
    ------
    ValueError
        When one is neither there nor follows; with the nearest name that was found in the files.
    """
    known = fields
    for name in names:
        known = _known(known, name)
    return known[[*fields.data_vars, *(name for name in names if name not in fields)]]


def follows(name: str, found: Collection[str]) -> bool:
    """Whether a field is among those found, or can be computed from them and the grid."""
    if name in found or name == "ABSLAT":
        return True
    return name in _FORMULAS and all(follows(one, found) for one in _FORMULAS[name][0])


def _known(fields: xr.Dataset, name: str) -> xr.Dataset:
    """Add a field, and those that it follows from, which others may follow from, too."""
    if name in fields:
        return fields
    if name == "ABSLAT":
        like = next(iter(fields.data_vars.values()))
        distance = abs(fields["lat"]).astype(np.float32).broadcast_like(like)
        return _with(fields, name, distance.chunk(time=1) if "time" in distance.dims else distance)
    sources, formula = _FORMULAS.get(name, ((), None))
    if formula is None or not all(follows(source, set(map(str, fields))) for source in sources):
        found = [*map(str, fields.data_vars), *str(fields.attrs.get("unrecognised", "")).split()]
        hint = f" It can be computed from {' and '.join(sources)}." if sources else ""
        raise ValueError(f"{missing(name, found)}{hint}")
    for source in sources:
        fields = _known(fields, source)
    return _with(fields, name, formula(*(fields[source] for source in sources)))


def _with(fields: xr.Dataset, name: str, values: xr.DataArray) -> xr.Dataset:
    return fields.assign({name: values.drop_vars("level", errors="ignore").assign_attrs(FIELDS[name].attributes)})


def _deep(level: np.ndarray) -> bool:
    return len(level) >= 5 and level.max() >= 850 and level.min() <= 300


def _integral(values: np.ndarray, pressure: np.ndarray, ground: np.ndarray | None = None) -> np.ndarray:
    """Trapezoids from the highest pressure to the lowest; a missing end of a layer takes the other end's value."""
    edges = pressure[:, None, None]
    if ground is not None:
        edges = np.minimum(edges, ground[..., None, :, :])
    with np.errstate(invalid="ignore"):
        below, above = values[..., :-1, :, :], values[..., 1:, :, :]
        means = 0.5 * (np.where(np.isnan(below), above, below) + np.where(np.isnan(above), below, above))
    total = np.sum(np.nan_to_num(means) * (edges[..., :-1, :, :] - edges[..., 1:, :, :]), axis=-3)
    if ground is not None:
        total = total + np.nan_to_num(values[..., 0, :, :]) * np.maximum(ground - pressure[0], 0)
    # A column without a single number is unknown, not empty.
    return np.where(np.isnan(values).all(axis=-3), np.nan, total / GRAVITY)
