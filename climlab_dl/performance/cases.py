"""What `climlab-dl bench` measures: the package's own training step, input, exchange, detection and simulation.

A case prepares work at one of three sizes: ``"full"`` as published, ``"short"`` for minutes, ``"toy"`` for tests. It is
made in a process of its own, in a folder of its own, and under ``mpiexec`` on every rank.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch

from climlab_dl.climate.fields import CAM5
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.parallel import ranks
from climlab_dl.parallel.allreduce import Exchange
from climlab_dl.performance import archives, ceilings
from climlab_dl.performance.flops import count
from climlab_dl.performance.measure import Work
from climlab_dl.performance.steps import PUBLISHED, Published, updates
from climlab_dl.training.batches import Order, training_batches
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.universes import Universes

Size = Literal["full", "short", "toy"]

_MAPS: dict[Size, tuple[int, int]] = {"full": (768, 1152), "short": (192, 288), "toy": (32, 48)}
_CUBES: dict[Size, int] = {"full": 128, "short": 128, "toy": 32}
_FOUR = ("TMQ", "U850", "V850", "PSL")


@dataclass(frozen=True, kw_only=True)
class Case:
    """Work that is ready, what bounds it, and what belongs to its numbers."""

    work: Work
    ceilings: dict[str, Work] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


def _step(name: str) -> Callable[[Size, Path], Case]:
    published = PUBLISHED[name]

    def prepare(size: Size, folder: Path) -> Case:
        extent, description = _extent(published, size), published.description
        if len(extent) == 3 and description.padding != "valid":
            description = replace(description, size=extent[0])
        device = ranks.device()
        network = description.build(published.channels, published.outputs).to(device)
        values, target = published.batch(1, device, extent)
        update = updates(network, published.cost(device))
        flops = count(network, tuple(values.shape)).training
        work = Work(call=lambda: update(values, target), flops=flops)
        return Case(work=_timed(work, device), ceilings=_arithmetic(size), notes={"input": list(values.shape)})

    return prepare


def _extent(published: Published, size: Size) -> tuple[int, ...]:
    if len(published.extent) == 2:
        return _MAPS[size]
    # The network of 2018 loses cells at every face: of a toy's volume nothing would be left.
    return published.extent if published.description.padding == "valid" else (_CUBES[size],) * 3


def _batches(data: ClimateArchive | Universes, file: Path, payload: int, *, samples: int) -> Case:
    """Batches of one as the training loop takes them; as bytes counts what a file holds of a sample."""
    prepared = data.prepare(0)
    order = Order(len(prepared.training), 1, accumulate=1, seed=0, epoch=1, offset=0)
    given = training_batches(prepared, order, ranks.device())

    def call() -> None:
        for _ in range(samples):
            next(given)

    work = Work(call=call, samples=samples, bytes=float(payload))
    return Case(work=work, ceilings={"warm read": ceilings.read(file)}, notes={"sample_bytes": payload})


def _climate_input(
    layout: str, *, channels: tuple[str, ...] = CAM5, staged: bool = False
) -> Callable[[Size, Path], Case]:
    def prepare(size: Size, folder: Path) -> Case:
        # Input is quick beside a step, and its goals are those of published snapshots: short is no smaller than full.
        rows, columns = _MAPS["toy" if size == "toy" else "full"]
        file, *_ = archives.snapshots(folder / layout, (rows, columns), layout)
        data = ClimateArchive(
            source=str(file.parent), channels=channels, held_out=0.5, roll=False, memory_gigabytes=0, workers=0,
            stage_to=str(folder / "node") if staged else None, stage_as="float16",
        )  # fmt: skip
        # A DeepCAM file is read whole; of NetCDF only the fields that are asked for, in float32, of what is staged all,
        # in float16, and of both a mask of a byte a cell.
        cells = rows * columns * ((2 if staged else 4) * len(channels) + 1)
        payload = file.stat().st_size if layout == "deepcam" and not staged else cells
        return _batches(data, file, payload, samples=2 if size == "toy" else 4)

    return prepare


def _volume_input(*, compressed: bool) -> Callable[[Size, Path], Case]:
    def prepare(size: Size, folder: Path) -> Case:
        file, *_ = archives.universes(folder / "universes", _CUBES[size], compressed=compressed)
        data = Universes(
            source=str(file.parent), held_out=0.5, targets="unit", symmetries=False, memory_gigabytes=0, workers=0
        )
        return _batches(data, file, file.stat().st_size, samples=2 if size == "toy" else 4)

    return prepare


def _exchange(**options: Any) -> Callable[[Size, Path], Case]:
    def prepare(size: Size, folder: Path) -> Case:
        device = ranks.device()
        network = (DeepLab.small() if size == "toy" else DeepLab.mlperf()).build(len(CAM5), 3).to(device)
        parameters = list(network.parameters())
        gradients = [torch.ones_like(parameter) for parameter in parameters]  # as a backward pass leaves them
        exchange = Exchange(**options).start(parameters)

        def call() -> None:
            exchange.begin()
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            exchange.send()
            exchange.finite()
            exchange.receive()

        payload = sum(parameter.nbytes for parameter in parameters)
        work = Work(call=call, bytes=float(payload), clock="wall")
        return Case(work=work, ceilings={"copy": _copy(size)}, notes={"ranks": ranks.size(), "gradient_bytes": payload})

    return prepare


def _detection(name: str) -> Callable[[Size, Path], Case]:
    description = PUBLISHED[name].description

    def prepare(size: Size, folder: Path) -> Case:
        from climlab_dl.inference import outputs

        [file, *_] = archives.snapshots(folder / "archive", _MAPS[size], "netcdf")
        make = outputs.into(folder / "masks", archives.network(folder / "network.pt", description))
        flops = count(description.build(len(CAM5), 3), (1, len(CAM5), *_MAPS[size]))
        work = Work(
            call=lambda: make.find(file).compute(scheduler="synchronous"),
            flops=flops.forward, bytes=float(file.stat().st_size),
        )  # fmt: skip
        notes = {"input": [1, len(CAM5), *_MAPS[size]]}
        return Case(work=_timed(work, ranks.device()), ceilings=_arithmetic(size, channels_last=True), notes=notes)

    return prepare


def _simulation(size: Size, folder: Path) -> Case:
    from climlab_dl.cosmology import simulate

    preset = {
        "full": replace(simulate.cosmoflow2018(), steps=5, start=0.2),
        "short": simulate.laptop(),
        "toy": replace(simulate.tour(), particles=16, voxels=16),
    }[size]
    parameters = {name: (low + high) / 2 for name, (low, high) in preset.ranges.items()}
    device = ranks.device()
    # Whatever the method, a step has to read and write each particle's place and velocity: six float32, counted once as
    # copies are.
    state = 6.0 * 4 * preset.particles**3 * preset.steps
    work = Work(call=lambda: simulate.universe(parameters, preset, 0, str(device)), bytes=state)
    notes = {"particles": preset.particles, "steps": preset.steps}
    return Case(work=_timed(work, device), ceilings={"copy": _copy(size)}, notes=notes)


def _ceiling(
    work: Callable[[Size, Path], Work], against: Callable[[Size], dict[str, Work]] = lambda size: {}
) -> Callable[[Size, Path], Case]:
    def prepare(size: Size, folder: Path) -> Case:
        return Case(work=_timed(work(size, folder), ranks.device()), ceilings=against(size))

    return prepare


def _arithmetic(size: Size, *, channels_last: bool = False) -> dict[str, Work]:
    return {"gemm": _gemm(size), "convolution": _convolution(size, channels_last=channels_last)}


def _gemm(size: Size) -> Work:
    return ceilings.gemm(ranks.device(), size=128 if size == "toy" else 2048)


def _copy(size: Size) -> Work:
    return ceilings.copy(ranks.device(), megabytes=4 if size == "toy" else 256)


def _convolution(size: Size, *, channels_last: bool) -> Work:
    channels, side = (16, 16) if size == "toy" else (256, 96)
    return ceilings.convolution(ranks.device(), channels_last=channels_last, channels=channels, side=side)


def _timed(work: Work, device: torch.device) -> Work:
    """Time a GPU's work by the wall: its process only waits."""
    return replace(work, clock="wall") if device.type == "cuda" else work


CASES: dict[str, Callable[[Size, Path], Case]] = {
    "ceiling gemm": _ceiling(lambda size, folder: _gemm(size)),
    "ceiling convolution": _ceiling(
        lambda size, folder: _convolution(size, channels_last=False), lambda size: {"gemm": _gemm(size)}
    ),
    "ceiling convolution channels_last": _ceiling(
        lambda size, folder: _convolution(size, channels_last=True), lambda size: {"gemm": _gemm(size)}
    ),
    "ceiling copy": _ceiling(lambda size, folder: _copy(size)),
    "ceiling read": _ceiling(
        lambda size, folder: ceilings.read(folder / "file", megabytes=1 if size == "toy" else 57),
        lambda size: {"copy": _copy(size)},
    ),
    **{f"step {name}": _step(name) for name in PUBLISHED},
    "input deepcam": _climate_input("deepcam"),
    "input netcdf": _climate_input("netcdf", channels=_FOUR),
    "input staged": _climate_input("deepcam", staged=True),
    "input tfrecord": _volume_input(compressed=False),
    "input tfrecord_gzip": _volume_input(compressed=True),
    "allreduce flat": _exchange(),
    "allreduce fp16": _exchange(compression="fp16"),
    "detect deepcam": _detection("deepcam"),
    "detect tiramisu": _detection("tiramisu"),
    "simulate": _simulation,
}
GROUPS = ("ceiling", "step", "input", "allreduce", "detect", "simulate")


def named(group: str) -> list[str]:
    """Names of the cases of a group, of ``"all"``, or the one of that name.

    Raises
    ------
    ValueError
        If there is none, naming what there is.
    """
    found = [name for name in CASES if group in ("all", name, name.split()[0])]
    if not found:
        first = group.partition(" ")[0]
        known = [name for name in CASES if name.split()[0] == first] if first in GROUPS else [*GROUPS, "all"]
        raise ValueError(f"there is no case {group!r} to measure; there are {', '.join(known)}")
    return found
