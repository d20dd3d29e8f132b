"""What an archive is refused for, or read otherwise, before anything is learnt from it."""

import re
from collections.abc import Callable
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from climlab_dl.climate import archive, synthetic
from climlab_dl.climate.fields import CAM5, UNLABELLED
from climlab_dl.training.climate_archive import ClimateArchive

CHANNELS = ("TMQ", "V850", "PSL")


@pytest.fixture(scope="module")
def fields() -> xr.Dataset:
    return synthetic.atmosphere(times=6, shape=(16, 32), seed=2)


def swapped(mask: xr.DataArray) -> xr.DataArray:
    """Rivers where background was, and background where rivers were."""
    return (2 - mask).astype(np.int8).assign_attrs(mask.attrs)


def masks(data) -> np.ndarray:
    return np.stack([data.training[1, number][1].numpy() for number in range(len(data.training))])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"held_out": 0.0}, "held_out=0: .*choose a share above 0"),
        ({"held_out": 1.0}, "held_out=1.0: choose a share"),
        ({"channels": "TMQ"}, r"channels='TMQ': give a tuple of names, such as \('TMQ',\)"),
        ({"channels": ("TMQ", "PSL", "TMQ")}, "channels=.*: name each field once"),
        ({"channels": ("TMQ", "mask")}, "channels=.*: leave 'mask' out"),
        ({"warp": nan}, "warp=nan"),
        ({"moisture": inf}, "moisture=inf"),
        ({"memory_gigabytes": nan}, "memory_gigabytes=nan"),
        ({"workers": -1}, "workers=-1: choose a whole number of threads from 0"),
        ({"stage_share": 0.0}, "stage_share=0.0"),
        ({"stage_as": "int8"}, "stage_as='int8'"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(changes, says):
    with pytest.raises(ValueError, match=says):
        ClimateArchive(source="archive.nc", **changes)


def test_an_archive_that_was_labelled_anew_is_not_taken_for_what_is_staged(fields, tmp_path):
    path = archive.save(fields, tmp_path / "archive.nc")
    data = ClimateArchive(source=path, channels=CHANNELS, roll=False, stage_to=str(tmp_path / "disk"))
    np.testing.assert_array_equal(masks(data.prepare(seed=0)), fields["mask"][:4])
    np.testing.assert_array_equal(masks(data.prepare(seed=0)), fields["mask"][:4])
    archive.save(fields.assign(mask=swapped(fields["mask"])), path)
    with pytest.raises(ValueError, match=r"of these data before they changed; delete it, or stage elsewhere"):
        data.prepare(seed=0)


def test_labels_by_another_name_or_within_a_store_are_not_taken_for_those_that_are_staged(fields, tmp_path):
    both = fields.assign(other=swapped(fields["mask"]))
    path = tmp_path / "both.nc"
    both.drop_encoding().to_netcdf(path)
    data = ClimateArchive(
        source=path, channels=CHANNELS, stage_to=str(tmp_path / "disk"), names={"mask": "mask", "other": None}
    )
    data.prepare(seed=0)
    with pytest.raises(ValueError, match="holds staged samples of other data"):
        ClimateArchive(
            source=path, channels=CHANNELS, stage_to=str(tmp_path / "disk"), names={"mask": None, "other": "mask"}
        ).prepare(seed=0)
    store = archive.save(fields, tmp_path / "archive.zarr")
    data = ClimateArchive(source=store, channels=CHANNELS, stage_to=str(tmp_path / "other disk"))
    data.prepare(seed=0)
    # In place, chunk by chunk: the metadata, by which a store is told, stay as they are.
    anew = swapped(fields["mask"]).drop_vars(("lat", "lon", "time")).to_dataset(name="mask")
    anew.to_zarr(store, region={"time": slice(0, 6)}, consolidated=False)
    with pytest.raises(ValueError, match="holds staged samples of other data"):
        data.prepare(seed=0)


@pytest.mark.parametrize("memory_gigabytes", [0.0, 1.0])
@pytest.mark.parametrize(("part", "says"), [(slice(0, 4), "trained on"), (slice(4, 6), "held out")])
def test_a_part_that_nobody_labelled_is_refused(fields, tmp_path, part, says, memory_gigabytes):
    bare = fields.copy(deep=True)
    bare["mask"][part] = UNLABELLED
    path = archive.save(bare, tmp_path / "bare.nc")
    with pytest.raises(ValueError, match=rf"nobody has labelled a pixel of .*bare\.nc that are {says}.*; label them"):
        ClimateArchive(source=path, channels=CHANNELS, memory_gigabytes=memory_gigabytes).prepare(seed=0)


@pytest.fixture
def saved(fields, tmp_path) -> Callable[..., Path]:
    """``saved(lon=...)`` saves a part of the grid."""
    return lambda **part: archive.save(fields.isel(part), tmp_path / "region.nc")


def test_the_snapshots_of_a_region_are_not_rolled_and_the_log_says_so(saved, caplog):
    data = ClimateArchive(source=saved(lon=slice(0, 16)), channels=CHANNELS).prepare(seed=0)
    for epoch in (1, 2, 3):
        assert all(torch.equal(a, b) for a, b in zip(data.training[epoch, 1][:2], data.training[9, 1][:2], strict=True))
    assert caplog.text.count("longitudes 0..168.75 are those of a region: snapshots are not rolled") == 1
    caplog.clear()
    ClimateArchive(source=saved(lat=slice(8, 16)), channels=CHANNELS).prepare(seed=0)  # closes the circle
    assert "region" not in caplog.text


def test_half_the_earth_is_not_mirrored_and_the_log_says_so(saved, caplog):
    north = saved(lat=slice(8, 16))
    data = ClimateArchive(source=north, channels=CHANNELS, mirror=True, roll=False).prepare(seed=0)
    assert len({float(data.training[epoch, 1][0][0, 0, 0]) for epoch in range(1, 9)}) == 1
    assert re.search(r"latitudes 5\.\d+\.\.84\.\d+ are not those of both hemispheres: none is mirrored", caplog.text)


def test_what_a_region_has_no_place_for_is_refused(saved):
    north = saved(lat=slice(8, 16))
    with pytest.raises(ValueError, match=r"^moisture=0\.1: "):
        ClimateArchive(source=north, channels=CAM5, warp=1.0, moisture=0.1).prepare(seed=0)
    half = saved(lon=slice(0, 16))
    with pytest.raises(ValueError, match=r"^warp=1\.0 and moisture=0\.1: .*longitudes 0\.\.168\.75"):
        ClimateArchive(source=half, channels=CAM5, mirror=True, warp=1.0, moisture=0.1).prepare(seed=0)


def test_hemispheres_that_differ_by_a_row_can_be_mirrored(saved):
    # A row was cut off, as is done where a grid with both poles is to be divisible.
    data = ClimateArchive(source=saved(lat=slice(0, 15)), channels=CHANNELS, mirror=True, roll=False).prepare(seed=0)
    assert len({float(data.training[epoch, 1][0][0, 0, 0]) for epoch in range(1, 9)}) == 2
