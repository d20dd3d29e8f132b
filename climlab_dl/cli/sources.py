"""What files that a verb is given are: climate, or volumes of the universe."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from climlab_dl.cli.app import renamed, source_of

if TYPE_CHECKING:
    import xarray as xr


def opened(files: tuple[str, ...], names: tuple[str, ...]) -> "xr.Dataset":
    """Open climate files; end the program where they are volumes."""
    from climlab_dl import archive

    if are_volumes(files):
        sys.exit(f"climlab-dl: {files[0]} has volumes of the universe, no climate; check, convert and train take them")
    return archive.open(source_of(files), names=renamed(names))


def are_volumes(files: tuple[str, ...]) -> bool:
    """Whether files are volumes of the universe, by what is in the first that tells: a cube, records, or a field."""
    from climlab_dl.cosmology import volumes

    try:
        paths = volumes.there(source_of(files))[0]
    except (OSError, ValueError):
        return False  # for archive.open to say what is wrong
    return next((one for path in paths if (one := _is_volume(path)) is not None), False)


def _is_volume(path: Path) -> bool | None:
    """Whether a file is a volume, by its content; None of one that is not what its name says, and so tells nothing."""
    from climlab_dl.cosmology import hdf5

    try:
        if path.is_dir():
            return (path / "full").exists()
        if not path.is_file():
            return False  # to open a pipe would be to wait for who writes it
        with path.open("rb") as file:
            is_hdf5 = file.read(len(hdf5.MAGIC)) == hdf5.MAGIC
        if is_hdf5:
            return hdf5.holds_volume(path)
        return True if ".tfrecord" in path.name else None if path.suffix in (*hdf5.SUFFIXES, ".gz") else False
    except (OSError, ValueError):
        return None


def refuse_volumes(files: tuple[str, ...], remedy: str) -> None:
    """Refuse volumes of the universe where climate is asked for."""
    if are_volumes(files):
        raise ValueError(f"{files[0]} has volumes of the universe, no climate; {remedy}")
