"""ClimateNetLarge: what several annotators drew on ERA5, a file a time and a class; the fields come from elsewhere.

``label`` is boolean (annotator, latitude, longitude); ``class`` says in words, or the folder's name in short, whether
it is of tropical cyclones (TC) or atmospheric rivers (AR).
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from climlab_dl.climate import times
from climlab_dl.climate.formats.header import Header
from climlab_dl.climate.formats.opening import reading
from climlab_dl.climate.labels import ANNOTATOR, LABELS, MASK, as_classes
from climlab_dl.climate.parts import Content, Part

log = logging.getLogger(__name__)

_LABEL = "label"
_BITS = {"cyclone": 1, "river": 2}


def recognises(header: Header) -> bool:
    """Whether a file holds what annotators drew."""
    return _LABEL in header.dataset and ANNOTATOR in header.dataset[_LABEL].dims


@dataclass(frozen=True)
class Drawings:
    """Reads what every annotator drew at one time, as bits; or the classes that most of them agree on."""

    files: Sequence[tuple[Path, Path]]
    """Of cyclones and rivers, at each time."""
    at: Sequence[tuple[xr.Variable, xr.Variable]]
    """Their label variables, (annotator, lat, lon)."""
    dims: tuple[str, str]
    agreed: bool = False

    def __call__(self, file: int, index: int) -> np.ndarray:
        """Read both classes at time number ``file``."""
        drawn = []
        for path, variable in zip(self.files[file], self.at[file], strict=True):
            with reading(path):
                drawn.append(variable.transpose(ANNOTATOR, *self.dims).to_numpy() > 0.5)
        if self.agreed:
            drawn = [layers.mean(axis=0) > 0.5 for layers in drawn]
        cyclone, river = drawn
        bits = (_BITS["cyclone"] * cyclone + _BITS["river"] * river).astype(np.int8)
        return as_classes(bits) if self.agreed else bits


def parts(headers: Sequence[Header]) -> list[Part]:
    """Pair the files of the two classes by their times.

    Raises
    ------
    ValueError
        When a file's class cannot be told, or no time has both classes.
    """
    if not headers:
        return []
    by_class: dict[str, dict[object, Header]] = {"cyclone": {}, "river": {}}
    for header in headers:
        by_class[_class(header)][_time(header)] = header
    cyclones, rivers = by_class["cyclone"], by_class["river"]
    shared = sorted(set(cyclones) & set(rivers))  # pyright: ignore[reportArgumentType]
    if not shared:
        raise ValueError(
            f"{headers[0].path} and {len(headers) - 1} more: {len(cyclones)} times of cyclones (TC) and {len(rivers)} "
            "of rivers (AR), none of them shared. A mask needs both: open the folders TC and AR together."
        )
    if alone := set(cyclones) ^ set(rivers):
        log.warning("%d time(s) have labels of one class only and are left out", len(alone))
    first = rivers[shared[0]]
    both = [(cyclones[time], rivers[time]) for time in shared]
    files = [(one.path, other.path) for one, other in both]
    pairs = [(one.dataset.variables[_LABEL], other.dataset.variables[_LABEL]) for one, other in both]
    dims = (first.row, first.column)
    annotators = first.dataset[_LABEL].sizes[ANNOTATOR]
    return [
        Part(
            files=[path for _, path in files],
            partners=[path for path, _ in files],
            where=np.array([(i, 0) for i in range(len(shared))]),
            time=times.coordinate(shared),
            numbers=np.full((len(shared), 2), -1),
            grid=first.grid,
            contents={
                MASK: Content(read=Drawings(files, pairs, dims, agreed=True)),
                LABELS: Content(read=Drawings(files, pairs, dims), dims=(ANNOTATOR,), inner=(annotators,)),
            },
            coordinates={
                ANNOTATOR: xr.Variable(ANNOTATOR, np.arange(annotators), {"long_name": "number of the annotator"})
            },
        )
    ]


def _class(header: Header) -> str:
    words = str(header.dataset["class"].values).lower() if "class" in header.dataset.variables else ""
    folder = header.path.parent.name.upper()
    if "cyclone" in words or (not words and folder.startswith("TC")):
        return "cyclone"
    if "river" in words or (not words and folder.startswith("AR")):
        return "river"
    raise ValueError(
        f"{header.path} does not say of which class its labels are (class {words!r}, folder {folder!r}); "
        "expected a variable class that names cyclones or rivers, or a folder TC or AR."
    )


def _time(header: Header) -> object:
    if header.time is not None and "units" in header.time.attrs:
        return np.atleast_1d(times.dates(header.time))[0]
    date = times.from_name(header.path).time
    if date is None:
        raise ValueError(f"{header.path} says neither inside nor in its name when it is; expected a variable time.")
    return date
