"""ExtremeWeather's HDF5 files (Racah et al. 2017), one a year: ``images`` and ``boxes`` round the events in them.

``images`` is (time, channel, lat, lon) with channels in alphabetical order; ``boxes`` is (time, box, 5): lowest row,
lowest column, highest row, highest column, class (0 tropical depression, 1 tropical cyclone, 2 extratropical cyclone,
3 atmospheric river; -1 where there is none). The year is in the name, the calendar of the model has no leap days.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cftime
import h5py
import numpy as np
import xarray as xr

from climlab_dl.climate import times
from climlab_dl.climate.fields import BACKGROUND, CAM5, CYCLONE, RIVER
from climlab_dl.climate.formats.opening import empty, hdf5, reading
from climlab_dl.climate.grid import Grid, by_shape
from climlab_dl.climate.labels import MASK
from climlab_dl.climate.parts import Content, Part

log = logging.getLogger(__name__)

CHANNELS = tuple(sorted(CAM5))
_TROPICAL_CYCLONE, _ATMOSPHERIC_RIVER = 1, 3
_YEAR = re.compile(r"(?<!\d)(\d{4})(?!\d)")


@dataclass(frozen=True)
class Sample:
    """One file, looked at and closed."""

    path: Path
    shape: tuple[int, int, int, int]
    boxes: bool

    @classmethod
    def of(cls, path: Path, file: h5py.File) -> "Sample":
        """Look at an open file."""
        shape = file["images"].shape  # pyright: ignore[reportAttributeAccessIssue]
        if len(shape) != 4 or shape[1] != len(CHANNELS):
            raise ValueError(
                f"{path}: images has shape {shape}; expected (time, {len(CHANNELS)}, lat, lon) with the channels "
                f"{', '.join(CHANNELS)}."
            )
        if not shape[0]:
            raise empty(path)
        return cls(path, shape, "boxes" in file)


def recognises(file: h5py.File) -> bool:
    """Whether an open HDF5 file is one of ExtremeWeather's."""
    return "images" in file


@dataclass(frozen=True)
class Image:
    """Reads one channel of a snapshot."""

    files: Sequence[Path]
    channel: int

    def __call__(self, file: int, index: int) -> np.ndarray:
        """Read a file; nothing stays open, so that any process may do it."""
        with hdf5(self.files[file]) as opened, reading(self.files[file]):
            return np.asarray(opened["images"][index, self.channel])  # pyright: ignore[reportIndexIssue]


@dataclass(frozen=True)
class Boxes:
    """Reads the boxes of a snapshot as a mask; those of depressions and extratropical cyclones are background."""

    files: Sequence[Path]
    shape: tuple[int, int]

    def __call__(self, file: int, index: int) -> np.ndarray:
        """Fill the boxes, cyclones over rivers."""
        with hdf5(self.files[file]) as opened, reading(self.files[file]):
            boxes = np.asarray(opened["boxes"][index])  # pyright: ignore[reportIndexIssue]
        mask = np.full(self.shape, BACKGROUND, np.int8)
        for theirs, ours in ((_ATMOSPHERIC_RIVER, RIVER), (_TROPICAL_CYCLONE, CYCLONE)):
            for box in boxes[boxes[:, 4] == theirs]:
                low_row, low_column, high_row, high_column = np.maximum(np.rint(box[:4]), 0).astype(int)
                mask[low_row : high_row + 1, low_column : high_column + 1] = ours
        return mask


def parts(samples: Sequence[Sample], names: Mapping[str, str | None]) -> list[Part]:
    """Group files of one shape, and say what each group offers."""
    alike: dict[tuple, list[Sample]] = {}
    for sample in samples:
        alike.setdefault((*sample.shape[1:], sample.boxes), []).append(sample)
    return [_part(group, names) for group in alike.values()]


def _part(samples: Sequence[Sample], names: Mapping[str, str | None]) -> Part:
    first = samples[0]
    paths = [sample.path for sample in samples]
    contents = {
        names.get(name) or name: Content(read=Image(paths, i))
        for i, name in enumerate(CHANNELS)
        if names.get(name, name) is not None
    }
    if first.boxes:
        contents[MASK] = Content(read=Boxes(paths, first.shape[2:]))
    where = np.array([(i, k) for i, sample in enumerate(samples) for k in range(sample.shape[0])])
    return Part(
        files=paths,
        where=where,
        time=_time(samples),
        numbers=np.full((len(where), 2), -1),
        grid=Grid.of(*by_shape(*first.shape[2:]), str(first.path)),
        contents=contents,
    )


def _time(samples: Sequence[Sample]) -> xr.Variable:
    """Spread the snapshots of a file evenly over the year that its name gives."""
    years = [_YEAR.search(sample.path.name) for sample in samples]
    if not all(years):
        log.warning("%s has no year in its name; snapshots are numbered instead", samples[0].path.name)
        return times.numbered(sum(sample.shape[0] for sample in samples))
    dates = []
    for sample, year in zip(samples, years, strict=True):
        # 1460 snapshots are four a day; a shorter file is the beginning of such a year.
        hours = 6.0 * np.arange(sample.shape[0])
        dates += list(cftime.num2date(hours, f"hours since {year[1] if year else 0}-01-01", "noleap"))
    return times.coordinate(dates)
