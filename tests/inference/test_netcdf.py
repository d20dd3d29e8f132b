"""Detections are written snapshot by snapshot while the next ones are made."""

import threading

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.local import get_sync

from climlab_dl import archive
from climlab_dl.climate.fields import CLASSES
from climlab_dl.climate.labels import DETECTED, MASK_ATTRIBUTES
from climlab_dl.inference import netcdf


def test_the_next_snapshot_is_computed_and_the_one_after_read_while_one_is_written(tmp_path):
    began = [threading.Event() for _ in range(4)]
    met = []

    def look(block, block_info):
        step = block_info[None]["chunk-location"][0]
        began[step].set()
        if step == 1:  # goes on only once the other thread is at the snapshot after it
            met.append(began[2].wait(20))
        return block

    def written(share):
        met.append(began[1].wait(20))  # after the first, too, another is under way already

    mask = da.zeros((4, 3, 5), chunks=(1, 3, 5), dtype=np.int8).map_blocks(look, meta=np.empty((0, 0, 0), np.int8))
    attributes = {"flag_values": np.arange(3, dtype=np.int8), "flag_meanings": "background cyclone river"}
    found = xr.Dataset({"mask": (("time", "lat", "lon"), mask, attributes)}, {"time": range(4)})
    netcdf.write(found, tmp_path / "a.nc", progress=written)
    assert len(met) == 5
    assert all(met)
    with xr.open_dataset(tmp_path / "a.nc") as there:
        assert there.sizes == {"time": 4, "lat": 3, "lon": 5}


def test_for_each_snapshot_its_own_tasks_alone_are_looked_at(tmp_path, monkeypatch):
    sizes = []

    def counted(graph, keys):
        sizes.append(len(graph))
        return get_sync(graph, keys)

    monkeypatch.setattr(netcdf, "get_sync", counted)
    mask = da.zeros((30, 4, 6), chunks=(1, 4, 6), dtype=np.int8) + 1
    turned = da.concatenate([mask[..., 2:], mask[..., :2]], axis=2)  # as where longitudes begin at -180
    netcdf.write(xr.Dataset({"mask": (("time", "lat", "lon"), turned, MASK_ATTRIBUTES)}), tmp_path / "a.nc")
    assert len(sizes) == 30
    assert max(sizes) < 10
    with xr.open_dataset(tmp_path / "a.nc") as there:
        assert (there["mask"] == 1).all()


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_written_opens_as_an_archive_with_probabilities_and_uncertainties(tmp_path, packed):
    random = np.random.default_rng(0)
    chances = random.dirichlet([3, 1, 1], size=(4, 6, 8)).transpose(0, 3, 1, 2).astype(np.float32)
    chances[3, :, 0, 0] = np.nan
    dims = ("time", "lat", "lon")
    entropy = -(chances * np.log(chances)).sum(1)
    found = xr.Dataset(
        {
            "probabilities": (("time", "class", "lat", "lon"), chances, DETECTED["probabilities"]),
            "mask": (dims, np.nan_to_num(chances).argmax(1).astype(np.int8), MASK_ATTRIBUTES),
            "entropy": (dims, entropy, DETECTED["entropy"]),
            "mutual_information": (dims, 0.1 * entropy, DETECTED["mutual_information"]),
        },
        {
            "time": ("time", np.arange("2001-01-01", "2001-01-05", dtype="datetime64[D]").astype("datetime64[ns]")),
            "lat": ("lat", np.linspace(75, -75, 6), {"units": "degrees_north"}),
            "lon": ("lon", np.arange(0, 360, 45.0), {"units": "degrees_east"}),
            "class": list(CLASSES),
        },
    )
    for part in (slice(0, 2), slice(2, 4)):
        netcdf.write(found.isel(time=part), tmp_path / f"{part.start}.nc", packed=packed)
    opened = archive.open(tmp_path)
    assert list(opened) == ["mask", *DETECTED]
    assert opened["class"].values.tolist() == list(CLASSES)
    assert opened.probabilities.dims == ("time", "class", "lat", "lon")
    # A step of what is packed is a 254th of the largest value, so that half of it is lost at most.
    lost = 0.5 / 254 if packed else 0
    ours = found.isel(lat=slice(None, None, -1))
    for name, most in (("probabilities", 1), ("entropy", np.log(3)), ("mutual_information", np.log(3))):
        assert opened[name].dtype == np.float32
        assert opened[name].attrs == DETECTED[name]
        np.testing.assert_allclose(opened[name].values, ours[name].values, rtol=0, atol=1.001 * lost * most)
    # Both files are read alike, so that the archive is read straight from them.
    assert set(opened.encoding["stacks"]) == set(opened)
    # And it is written and read again as any other.
    xr.testing.assert_equal(archive.open(archive.save(opened, tmp_path / "again.zarr")), opened.load())


def test_a_field_of_the_same_name_and_another_unit_is_none_of_ours(tmp_path):
    dims, coords = ("time", "lat", "lon"), {"lat": np.linspace(-75, 75, 6), "lon": np.arange(0, 360, 45.0)}
    fields = xr.Dataset({"TMQ": (dims, np.full((1, 6, 8), 20.0)), "entropy": (dims, np.ones((1, 6, 8)))}, coords)
    fields.TMQ.attrs["units"], fields.entropy.attrs["units"] = "kg m-2", "J kg-1 K-1"
    fields.assign_coords(time=[np.datetime64("2001-01-01", "ns")]).to_netcdf(tmp_path / "a.nc")
    opened = archive.open(tmp_path / "a.nc")
    assert list(opened) == ["TMQ"]
    assert opened.attrs["unrecognised"] == "entropy"
