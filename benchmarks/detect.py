"""Throughput, memory and restarts of detection over a long archive of 768 x 1152.

    python benchmarks/detect.py                              # 1,000 snapshots by two ranks
    python benchmarks/detect.py --snapshots 100              # a shorter archive
    python benchmarks/detect.py --snapshots 8 --rows 48      # a toy

The weather is that of the sample archive, interpolated to the grid of CAM5 at a quarter of a degree, in one file of ten
snapshots of 57 MB that the archive names again and again, so that it is read from memory: what is measured is what the
pipeline costs, not what the disk does. The network is the small DeepLabv3+ with random weights. Beside every file each
rank lets the bare network (the same weights in the same process, folded, channels together, freed memory kept) look at
two snapshots that are ready in memory; both are timed in CPU seconds of the process, which other work on the machine
disturbs least.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import xarray as xr

from climlab_dl import archive
from climlab_dl.climate.fields import CAM5
from climlab_dl.inference import outputs
from climlab_dl.inference.detector import Detector
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.parallel import ranks
from climlab_dl.parallel.memory import keep_freed
from climlab_dl.performance.archives import network

PIECE = 10
BARE = 2


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--snapshots", type=int, default=1000, help="length of the archive (default 1000)")
    options.add_argument("--rows", type=int, default=768, help="rows of the grid; columns are 3/2 of it (default 768)")
    options.add_argument("--ranks", type=int, default=2, help="of mpiexec (default 2)")
    options.add_argument("--folder", type=Path, help="where the archive is made, to be deleted after (default /tmp)")
    options.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.measure:
        measure(asked.folder)
        return
    print(f"{platform.node()}: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        folder = Path(name)
        weights = network(folder / "weights.pt", DeepLab.small())
        files = write_archive(folder / "archive", asked.snapshots, asked.rows)
        size = files[0].stat().st_size / PIECE / 1e6
        print(f"{asked.snapshots} snapshots of {size:.0f} MB in {len(files)} files, {asked.ranks} ranks of one thread")
        report(on_ranks(asked.ranks, [sys.executable, __file__, "--measure", "--folder", folder], folder))
        verb = [Path(sys.executable).with_name("climlab-dl"), "detect", folder / "archive", "--detector", weights]
        kill_and_repeat([*verb, "--out", folder / "killed"], asked.ranks, folder, len(files))


def write_archive(folder: Path, snapshots: int, rows: int) -> list[Path]:
    """Write ten snapshots of the sample archive on the fine grid, and give the file as many names as it takes."""
    coarse = archive.open(archive.sample())[list(CAM5)].isel(time=slice(0, PIECE))
    coarse = xr.concat([coarse, coarse.isel(lon=[0]).assign_coords(lon=[360.0])], "lon")
    columns = rows * 3 // 2
    lat, lon = np.linspace(-90, 90, rows), np.arange(columns) * 360 / columns
    fine = coarse.interp(lat=lat, lon=lon, kwargs={"fill_value": "extrapolate"}).astype("float32")
    folder.mkdir()
    first = folder / "0000.nc"
    fine.to_netcdf(first, encoding={name: {"chunksizes": (1, rows, columns)} for name in CAM5})
    for number in range(1, -(-snapshots // PIECE)):
        os.link(first, folder / f"{number:04d}.nc")
    return sorted(folder.glob("*.nc"))


def measure(folder: Path) -> None:
    """On each rank: its share of the archive, with the bare network's time beside every file's."""
    weights, files = folder / "weights.pt", sorted((folder / "archive").glob("*.nc"))
    keep_freed()  # as the shell's verb does
    with ranks.joined(timeout=86400.0) as world:
        make = outputs.into(folder / "masks", weights)
        looks = Detector.load(weights).networks[0]
        fields = archive.open(files[0]).isel(time=0)
        ready = torch.from_numpy(np.stack([fields[name].values for name in CAM5])[None])
        ready = ready.sub_(ready.mean((2, 3), keepdim=True)).div_(ready.std((2, 3), keepdim=True))
        ready = ready.contiguous(memory_format=torch.channels_last)
        mine = files[world.rank :: world.size]
        looked, bare, memory = [], [], []
        bare_seconds(looks.model, ready)  # the first look pays for what the others find done
        for source in mine:
            bare.append(bare_seconds(looks.model, ready))
            cpu, wall = time.process_time(), time.perf_counter()
            outputs.settle([make.attempt(source)])
            looked.append(((time.process_time() - cpu) / PIECE, (time.perf_counter() - wall) / PIECE))
            memory.append(resident("VmRSS"))
        at = {share: memory[min(int(share * len(mine)), len(mine) - 1)] for share in (0.1, 0.5, 1.0)}
        told = {"looked": looked, "bare": bare, "memory": at, "peak": resident("VmHWM")}
        (folder / f"rank{world.rank}.json").write_text(json.dumps(told))


def bare_seconds(model: torch.nn.Module, ready: torch.Tensor) -> tuple[float, float]:
    """CPU and wall seconds that a snapshot takes the network alone."""
    cpu, wall = time.process_time(), time.perf_counter()
    with torch.inference_mode():
        for _ in range(BARE):
            model(ready)
    return (time.process_time() - cpu) / BARE, (time.perf_counter() - wall) / BARE


def resident(which: str) -> float:
    """Resident memory of this process in MB, as Linux knows it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def on_ranks(count: int, command: list, folder: Path) -> list[dict]:
    beside = Path(sys.executable).with_name("mpiexec")
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([beside, "-n", str(count), *map(str, command)], check=True, env=one_thread)
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(count)]


def report(told: list[dict]) -> None:
    for rank, each in enumerate(told):
        looked, bare = np.array(each["looked"]), np.array(each["bare"])
        ratios = bare[:, 0] / looked[:, 0]
        print(
            f"rank {rank}: {looked[:, 0].mean():.3f} CPU s a snapshot, the bare network {bare[:, 0].mean():.3f}: "
            f"{bare[:, 0].sum() / looked[:, 0].sum():.3f} of its throughput (by file {ratios.min():.2f} to "
            f"{ratios.max():.2f}); by the clock {looked[:, 1].mean():.2f} and {bare[:, 1].mean():.2f} s"
        )
        memory = ", ".join(f"{mb:.0f} at {float(share):.0%}" for share, mb in each["memory"].items())
        print(f"rank {rank}: resident MB {memory}; peak {each['peak']:.0f}")


def kill_and_repeat(verb: list, count: int, folder: Path, files: int) -> None:
    """Kill the ranks when half of the outputs are there, start again, and compare with what was not killed."""
    beside = Path(sys.executable).with_name("mpiexec")
    command = [beside, "-n", str(count), sys.executable, *map(str, verb)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": one_thread}
    job = subprocess.Popen(command, start_new_session=True, **quiet)
    there = 0
    while job.poll() is None and there < max(1, files // 2):
        time.sleep(0.01)
        there = len(list((folder / "killed").glob("*.nc")))
    if job.poll() is not None:
        sys.exit(f"the job ended before it could be killed, with {job.returncode} and {there} outputs")
    for process in descendants(job.pid):
        os.kill(process, signal.SIGKILL)
    job.wait()
    left = [path.name for path in (folder / "killed").iterdir()]
    done = sum(name.endswith(".nc") and not name.startswith(".") for name in left)
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "killed").glob("*.nc")}
    subprocess.run(command, check=True, **quiet)
    again = {path.name: path.stat().st_mtime_ns for path in (folder / "killed").glob("*.nc")}
    kept = sum(again[name] == when for name, when in before.items())
    same = all(
        (folder / "killed" / path.name).read_bytes() == path.read_bytes() for path in (folder / "masks").glob("*.nc")
    )
    print(
        f"killed -9 with {done} of {files} outputs and {len(left) - done} unfinished; started again, {kept} were kept "
        f"and all {len(again)} are {'' if same else 'NOT '}byte-equal to those of the job that was not killed"
    )
    shutil.rmtree(folder / "killed")
    if not same or kept != done or len(again) != files:
        sys.exit(1)


def descendants(root: int) -> list[int]:
    """Process numbers of a process and of all that it started."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(int(path.name))
    found, waiting = [], [root]
    while waiting:
        found.append(one := waiting.pop())
        waiting += parents.get(one, [])
    return found


if __name__ == "__main__":
    main()
