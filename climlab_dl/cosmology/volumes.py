"""Density cubes and the parameters that made them, whatever kind of file they come in.

    for volume in volumes.read("universes/universe_00012.h5"):
        volume.counts          # (x, y, z, redshifts), particles in each voxel
        volume.parameters      # {"Omega_m": 0.31, ...}

Splits go by universe, never by sub-volume: neighbours in one cube share phases and parameters, so a network would only
have to recognise them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from climlab_dl.cosmology import faults, hdf5, tfrecord, zarrs
from climlab_dl.cosmology.cube import Volume, channels_last
from climlab_dl.cosmology.hdf5 import attributes
from climlab_dl.words import counted

__all__ = [
    "Volume",
    "attributes",
    "files",
    "open",
    "read",
    "save",
    "scaling",
    "symmetry",
    "there",
    "to_physical",
    "to_unit",
]

SUFFIXES = (*hdf5.SUFFIXES, ".tfrecord", ".tfrecords", ".gz")
Values = NDArray[np.float64]
Source = str | Path | Volume | Iterable[str | Path | Volume]
"""Files of volumes, folders or glob patterns of these, or volumes that have been read; or several of them."""


def files(source: str | Path | Iterable[str | Path]) -> list[Path]:
    """All volume files of a folder, a glob pattern, one path or a list of them, sorted by name.

    Raises
    ------
    FileNotFoundError
        If there is none.
    TypeError
        If the source is none of these.
    """
    if not isinstance(source, str | Path):
        return [path for part in _parts(source) for path in files(part)]
    path, is_pattern = Path(source), any(sign in str(source) for sign in "*?[")
    if path.is_dir():
        found = sorted([path] if path.suffix == zarrs.SUFFIX else _within(path))
    elif path.exists():
        found = [path]
    else:
        folder, pattern = Path(path.anchor or "."), str(path.relative_to(path.anchor) if path.anchor else path)
        found = sorted(folder.glob(pattern)) if is_pattern else []
    if not found:
        why = "" if path.is_dir() else "nothing matches it; " if is_pattern else "it does not exist; "
        raise FileNotFoundError(
            f"no volumes at {source}: {why}expected HDF5, TFRecord or Zarr ({', '.join((*SUFFIXES, zarrs.SUFFIX))}), "
            "a folder or a glob"
        )
    return found


def there(source: str | Path | Iterable[str | Path]) -> tuple[list[Path], list[str]]:
    """Find the `files` that are there, and for each part of a list that is not what `files` says of it."""
    paths, missing = [], []
    for part in [source] if isinstance(source, str | Path) else _parts(source):
        try:
            paths += files(part)
        except FileNotFoundError as fault:
            missing.append(str(fault))
    return paths, missing


def read(path: str | Path) -> Iterator[Volume]:
    """Read the volumes of one file, one at a time.

    Understood are HDF5 with ``full`` (ExaLearn, and this package's), with ``x`` and ``y`` (MLPerf), channels first
    (LBANN), the TFRecords of 2018 (``data_raw``) and of MLPerf (``x``), plain or gzip, and this package's Zarr. The
    file's content decides, not its name.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is something else, truncated or damaged.
    """
    path = Path(path)
    if path.is_dir():
        yield zarrs.read(path)
        return
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a pipe or a device, in which nothing can be looked up; copy it to a file first")
    with path.open("rb") as file:
        magic = file.read(8)
    if magic == hdf5.MAGIC:
        yield hdf5.read(path)
    else:
        yield from tfrecord.read(path)


def save(volume: Volume, path: str | Path, **attributes: Any) -> Path:
    """Write a volume beside ``path`` and then rename it: Zarr if it ends in .zarr, HDF5 in ExaLearn's layout if in .h5.

    Both hold ``full`` (x, y, z, redshifts) in chunks of 64 voxels a side, ``unitPar``, ``physPar``, ``namePar``,
    ``redshifts``, ``box_size_mpc_h`` and what is given. Counts (x, y, z) are of one redshift.

    Raises
    ------
    ValueError
        If the counts are no cube, negative or not finite, names, parameters or redshifts are not as many as they should
        be, or these or the box are what they cannot be, or if a folder's `files` would not have one that is called so.
    """
    path, shape = Path(path), np.shape(volume.counts)
    if path.suffix not in (expected := (*hdf5.SUFFIXES, zarrs.SUFFIX)):
        raise ValueError(
            f"{path} ends in {path.suffix!r}, which is not looked for in a folder of volumes; expected "
            f"{', '.join(expected)}"
        )
    if shape[:3] != shape[:1] * 3 or len(shape) not in (3, 4):
        raise ValueError(f"counts are {shape}; expected a cube (x, y, z, redshifts), with as many voxels on each side")
    volume = replace(volume, counts=channels_last(volume.counts, path))
    if fault := next(faults.of_facts(volume), ""):
        raise ValueError(fault)
    # Nothing at all may be kept, not learnt from.
    if volume.counts.any() and (fault := faults.of_counts(volume.counts)):
        raise ValueError(
            f"{volume.source}: {fault}. Expected counts of particles or a density, never negative: of a contrast write "
            "the mean count times one plus the contrast"
        )
    return (zarrs if path.suffix == zarrs.SUFFIX else hdf5).save(volume, path, **attributes)


def open(source: Source) -> Iterator[Volume]:  # noqa: A001 the room's verb, as archive.open
    """Read all volumes of a folder, glob or list, one at a time; those that have been read already are passed on.

    Raises
    ------
    FileNotFoundError, TypeError
        As `files`.
    """
    if isinstance(source, Iterator):  # of volumes that may be too many for the memory
        for one in source:
            yield from open(one)
        return
    for one in _found(source):
        yield from [one] if isinstance(one, Volume) else read(one)


def scaling(unit: Values, physical: Values, names: Sequence[str] = ()) -> tuple[Values, Values]:
    """Lowest and highest physical value of each parameter's prior, from scaled and physical values of some universes.

    The files hold both, and the relation is a straight line: physical at -1 and at +1 are the prior's ends.

    Parameters
    ----------
    unit, physical
        (universes, parameters), of at least two universes.
    names
        Of the parameters, for messages.

    Raises
    ------
    ValueError
        If one universe only, or no straight line, relates them, or a parameter has one value alone.
    """
    if len(unit) < 2:
        raise ValueError(f"{counted(len(unit), 'universe')} cannot fix a scale; give at least two")
    if fault := faults.of_relation(unit, physical, names):
        raise ValueError(fault)
    if same := np.flatnonzero(np.ptp(unit, axis=0) == 0).tolist():
        which = ", ".join(names[i] if names else f"parameter {i}" for i in same)
        raise ValueError(f"{which} has one value in all universes, which does not tell its prior; leave it out")
    spread = unit - unit.mean(0)
    half = (spread * physical).sum(0) / (spread**2).sum(0)
    middle = (physical - half * unit).mean(0)
    return middle - half, middle + half


def to_unit(physical: ArrayLike, low: ArrayLike, high: ArrayLike) -> Values:
    """Physical values (..., parameters) in units of the flat prior that ends at ``low`` and ``high``: -1 to 1.

    Raises
    ------
    ValueError
        If a low end is not below the high one.
    """
    bottom, width = _ends(low, high)
    return 2 * (np.asarray(physical, dtype=np.float64) - bottom) / width - 1


def to_physical(unit: ArrayLike, low: ArrayLike, high: ArrayLike) -> Values:
    """Values in units of the flat prior (..., parameters) as physical ones: the way back from `to_unit`."""
    bottom, width = _ends(low, high)
    return bottom + (np.asarray(unit, dtype=np.float64) + 1) / 2 * width


def symmetry(counts: NDArray[Any], index: int) -> NDArray[Any]:
    """One of the 48 symmetries of the cube, as a view; all channels (last axis) turn together, 0 changes nothing."""
    if not 0 <= index < 48:
        raise ValueError(f"symmetry {index} does not exist; a cube has 48, 0 to 47")
    order = tuple(permutations(range(3)))[index // 8]
    turned = counts.transpose(*order, *range(3, counts.ndim))
    flips = tuple(axis for axis in range(3) if index % 8 >> axis & 1)
    return np.flip(turned, flips)


def _ends(low: ArrayLike, high: ArrayLike) -> tuple[Values, Values]:
    """Low end and width of a flat prior, of each parameter."""
    bottom, top = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    if not (bottom < top).all():
        raise ValueError(f"a prior from {low} to {high}; expected the low end of each parameter first, below the high")
    return bottom, top - bottom


def _found(source: Source) -> list[Path | Volume]:
    if isinstance(source, Volume):
        return [source]
    if isinstance(source, str | Path):
        return list(files(source))
    return [one for part in _parts(source) for one in _found(part)]


def _parts(source: Any) -> Iterable[Any]:
    """Give what may be several, or raise TypeError naming what it is instead."""
    if not isinstance(source, Iterable):
        raise TypeError(
            f"expected universes as a file, a folder, a glob pattern, a volume, or several of these; found a value of "
            f"type {type(source).__name__}"
        )
    return source


def _within(folder: Path) -> Iterator[Path]:
    """Volumes at any depth of a folder; a Zarr store is one, whatever lies in it."""
    for path in folder.iterdir():
        if path.is_dir() and path.suffix == zarrs.SUFFIX:
            yield path
        elif path.is_dir():
            yield from _within(path)
        elif path.suffix in SUFFIXES:
            yield path
