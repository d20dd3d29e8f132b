"""DeepCAM's HDF5 files, one a snapshot, in both layouts; and the statistics file that its reader wants.

Channels last (Kurth et al. 2018, MLPerf HPC): ``climate/data`` (lat, lon, channel), ``labels_0`` and ``labels_1`` as
float32. Channels first (the reformatted set of 2018): ``climate/data`` (channel, lat, lon), ``climate/labels``
(labelling, lat, lon). Neither says where or when it is: the grid follows from the shape, the time from the name.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import cftime
import h5py
import numpy as np
import xarray as xr
from dask.local import get_sync

from climlab_dl.climate import times
from climlab_dl.climate.fields import BACKGROUND, CAM5, CLASSES
from climlab_dl.climate.formats.opening import hdf5, reading
from climlab_dl.climate.formats.plain import Plain
from climlab_dl.climate.grid import Grid, by_shape
from climlab_dl.climate.labels import ANNOTATOR, LABELS, MASK, as_bits, as_classes, as_mask, labelled
from climlab_dl.climate.parts import Content, Part
from climlab_dl.files import filled

log = logging.getLogger(__name__)

GROUP = "climate"
_ANOMALY = 0.9
"""Share of background below which the label generator of Kurth et al. puts ANOMALY in the name."""


class Layout(NamedTuple):
    """What one file looks like; files that look alike are read together."""

    shape: tuple[int, int]
    channels: tuple[str, ...]
    last: bool
    labels: tuple[str, ...]
    axes: tuple[bytes, bytes] | None


@dataclass(frozen=True)
class Channels:
    """Reads all channels of a snapshot, (channel, lat, lon): where they lie last, one costs as much as all."""

    samples: Sequence["Sample"]
    last: bool

    def __call__(self, file: int, index: int) -> np.ndarray:
        """Read a file; nothing stays open, so that any process may do it."""
        data = self.samples[file].read("data")
        return np.moveaxis(data, -1, 0) if self.last else data


@dataclass(frozen=True)
class Masks:
    """Reads the labels of a snapshot: the first of them as classes, or all as one bit a class."""

    samples: Sequence["Sample"]
    names: Sequence[str]
    bits: bool = False

    def __call__(self, file: int, index: int) -> np.ndarray:
        """Read a file and check that its labels are classes."""
        sample, names = self.samples[file], self.names if self.bits else self.names[:1]
        masks = [as_mask(sample.read(name), str(sample.path)) for name in names]
        masks = masks[0] if masks[0].ndim == 3 else np.stack(masks)
        return as_bits(masks) if self.bits else masks[0]


@dataclass(frozen=True)
class Sample:
    """One file, looked at and closed; ``layout`` is None for stats.h5, which holds no snapshot."""

    path: Path
    layout: Layout | None
    date: cftime.datetime | None = None
    run: int = -1

    @classmethod
    def of(cls, path: Path, file: h5py.File) -> "Sample":
        """Look at an open file."""
        group: Any = file[GROUP]
        return cls(path, _layout(path, group), *_when(path, group)) if "data" in group else cls(path, None)

    def read(self, name: str) -> np.ndarray:
        """Read a dataset, into an array that the next reading may overwrite."""
        if place := Plain.find(self.path, f"{GROUP}/{name}"):
            return place.read(self.path, kept=name == "data")
        with hdf5(self.path) as file, reading(self.path):
            return np.asarray(file[f"{GROUP}/{name}"])


def recognises(file: h5py.File) -> bool:
    """Whether an open HDF5 file is one of DeepCAM's."""
    return GROUP in file and isinstance(file[GROUP], h5py.Group)


def parts(samples: Sequence[Sample], names: Mapping[str, str | None]) -> list[Part]:
    """Group files that look alike, and say what each group offers."""
    alike: dict[Layout, list[Sample]] = {}
    for sample in samples:
        if sample.layout is not None:
            alike.setdefault(sample.layout, []).append(sample)
    return [_part(layout, group, names) for layout, group in alike.items()]


def _layout(path: Path, group: Any) -> Layout:
    shape = group["data"].shape
    labels = tuple(name for name in ("labels_0", "labels_1", "labels") if name in group)
    if len(shape) != 3:
        raise ValueError(
            f"{path}: climate/data has shape {shape}; expected (lat, lon, channel) or (channel, lat, lon)."
        )
    numbers = np.asarray(group["channels"]).astype(int) if "channels" in group else range(len(CAM5))
    channels = tuple(CAM5[i] for i in numbers)
    plane = group[labels[0]].shape[-2:] if labels else None
    last = shape[:2] == plane if plane else shape[2] == len(channels) or shape[0] != len(channels)
    count = shape[2] if last else shape[0]
    if len(channels) != count:
        raise ValueError(
            f"{path}: climate/data has shape {shape}, so {count} channels, but {len(channels)} are known by name. "
            "Expected the 16 of CAM5, or their numbers in climate/channels."
        )
    axes = (group["lat"][:].tobytes(), group["lon"][:].tobytes()) if "lat" in group else None
    return Layout(shape[:2] if last else shape[1:], channels, last, labels, axes)


def _when(path: Path, group: Any) -> tuple[cftime.datetime | None, int]:
    """Time and run of a file: what we wrote in it, or else what its name says."""
    if "time" in group.attrs:
        unit, calendar = str(group.attrs["time_units"]), str(group.attrs["calendar"])
        return cftime.num2date(group.attrs["time"], unit, calendar), int(group.attrs["run"])
    named = times.from_name(path)
    return named.time, named.run


def _part(layout: Layout, samples: Sequence[Sample], names: Mapping[str, str | None]) -> Part:
    paths = [sample.path for sample in samples]
    dates = [sample.date for sample in samples]
    lat, lon = by_shape(*layout.shape)
    if layout.axes:
        lat, lon = (np.frombuffer(axis) for axis in layout.axes)
    read = Channels(samples, layout.last)
    contents = {
        names.get(name) or name: Content(read=read, inner=(len(layout.channels),), component=i)
        for i, name in enumerate(layout.channels)
        if names.get(name, name) is not None
    }
    coordinates = {}
    if layout.labels:
        contents[MASK] = Content(read=Masks(samples, layout.labels))
    if len(layout.labels) > 1 or "labels" in layout.labels:
        contents[LABELS] = Content(read=Masks(samples, layout.labels, bits=True), dims=(ANNOTATOR,), inner=(2,))
        coordinates[ANNOTATOR] = xr.Variable(ANNOTATOR, [0, 1])
    known = [date for date in dates if date is not None]
    if len(known) == len(dates):
        time = times.coordinate(known)
    else:
        log.warning("%s does not say in its name when it is; snapshots are numbered instead", paths[0].name)
        time = times.numbered(len(paths))
    return Part(
        files=paths,
        where=np.array([(i, 0) for i in range(len(paths))]),
        time=time,
        numbers=np.array([(sample.run, -1) for sample in samples]),
        grid=Grid.of(lat, lon, str(paths[0])),
        contents=contents,
        coordinates=coordinates,
    )


def write(fields: xr.Dataset, folder: Path) -> Path:
    """Write a folder of ``data-YYYY-MM-DD-TT-R.h5`` with channels last, and ``stats.h5``.

    Latitude, longitude, time and run go into every file besides; other readers do not look at them.
    """
    channels = [name for name in CAM5 if name in fields]
    if not channels:
        raise ValueError(
            f"DeepCAM files hold {', '.join(CAM5)}; found none of them, only {', '.join(map(str, fields))}."
        )
    if left := [str(name) for name in fields.data_vars if name not in (*channels, MASK, LABELS)]:
        log.warning("DeepCAM files have no place for %s; left out", ", ".join(left))
    if lacking := [name for name in CAM5 if name not in channels]:
        log.warning(
            "DeepCAM's own reader expects %d channels in each file, and there is no %s; climate/channels says which "
            "there are, and readers that do not look there take one channel for another",
            len(CAM5), ", ".join(lacking),
        )  # fmt: skip
    moments = Moments(len(channels))
    stems = times.names(fields)
    with filled(folder) as new:
        for i, name in enumerate(stems):
            snapshot = fields.isel(time=i).compute(scheduler=get_sync)
            data = np.stack([snapshot[channel].values for channel in channels], axis=-1).astype(np.float32)
            moments.add(data)
            masks = _masks(snapshot)
            anomaly = "-ANOMALY" if masks and (masks[0] == BACKGROUND).mean() < _ANOMALY else ""
            with h5py.File(new / f"{name}{anomaly}.h5", "w") as file:
                _fill(file.create_group(GROUP), snapshot, channels, data, masks)
        with h5py.File(new / "stats.h5", "w") as file:
            for name, values in moments.summary().items():
                file[f"{GROUP}/{name}"] = values
    return folder


def _fill(group: Any, snapshot: xr.Dataset, channels: list[str], data: np.ndarray, masks: list[np.ndarray]) -> None:
    """Write one snapshot, with data (lat, lon, channel), into the group of its file."""
    group["data"] = data
    group["data_stats"] = _statistics(data.reshape(-1, len(channels)))
    for k, mask in enumerate(masks):
        group[f"labels_{k}"] = mask.astype(np.float32)
        shares = [np.mean(mask == c) for c in range(len(CLASSES))]
        moment = _statistics(mask.reshape(-1, 1).astype(np.float32))
        group[f"labels_{k}_stats"] = np.append(moment, shares)[:, None].astype(np.float32)
    if len(channels) < len(CAM5):
        group["channels"] = np.array([CAM5.index(name) for name in channels], np.int32)
    group["lat"], group["lon"] = (snapshot[axis].values.astype(np.float64) for axis in ("lat", "lon"))
    date = times.dated(snapshot["time"])
    unit = "seconds since 1970-01-01"
    group.attrs["time"] = cftime.date2num(date, unit, date.calendar)
    group.attrs["time_units"], group.attrs["calendar"] = unit, date.calendar
    group.attrs["run"] = int(snapshot["run"]) if "run" in snapshot.coords else -1


class Moments:
    """Running minimum, maximum, mean and mean square of each channel, in double precision, without missing pixels."""

    def __init__(self, channels: int):
        self.snapshots = 0
        self.pixels = np.zeros(channels)
        self.sums = np.zeros((2, channels))
        self.lowest, self.highest = np.full(channels, np.inf), np.full(channels, -np.inf)

    def add(self, data: np.ndarray) -> None:
        """Count a snapshot (lat, lon, channel)."""
        flat = data.reshape(-1, data.shape[-1]).astype(np.float64)
        there = np.isfinite(flat)
        self.snapshots += 1
        self.pixels += there.sum(axis=0)
        self.sums += np.where(there, [flat, flat**2], 0).sum(axis=1)
        self.lowest = np.minimum(self.lowest, np.where(there, flat, np.inf).min(axis=0))
        self.highest = np.maximum(self.highest, np.where(there, flat, -np.inf).max(axis=0))

    def summary(self) -> dict[str, Any]:
        """Datasets of ``stats.h5`` by name; ``count`` is of snapshots."""
        mean, square = self.sums / np.maximum(self.pixels, 1)
        values = {"mean": mean, "sqmean": square, "minval": self.lowest, "maxval": self.highest}
        return {"count": self.snapshots, **{name: value.astype(np.float32) for name, value in values.items()}}


def _masks(snapshot: xr.Dataset) -> list[np.ndarray]:
    """Labellings of a snapshot: the mask to train on, and a second where it is one of two."""
    if MASK not in snapshot:
        return []
    mask = labelled(snapshot)
    if LABELS not in snapshot:
        return [mask]
    first, *others = as_classes(snapshot[LABELS].values)
    return [mask, *others] if len(others) == 1 and (first == mask).all() else [mask]


def _statistics(values: np.ndarray) -> np.ndarray:
    """Mean, max, min and standard deviation of each column, as DeepCAM keeps them: (4, columns) float32."""
    wide = values.astype(np.float64)
    return np.stack([f(wide, axis=0) for f in (np.nanmean, np.nanmax, np.nanmin, np.nanstd)]).astype(np.float32)
