"""Volumes in HDF5: ExaLearn's layout, which this package writes, and its relatives, which it reads."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from climlab_dl.cosmology.cube import Volume
from climlab_dl.files import beside

if TYPE_CHECKING:
    import h5py

_COMPRESSED: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
MAGIC = b"\x89HDF\r\n\x1a\n"


def read(path: Path) -> Volume:
    """Read the one volume of a file: ExaLearn's ``full``, MLPerf's ``x`` and ``y``, or LBANN's channels first."""
    with _opened(path) as file:
        name = next((name for name in ("full", "x") if name in file), None)
        if name is None:
            raise ValueError(f"{path} has no dataset 'full' or 'x' (found: {', '.join(file) or 'nothing'})")
        counts = _channels_last(np.asarray(file[name]), path)

        def values(key: str) -> NDArray[np.float64] | None:
            return np.asarray(file[key], dtype=np.float64) if key in file else None

        raw = np.asarray(file["namePar"]).tolist() if "namePar" in file else []
        known = dict(file.attrs.items())
        return Volume(
            counts=counts,
            source=path,
            names=tuple(text.decode() if isinstance(text, bytes) else str(text) for text in raw),
            unit=values("unitPar") if "unitPar" in file else values("y"),
            physical=values("physPar"),
            redshifts=values("redshifts"),
            box_size_mpc_h=float(known["box_size_mpc_h"]) if "box_size_mpc_h" in known else None,
            periodic=bool(known.get("periodic", name == "full")),
            attributes={k: v for k, v in known.items() if k not in ("box_size_mpc_h", "periodic")},
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


def _channels_last(counts: NDArray[Any], path: Path) -> NDArray[Any]:
    shape: Sequence[int] = counts.shape
    if counts.ndim == 3 and len(set(shape)) == 1:
        return counts[..., None]
    if counts.ndim == 4 and shape[0] == shape[1] == shape[2]:
        return counts
    if counts.ndim == 4 and shape[1] == shape[2] == shape[3]:
        return np.moveaxis(counts, 0, -1)
    raise ValueError(
        f"{path} holds an array {tuple(shape)}; expected a cube (n, n, n), (n, n, n, channels) or (channels, n, n, n)"
    )
