"""Files to read and a network to look with: as large as the published ones, made on the spot and seeded."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr

from climlab_dl import netcdf
from climlab_dl.climate import archive, synthetic
from climlab_dl.climate.fields import CAM5, CLASSES
from climlab_dl.cosmology import tfrecord
from climlab_dl.cosmology.cube import Volume
from climlab_dl.training import checkpoint
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.run import Run


def snapshots(folder: Path, shape: tuple[int, int], layout: str) -> list[Path]:
    """Write two synthetic snapshots with masks, a file each.

    Parameters
    ----------
    folder
        Where.
    shape
        Rows and columns.
    layout
        ``"deepcam"`` (HDF5, channels of a pixel together), ``"climatenet"``, or ``"netcdf"``: CF, not compressed.
    """
    fields = _atmosphere(*shape)
    if layout != "netcdf":
        archive.save(fields, folder, layout=layout)  # pyright: ignore[reportArgumentType]
        return sorted(folder.glob("data-*"))
    folder.mkdir(parents=True)
    files = [folder / f"{number}.nc" for number in range(2)]
    for number, file in enumerate(files):
        netcdf.write(fields.isel(time=[number]).drop_encoding(), file)
    return files


def universes(folder: Path, side: int, *, compressed: bool, count: int = 2) -> list[Path]:
    """Write volumes of four redshifts as MLPerf's TFRecords, a file each.

    As in the published ones a voxel holds a particle on average, more than half of them none, and gzip leaves a sixth.
    """
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    files = []
    for number in range(count):
        density = np.exp(random.normal(-1.1, 1.5, (side,) * 3))
        counts = np.stack([random.poisson(density) for _ in range(4)], axis=-1).astype(np.int16)
        volume = Volume(counts=counts, source=folder, unit=random.uniform(-1, 1, 4))
        files.append(tfrecord.write([volume], folder / f"universe_{number}.tfrecord", compressed=compressed))
    return files


def _atmosphere(rows: int, columns: int) -> xr.Dataset:
    """Two snapshots; fine ones repeat the cells of coarse ones, which are made in a tenth of the time."""
    finer = 4 if rows % 4 == 0 and rows >= 192 else 1
    coarse = synthetic.atmosphere(times=2, shape=(rows // finer, columns // finer), seed=0)
    fields = coarse.isel(lat=np.arange(rows) // finer, lon=np.arange(columns) // finer)
    return fields.assign_coords(
        lat=("lat", (np.arange(rows) + 0.5) * 180 / rows - 90, coarse.lat.attrs),
        lon=("lon", np.arange(columns) * 360 / columns, coarse.lon.attrs),
    )


def network(path: Path, description: Any) -> Path:
    """Write a checkpoint of a network for masks with random weights, with the sample archive's statistics."""
    torch.manual_seed(0)
    run = Run(data=ClimateArchive(source="sample"), model=description, loss=WeightedCrossEntropy(), steps=1)
    snapshot: xr.Dataset = archive.open(archive.sample()).isel(time=0).load()
    channels = [snapshot[name] for name in CAM5]
    facts = {
        "channels": list(CAM5),
        "classes": list(CLASSES),
        "mean": torch.tensor([float(channel.mean()) for channel in channels]),
        "std": torch.tensor([float(channel.std()) for channel in channels]),
    }
    model = run.model.build(len(CAM5), len(CLASSES))
    checkpoint.save(path, {"run": run.to_json(), "model": model.state_dict(), "statistics": facts, "step": 0})
    return path
