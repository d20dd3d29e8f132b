import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import xarray as xr

from climlab_dl import netcdf

# A training reads ahead in a thread while this one does all else that is done with NetCDF; compressed, lest h5py do it.
_THREADS = """
import sys, threading
from pathlib import Path
from climlab_dl import archive, events, synthetic
from climlab_dl.climate.formats.opening import datasets
from climlab_dl.training.folder import RunFolder

out = Path(sys.argv[1])
loaded = synthetic.atmosphere(times=2, seed=1)
names = ["TMQ", "U850", "V850", "mask"]
archive.save(loaded, out / "a.nc")
table = events.find(loaded["mask"], loaded)
seen = loaded[["mask"]].isel(time=0, drop=True)
done = threading.Event()
sys.setswitchinterval(1e-4)
failed = []


def read():
    (there,) = datasets(out / "a.nc", "hdf5")  # as an archive does
    while not done.is_set():
        failed.extend(name for name in names if not (there[name][0].values == loaded[name][0].values).all())


def look():
    while not done.is_set():
        datasets(out / "a.nc", "hdf5")


ahead = [threading.Thread(target=work) for work in (read, look)]
for thread in ahead:
    thread.start()
folder = RunFolder(out)
try:
    for number in range(40):
        datasets(out / "a.nc", "hdf5")
        folder.write_held_out(seen)
        assert folder.held_out().equals(seen)
        if number % 20 == 0:
            archive.save(archive.open(out / "a.nc")[names].isel(time=[0]), out / "b.nc")
            events.read_tracks(events.to_netcdf(table, out / "tracks.nc"))
finally:
    done.set()
    for thread in ahead:
        thread.join()
print("alive", failed)
"""


def test_a_thread_reads_while_another_opens_and_writes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _THREADS, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "alive []\n"), ended.stderr


def test_what_xarray_opened_with_its_own_lock_can_be_written(tmp_path: Path) -> None:
    there = xr.Dataset({"a": ("x", np.arange(3.0))}, {"name": ("x", ["one", "two", "three"])}, {"title": "numbers"})
    netcdf.write(there, tmp_path / "a.nc", unlimited=["x"])
    for number, chunks in enumerate((None, {})):
        with xr.open_dataset(tmp_path / "a.nc", engine="netcdf4", cache=False, chunks=chunks) as lazy:
            netcdf.write(lazy, tmp_path / f"{number}.nc", encoding={"a": {"zlib": True}})
        with netcdf.opened(tmp_path / f"{number}.nc") as found:
            assert found.load().identical(there)
            assert found["a"].encoding["zlib"]


def test_the_lock_is_one_in_each_process() -> None:
    assert pickle.loads(pickle.dumps(netcdf.LOCK)) is netcdf.LOCK


def test_who_holds_the_lock_may_take_it_again_and_xarray_waits() -> None:
    with netcdf.LOCK, netcdf.LOCK:
        assert not netcdf.NETCDF4_PYTHON_LOCK.acquire(blocking=False)
    assert netcdf.NETCDF4_PYTHON_LOCK.acquire(blocking=False)
    try:
        assert not netcdf.LOCK.acquire(blocking=False)  # and has not kept a part of itself
    finally:
        netcdf.NETCDF4_PYTHON_LOCK.release()
    assert netcdf.LOCK.acquire(blocking=False)
    netcdf.LOCK.release()
