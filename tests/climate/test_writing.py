"""Back to files: nothing is lost, nothing is half, masks stay integers."""

import concurrent.futures
import multiprocessing
import subprocess
import sys
import threading
import time
from operator import methodcaller

import netCDF4
import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive
from climlab_dl.climate.fields import RIVER, UNLABELLED
from climlab_dl.climate.labels import MASK_ATTRIBUTES


@pytest.fixture
def fields(sample) -> xr.Dataset:
    """Four labelled snapshots of three fields, lazy, with a patch without numbers."""
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc")[["TMQ", "U850", "PSL"]].isel(time=slice(4))
    fields = fields.assign(TMQ=fields.TMQ.where(fields.lat < 80))
    mask = (fields.TMQ > 40).astype(np.int8) * np.int8(RIVER)
    mask.attrs = dict(MASK_ATTRIBUTES)
    return fields.assign(mask=mask)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_a_round_trip_is_the_identity(fields, tmp_path, name):
    again = archive.open(archive.save(fields, tmp_path / name))
    xr.testing.assert_identical(again.drop_attrs(deep=False), fields.drop_attrs(deep=False))
    assert again.mask.dtype == np.int8
    # A second save writes over the first, from data that are read from it; what was opened before is not its content.
    anew = archive.open(archive.save(again, tmp_path / name))
    xr.testing.assert_identical(anew.drop_attrs(deep=False), fields.drop_attrs(deep=False))
    with pytest.raises(OSError, match="open the archive again"):
        again.TMQ.load()


def test_packing_keeps_a_65000th_of_the_range_and_the_mask_exactly(fields, tmp_path):
    again = archive.open(archive.save(fields, tmp_path / "a.nc", packed=True))
    for name in ("TMQ", "U850", "PSL"):
        span = float(fields[name].max() - fields[name].min())
        assert float(np.abs(again[name] - fields[name]).max()) <= 0.51 * span / 65534 + 1e-6 * span
        np.testing.assert_array_equal(np.isnan(again[name]), np.isnan(fields[name]))
    xr.testing.assert_identical(again.mask, fields.mask)
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file["TMQ"].dtype == np.int16
        assert file["TMQ"].chunking() == [1, 96, 192]


@pytest.mark.parametrize("constant", [0.0, np.nan])
def test_packing_survives_a_field_of_one_number_or_none(fields, tmp_path, constant):
    flat = fields[["TMQ"]].compute() * 0 + constant
    archive.save(flat, tmp_path / "a.nc", packed=True)
    with xr.open_dataset(tmp_path / "a.nc") as again:
        np.testing.assert_allclose(again.TMQ, flat.TMQ, atol=1e-6)


def test_the_file_is_cf(fields, tmp_path):
    archive.save(fields, tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as file:
        assert file.Conventions == "CF-1.11"
        assert "archive.save" in file.history
        assert file["mask"].dtype == np.int8
        assert "_FillValue" not in file["mask"].ncattrs()
        # flag_values have the type of the variable (CF 3.5), and a meaning each.
        assert file["mask"].flag_values.dtype == np.int8
        assert file["mask"].flag_values.tolist() == [0, 1, 2]
        assert file["mask"].flag_meanings == "background cyclone river"
        # No coordinate has a fill value (CF 2.5.1); every one says what it is.
        for name, standard in (("time", "time"), ("lat", "latitude"), ("lon", "longitude")):
            assert "_FillValue" not in file[name].ncattrs()
            assert file[name].standard_name == standard
        assert file["PSL"].units == "Pa"
        assert not [name for name in file["lon"].ncattrs() + file["lat"].ncattrs() if name.startswith("came_")]


def test_an_integer_mask_with_a_fill_value_comes_back_as_integers(fields, tmp_path):
    # pydata/xarray#1576, #6055: a reader makes floats of integers that declare a fill value.
    mask = fields.mask.compute().astype(np.int16)
    mask[:, 0] = -999
    fields.assign(mask=mask).to_netcdf(tmp_path / "a.nc", encoding={"mask": {"_FillValue": -999}})
    found = archive.open(tmp_path / "a.nc").mask
    assert found.dtype == np.int8
    assert (found[:, 0] == UNLABELLED).all()
    np.testing.assert_array_equal(found[:, 1:], mask[:, 1:])
    again = archive.open(archive.save(archive.open(tmp_path / "a.nc"), tmp_path / "b.nc")).mask
    assert again.dtype == np.int8
    np.testing.assert_array_equal(again, found)


def test_an_archive_is_exported_over_the_file_that_it_is_read_from(fields, tmp_path):
    # pydata/xarray#10679, #2376: overwriting an open file corrupts it; here it is replaced when it is complete.
    path = archive.save(fields, tmp_path / "a.nc")
    opened = archive.open(path)
    before = opened.TMQ.compute()
    archive.save(opened.assign(TMQ=opened.TMQ * 0.5), path)
    xr.testing.assert_allclose(archive.open(path).TMQ, before * 0.5)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.nc"]


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_a_failure_leaves_the_old_file_and_nothing_else(fields, tmp_path, name):
    archive.save(fields, tmp_path / name)

    def fail(block):
        raise OSError("the disk is gone")

    broken = fields.assign(
        TMQ=fields.TMQ.copy(data=fields.TMQ.data.map_blocks(fail, dtype=np.float32, meta=fields.TMQ.data._meta))
    )
    with pytest.raises(OSError, match="the disk is gone"):
        archive.save(broken, tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    xr.testing.assert_equal(archive.open(tmp_path / name), fields)


@pytest.mark.parametrize("name", ["a.nc", "a.zarr"])
def test_after_a_failure_no_thread_goes_on_writing(fields, tmp_path, name):
    late, finished = threading.Event(), threading.Event()

    def spoilt(snapshot, block_info):
        if block_info[None]["chunk-location"][0] == 0:
            assert late.wait(20)
            raise ValueError("spoilt")
        late.set()
        time.sleep(0.3)
        finished.set()
        return snapshot

    two = fields[["PSL"]].isel(time=[0, 1]).chunk(time=1)
    two["PSL"] = two.PSL.copy(data=two.PSL.data.map_blocks(spoilt, meta=np.empty((0, 0, 0), np.float32)))
    with pytest.raises(ValueError, match="spoilt"):
        archive.save(two, tmp_path / name)
    assert finished.is_set()
    assert list(tmp_path.iterdir()) == []


def test_another_ending_is_refused(fields, tmp_path):
    with pytest.raises(ValueError, match=r"ends in '\.hdf'; expected \.nc or \.zarr\. .*layout='deepcam'"):
        archive.save(fields, tmp_path / "a.hdf")


@pytest.mark.parametrize("method", [pytest.param("spawn", marks=pytest.mark.slow), "fork"])
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")  # from Python 3.12 on, where threads exist
def test_workers_read_the_same_numbers(fields, tmp_path, method):
    # pytorch/pytorch#11887, #11929: a file handle that workers share gives wrong data; here each opens its own.
    archive.save(fields, tmp_path / "a.nc")
    archive.save(fields.drop_vars("mask"), tmp_path / "hdf", layout="deepcam")
    opened = [archive.open(source) for source in (tmp_path / "a.nc", tmp_path / "hdf")]
    here = [one.compute(scheduler="synchronous") for one in opened]  # leaves handles open, which a fork inherits
    snapshots = [one.isel(time=[i]) for one in opened for i in range(4)]
    context = multiprocessing.get_context(method)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as workers:
        there = list(workers.map(methodcaller("compute", scheduler="synchronous"), snapshots * 3))
    for start in range(0, len(there), 8):
        xr.testing.assert_identical(xr.concat(there[start : start + 4], "time"), here[0])
        xr.testing.assert_identical(xr.concat(there[start + 4 : start + 8], "time"), here[1])


BOUNDED = """
import resource, sys
from dask.local import get_sync
from climlab_dl import archive
archive.open(sys.argv[1] + "/00.nc").compute(scheduler=get_sync)  # what is loaded once is loaded
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 128 * 2**20, resource.RLIM_INFINITY))
fields = archive.open(sys.argv[1])
print(fields.nbytes // 2**20, archive.check(sys.argv[1]).ok)
archive.save(fields.isel(time=slice(20)), sys.argv[1] + "/out", layout="deepcam")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited and read from /proc as on Linux")
def test_fifty_files_are_checked_and_converted_in_the_memory_of_a_few_snapshots(tmp_path):
    # pydata/xarray#9188, #1561, ClimateGlobalChange/tempestextremes PR 109: opening many files ran out of memory.
    # 50 files x 2 snapshots x 2 fields x 360 x 720 float32 = 198 MiB, in 128 MiB beside the interpreter.
    coordinates = {
        "lat": ("lat", np.linspace(-90, 90, 360), {"units": "degrees_north"}),
        "lon": ("lon", np.arange(0, 360, 0.5), {"units": "degrees_east"}),
    }
    block = np.full((2, 360, 720), 20.0, np.float32)
    for i in range(50):
        time = np.datetime64("2001-01-01", "ns") + np.array([2 * i, 2 * i + 1]) * np.timedelta64(6, "h")
        dims = ("time", "lat", "lon")
        variables = {"TMQ": (dims, block, {"units": "kg m-2"}), "PSL": (dims, block + 1e5, {"units": "Pa"})}
        packing = {name: {"zlib": True, "complevel": 1, "chunksizes": (1, 360, 720)} for name in variables}
        xr.Dataset(variables, {"time": time, **coordinates}).to_netcdf(tmp_path / f"{i:02d}.nc", encoding=packing)
    command = [sys.executable, "-c", BOUNDED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["197", "True"]
    assert len(list((tmp_path / "out").glob("data-*.h5"))) == 20


def test_a_mask_keeps_which_classes_were_looked_for(fields, tmp_path):
    sought = {"flag_values": np.array([0, RIVER], np.int8), "flag_meanings": "background river"}
    archive.save(fields.assign(mask=fields.mask.assign_attrs(sought)), tmp_path / "rivers.nc")
    assert archive.open(tmp_path / "rivers.nc").mask.attrs["flag_meanings"] == "background river"
    # Files of one archive together may hold what any of them may; what is named otherwise says nothing of our classes.
    later = fields.assign_coords(time=fields.time + np.timedelta64(30, "D"))
    archive.save(later, tmp_path / "both.nc")
    assert archive.open(str(tmp_path / "*.nc")).mask.attrs["flag_meanings"] == "background cyclone river"
    theirs = fields.mask.assign_attrs(flag_values=np.array([0, 2], np.int8), flag_meanings="land sea")
    fields.assign(mask=theirs).to_netcdf(tmp_path / "theirs.nc")
    assert archive.open(tmp_path / "theirs.nc").mask.attrs["flag_meanings"] == "background cyclone river"
