"""What a sample costs until it is in a batch, beside reading its file and beside the loader that one would write first.

    python benchmarks/input.py                                     # published sizes
    python benchmarks/input.py --steps 8                           # and trainings on two ranks: how long they wait
    python benchmarks/input.py --rows 48 --side 16 --rounds 1      # a toy

All files are in the system's memory, and everything takes turns. The plain loaders do what the references' do (DeepCAM
of MLPerf HPC, ClimateNet, CosmoFlow of MLPerf HPC), in the process that trains: read, normalise, turn round, collate.
"""

import argparse
import gzip
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path

import h5py
import numpy as np
import torch
import xarray as xr
from records import made_by
from torch.utils.data import default_collate

from climlab_dl.climate import archive, synthetic
from climlab_dl.climate.fields import CAM5
from climlab_dl.cosmology import tfrecord
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.performance import archives, ceilings
from climlab_dl.performance.measure import alternate, ratio
from climlab_dl.training.batches import Order, training_batches
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.run import Run
from climlab_dl.training.universes import Universes

FOUR = ("TMQ", "U850", "V850", "PSL")
SNAPSHOTS = 3


@dataclass(frozen=True, kw_only=True)
class Source:
    """Data as a training reads it, the files that it has, what of a file is read, and a plain loader of one file."""

    data: ClimateArchive | Universes
    files: list[Path]
    payload: int
    plain: Callable[[Path], object]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=768, help="rows of the snapshots; columns are 3/2 (default 768)")
    options.add_argument("--side", type=int, default=128, help="voxels a side of the volumes (default 128)")
    options.add_argument("--rounds", type=int, default=9, help="of all in turn (default 9)")
    options.add_argument("--steps", type=int, default=0, help="of the trainings on two ranks (default none)")
    options.add_argument("--folder", type=Path, help="where files are made, to be deleted after (default /tmp)")
    options.add_argument("--train", nargs=2, type=Path, help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.train:
        train(asked.train[0], asked.train[1], asked.steps)
        return
    print(made_by("input.py"))
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        folder = Path(name)
        compare(sources(folder, asked.rows, asked.side), asked.rounds)
        if asked.steps:
            for what in ("deepcam", "staged"):
                waiting(folder, what, asked.steps)


def sources(folder: Path, rows: int, side: int) -> dict[str, Source]:
    """Write the files, and say what reads them."""
    fields = synthetic.atmosphere(times=SNAPSHOTS, shape=(rows, rows * 3 // 2), seed=0)
    cells = rows * (rows * 3 // 2)
    deepcam, climatenet = (archive.save(fields, folder / name, layout=name) for name in ("deepcam", "climatenet"))
    mean = np.array([fields[name].mean() for name in CAM5], np.float32)
    spread = np.array([fields[name].std() or 1 for name in CAM5], np.float32)
    raw = ClimateArchive(source=str(deepcam), held_out=1 / 3, roll=False, memory_gigabytes=0, workers=0)
    staged = replace(raw, stage_to=str(folder / "node"), stage_as="float16")
    four = replace(raw, source=str(climatenet), channels=FOUR)
    hdf5, netcdf = sorted(deepcam.glob("data-*")), sorted(climatenet.glob("data-*"))
    plainly = partial(plain_deepcam, mean=mean, scale=1 / spread)
    found = {
        "DeepCAM HDF5, 16 fields": Source(data=raw, files=hdf5, payload=cells * 68, plain=plainly),
        "the same, staged as float16": Source(data=staged, files=hdf5, payload=cells * 33, plain=plainly),
        "the same, rolled and mirrored": Source(
            data=replace(raw, roll=True, mirror=True), files=hdf5, payload=cells * 68, plain=plainly
        ),
        "ClimateNet NetCDF, 4 fields": Source(
            data=four,
            files=netcdf,
            payload=cells * 24,
            plain=partial(plain_climatenet, mean=mean, scale=1 / spread),
        ),
    }
    for compressed in (False, True):
        files = archives.universes(folder / f"universes {compressed}", side, compressed=compressed, count=SNAPSHOTS)
        data = Universes(
            source=str(files[0].parent), held_out=1 / 3, targets="unit", symmetries=False, memory_gigabytes=0, workers=0
        )
        name = f"CosmoFlow TFRecord, {'gzip' if compressed else 'plain'}"
        payload = files[0].stat().st_size
        found[name] = Source(data=data, files=files, payload=payload, plain=plain_cosmoflow)
    return found


def plain_deepcam(path: Path, mean: np.ndarray, scale: np.ndarray) -> object:
    with h5py.File(path, "r") as file:
        data, mask = np.asarray(file["climate/data"]), np.asarray(file["climate/labels_0"]).astype(np.int64)
    data = np.transpose(scale * (data - mean), (2, 0, 1))
    return default_collate([(data, mask)])


def plain_climatenet(path: Path, mean: np.ndarray, scale: np.ndarray) -> object:
    with xr.open_dataset(path) as file:
        places = [CAM5.index(name) for name in FOUR]
        fields = [(file[CAM5[place]].values[0] - mean[place]) * scale[place] for place in places]
        return default_collate([(np.stack(fields), file["LABELS"].values)])


def plain_cosmoflow(path: Path) -> object:
    with path.open("rb") as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
    with gzip.open(path) if compressed else path.open("rb") as file:
        found = tfrecord.features(file.read()[12:-4], path)
    counts = np.frombuffer(found["x"], np.int16)
    side = round((counts.size / 4) ** (1 / 3))
    values = np.log1p(counts.astype(np.float32)).reshape(side, side, side, 4)
    return default_collate([(np.moveaxis(values, -1, 0), np.array(found["y"]))])


def compare(found: dict[str, Source], rounds: int) -> None:
    """Let ours, the plain loader and a warm read of what is read take turns."""
    print("\n| a sample of | ours, CPU ms | plain loader | plain / ours | warm read | ours / read | GB/s |")
    print("|---|---|---|---|---|---|---|")
    for name, source in found.items():
        ours, plain, warm = taken(source, rounds)
        milliseconds = [f"{1e3 * statistics.median(each):.1f}" for each in (ours, plain, warm)]
        speed = source.payload / statistics.median(ours) / 1e9
        print(
            f"| {name} | {milliseconds[0]} | {milliseconds[1]} | {ratio(plain, ours)} | {milliseconds[2]} | "
            f"{ratio(ours, warm)} | {speed:.1f} |",
            flush=True,
        )


def taken(source: Source, rounds: int) -> list[tuple[float, ...]]:
    """CPU seconds of a sample by round: ours, by the plain loader, and of reading as many bytes."""
    prepared = source.data.prepare(0)
    order = Order(len(prepared.training), 1, accumulate=1, seed=0, epoch=1, offset=0)
    given, files = training_batches(prepared, order, torch.device("cpu")), cycle(source.files)
    with tempfile.NamedTemporaryFile() as same:
        Path(same.name).write_bytes(bytes(source.payload))
        read = ceilings.read(Path(same.name)).call
        works = {"ours": lambda: next(given), "plain": lambda: source.plain(next(files)), "read": read}
        took = alternate(works, rounds)
    given.close()
    return [took[which].cpu for which in works]


def waiting(folder: Path, what: str, steps: int) -> None:
    """Train on two ranks, and say for which share of the time they have waited."""
    command = [sys.executable, __file__, "--steps", str(steps), "--train", str(folder / "deepcam"), str(folder / what)]
    beside = Path(sys.executable).with_name("mpiexec")
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    if what == "deepcam":
        command[-1] = str(folder / "run")
    subprocess.run([beside, "-n", "2", *command], check=True, env=one_thread, stdout=subprocess.DEVNULL)
    told = RunFolder(command[-1]).progress()
    busy = 1 / told.rate.to_numpy()
    whole = float((told.waiting * busy).sum() / busy.sum())
    print(
        f"\nTwo ranks train DeepLab.small() on {'what was staged' if what == 'staged' else 'the DeepCAM files'}, a "
        f"snapshot each a step: {whole:.2%} of the time waiting for input in {len(told)} steps, "
        f"{told.waiting[1:].max():.2%} in the worst step after the first ({told.waiting[0]:.2%}); "
        f"{1 / busy.mean():.2f} snapshots/s."
    )


def train(source: Path, folder: Path, steps: int) -> None:
    from climlab_dl.training.loop import train

    stage_to = str(folder / "node") if folder.name == "staged" else None
    data = ClimateArchive(
        source=str(source), held_out=1 / 3, memory_gigabytes=0, workers=1, stage_to=stage_to, stage_as="float16"
    )
    run = Run(
        data=data, model=DeepLab.small(), loss=WeightedCrossEntropy(), steps=steps, batch_size=1, report_every=1,
        evaluate_every=steps, checkpoint_every=steps,
    )  # fmt: skip
    for _ in train(run, folder):
        pass


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(f"{platform.processor() or platform.machine()}, torch {torch.__version__}")
    main()
