"""A small labelled archive to write in every format."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive
from climlab_dl.climate.fields import CYCLONE, RIVER
from climlab_dl.climate.labels import MASK_ATTRIBUTES


@pytest.fixture
def fields(sample: Path) -> xr.Dataset:
    """Four snapshots of every eighth row and column of the sample archive's grid, 12 x 24, with a mask; in memory."""
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc").isel(time=slice(4))
    fields = fields.isel(lat=slice(None, None, 8), lon=slice(None, None, 8)).compute(scheduler="synchronous")
    mask = np.where(fields.TMQ > 40, RIVER, 0) + np.where(fields.PSL < 98000, CYCLONE, 0)
    mask = np.minimum(mask, RIVER).astype(np.int8)
    return fields.assign(mask=(fields.TMQ.dims, mask, MASK_ATTRIBUTES))
