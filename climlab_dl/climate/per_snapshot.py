"""A function of one snapshot over a whole archive: lazily, one at a time, and what tells snapshots apart."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from climlab_dl.climate.mesh import Mesh, mesh_of


def keys(fields: xr.Dataset) -> dict[str, np.ndarray]:
    """Return what tells snapshots apart: their run, where times may repeat between runs, and their time."""
    runs = {"run": fields["run"].values} if "run" in fields.coords and fields["run"].dims == ("time",) else {}
    one = np.arange(fields.sizes.get("time", 1))
    return {**runs, "time": np.atleast_1d(fields["time"].values) if "time" in fields.coords else one}


def refuse_more_than_time(fields: xr.Dataset) -> None:
    """Raise ValueError where snapshots have a dimension besides time, by which centres could not be told apart."""
    if more := set(fields.dims) - {"time", "lat", "lon"}:
        name = sorted(map(str, more))[0]
        raise ValueError(f"centres are told apart by time, and there is {name!r} too; take fields.isel({name}=0)")


def mesh_for(fields: xr.Dataset, wrap: bool) -> Mesh:
    """Return the mesh of the fields' axes; ValueError where they have none of their own."""
    for axis in ("lat", "lon"):
        if axis not in fields.coords or fields[axis].dims != (axis,):
            raise ValueError(
                f"the fields have no axis {axis!r} of their own (they have {dict(fields.sizes)}); "
                "open them with archive.open"
            )
    return mesh_of(fields["lat"].values, fields["lon"].values, wrap)


def by_snapshot(
    function: Callable[[dict[str, np.ndarray], int], np.ndarray],
    fields: xr.Dataset,
    names: Sequence[str],
    dtype: type,
) -> xr.DataArray:
    """Apply a function of a snapshot and its number to all, one at a time, each as lazily as the fields are."""

    def block(number: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
        out = np.empty(arrays[0].shape, dtype=dtype)
        for place in np.ndindex(arrays[0].shape[:-2]):
            snapshot = {name: array[place] for name, array in zip(names, arrays, strict=True)}
            out[place] = function(snapshot, int(number[place]))
        return out

    fields = fields[list(names)]
    if fields.chunks:
        fields = fields.chunk(lat=-1, lon=-1).unify_chunks()  # a snapshot is looked at as a whole
    one = fields[names[0]]
    sizes = {dim: size for dim, size in one.sizes.items() if dim not in ("lat", "lon")}
    shape = tuple(sizes.values())
    number = xr.DataArray(np.arange(np.prod(shape, dtype=int)).reshape(shape), dims=tuple(sizes))
    if fields.chunks:
        number = number.chunk({dim: fields.chunksizes[dim] for dim in sizes})
    return xr.apply_ufunc(
        block,
        number,
        *(fields[name] for name in names),
        input_core_dims=[[], *[["lat", "lon"]] * len(names)],
        output_core_dims=[["lat", "lon"]],
        dask="parallelized",
        output_dtypes=[dtype],
    )
