"""ClimateNet's NetCDF files (Prabhat et al. 2021), one a snapshot; `cf` reads them, this writes them.

``time`` is text, the file's own name; ``LABELS`` has no time. A run of the model that is not in the name, and a
calendar, go into attributes that ClimateNet's reader does not look at.
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from dask.local import get_sync

from climlab_dl import netcdf
from climlab_dl.climate import times
from climlab_dl.climate.fields import FIELDS
from climlab_dl.climate.labels import LABELS, MASK, labelled
from climlab_dl.files import filled

log = logging.getLogger(__name__)

TARGET = "LABELS"
RUN = "model_run"
"""Global attribute with the number of the run, or -1; without it the name's number is the run."""


def write(fields: xr.Dataset, folder: Path) -> Path:
    """Write a folder of ``data-YYYY-MM-DD-TT-R.nc``."""
    if LABELS in fields:
        log.warning("ClimateNet files have one labelling each; %s is left out, mask is kept", LABELS)
    names = [str(name) for name in fields.data_vars if name in FIELDS]
    if not names:
        raise ValueError(
            f"Found no field to write, only {', '.join(map(str, fields))}; expected some of {', '.join(FIELDS)}."
        )
    stems = times.names(fields)
    with filled(folder) as new:
        for i, name in enumerate(stems):
            _write(fields.isel(time=i).compute(scheduler=get_sync), names, new / f"{name}.nc")
    return folder


def _write(snapshot: xr.Dataset, names: list[str], path: Path) -> None:
    """Write one snapshot, in memory, as a file."""
    variables: dict[str, Any] = {
        field: (
            ("time", "lat", "lon"),
            snapshot[field].values[None].astype(np.float32),
            {"description": FIELDS[field].long_name, "units": FIELDS[field].unit},
        )
        for field in names
    }
    if MASK in snapshot:
        variables[TARGET] = (("lat", "lon"), labelled(snapshot).astype(np.int64), {})
    coordinates = {
        "time": ("time", np.array([path.name], dtype=object), {"calendar": times.calendar(snapshot["time"])}),
        "lat": ("lat", snapshot["lat"].values, {"units": "degrees_north"}),
        "lon": ("lon", snapshot["lon"].values, {"units": "degrees_east"}),
    }
    run = int(snapshot["run"]) if "run" in snapshot.coords else -1
    # Not compressed: half the size, but several times the reading, in every epoch of a training.
    missing: dict[str, Any] = {"_FillValue": np.float32(np.nan)}
    dataset = xr.Dataset(variables, coordinates, {RUN: run})
    netcdf.write(dataset, path, encoding=dict.fromkeys(names, missing))
