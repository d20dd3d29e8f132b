"""Detections are written snapshot by snapshot while the next ones are made."""

import threading

import dask.array as da
import numpy as np
import xarray as xr

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
