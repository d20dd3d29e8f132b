"""Volumes in HDF5: ExaLearn's layout, which this package writes, and its relatives, which it reads."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from climlab_dl.cosmology.cube import Volume, channels_last, names_of
from climlab_dl.files import beside

if TYPE_CHECKING:
    import h5py

_COMPRESSED: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
_OF_A_MAP = re.compile("(x|r|nav_|grid_)?(lat|lon)", re.IGNORECASE)
SUFFIXES = (".h5", ".hdf5", ".hdf")
_KNOWN = ("namePar", "unitPar", "physPar", "redshifts", "box_size_mpc_h", "periodic")
MAGIC = b"\x89HDF\r\n\x1a\n"


def read(path: Path) -> Volume:
    """Read the one volume of a file: ExaLearn's ``full``, MLPerf's ``x`` and ``y``, or LBANN's channels first.

    All but the counts is taken from a dataset or, where there is none of that name, from an attribute of the file.
    """
    with _opened(path) as file:
        name = _cube(file)
        if name is None:
            there = ", ".join(_datasets(file)) or "nothing"
            raise ValueError(f"{path} has no dataset 'full' or 'x' that is a cube (found: {there}){_remedy(file)}")
        counts = channels_last(np.asarray(file[name]), path)

        def told(*keys: str) -> Any:
            where = [kept[key] for key in keys for kept in (file, file.attrs) if key in kept]
            return np.asarray(where[0]) if where else None

        side, periodic = told("box_size_mpc_h"), told("periodic")
        if np.size(side) != 1:
            raise ValueError(f"{path} has a box_size_mpc_h of {np.size(side)} values; expected one, the cube's side")
        return Volume(
            counts=counts,
            source=path,
            names=names_of(told("namePar")),
            unit=told("unitPar", "y"),
            physical=told("physPar"),
            redshifts=told("redshifts"),
            box_size_mpc_h=None if side is None else float(np.ravel(side)[0]),
            periodic=name == "full" if periodic is None else bool(periodic),
            attributes={key: value for key, value in file.attrs.items() if key not in _KNOWN},
        )


def save(volume: Volume, path: str | Path, **attributes: Any) -> Path:
    """Write an HDF5 file in the ExaLearn layout, beside and then renamed.

    Datasets ``full`` (x, y, z, redshifts), ``unitPar``, ``physPar``, ``namePar``, ``redshifts``; attributes
    ``box_size_mpc_h`` and what is given. Counts are chunked by 64 voxels a side and compressed (gzip level 1 after byte
    shuffling), which any HDF5 reads.
    """
    import h5py

    path = Path(path)
    chunks = (*(min(64, n) for n in volume.counts.shape[:3]), volume.counts.shape[3])
    with beside(path) as new, h5py.File(new, "w") as file:
        file.create_dataset("full", data=volume.counts, chunks=chunks, **_COMPRESSED)
        known = {"unitPar": volume.unit, "physPar": volume.physical, "redshifts": volume.redshifts}
        for name, values in known.items():
            if values is not None:
                file[name] = np.asarray(values, dtype=np.float64)
        if volume.names:
            file["namePar"] = np.array(volume.names, dtype="S")
        if volume.box_size_mpc_h is not None:
            file.attrs["box_size_mpc_h"] = volume.box_size_mpc_h
        file.attrs["periodic"] = volume.periodic
        file.attrs.update({**volume.attributes, **attributes})
    return path


def holds_volume(path: Path) -> bool:
    """Whether an HDF5 file has a cube of counts, be it under a name that :func:`read` asks to change."""
    with _opened(path) as file:
        return (_cube(file) or _renamable(file)) is not None


def attributes(path: str | Path) -> dict[str, Any]:
    """Attributes of an HDF5 volume, without reading its counts."""
    with _opened(Path(path)) as file:
        return {name: value.item() if isinstance(value, np.generic) else value for name, value in file.attrs.items()}


@contextmanager
def _opened(path: Path) -> "Iterator[h5py.File]":
    """Open for reading; HDF5's own messages name neither the file nor the remedy."""
    import h5py

    try:
        with h5py.File(path, "r", locking=False) as file:
            yield file
    except OSError as fault:
        raise ValueError(
            f"{path} is truncated or damaged ({fault}); copy it again, or delete it and simulate again"
        ) from fault


def _cube(file: "h5py.File") -> str | None:
    """Name of the dataset with the counts."""
    return next((name for name in ("full", "x") if getattr(file.get(name), "ndim", 0) >= 3), None)


def _datasets(file: "h5py.File") -> "dict[str, h5py.Dataset]":
    """All datasets by their paths, at whatever depth of groups."""
    import h5py

    found: dict[str, h5py.Dataset] = {}
    file.visititems(lambda path, one: found.update({path: one}) if isinstance(one, h5py.Dataset) else None)
    return found


def _remedy(file: "h5py.File") -> str:
    """Say how the cube of another name becomes counts that can be read; nothing if there is none."""
    name = _renamable(file)
    if name is None:
        return ""
    values = _datasets(file)[name]
    if (least := min(float(np.min(values[i])) for i in range(len(values)))) < 0:
        return (
            f"; {name} goes down to {least:g}, so that it is a contrast and no counts: write the mean count times one "
            "plus the contrast as 'full'"
        )
    return f"; rename it, in Python: h5py.File({file.filename!r}, 'a').move({name!r}, 'full')"


def _renamable(file: "h5py.File") -> str | None:
    """Path of a dataset that is a cube by its shape, where nothing tells of a map."""
    datasets = _datasets(file)
    if any(_OF_A_MAP.match(path.rpartition("/")[2]) for path in datasets):
        return None
    for path, one in datasets.items():
        ends = one.shape[:3], one.shape[-3:]
        if one.dtype.kind in "iuf" and one.ndim in (3, 4) and any(min(end) == max(end) > 1 for end in ends):
            return path
    return None
