"""Files that are written beside the old one and renamed: a reader sees the old or the new, never a half."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Give a path to write to; what is there at the end, file or folder, takes the place of ``path`` in one step.

    When writing fails nothing is left, and what was at ``path`` stays. Who has the old file open keeps reading it.

    Raises
    ------
    IsADirectoryError
        If a folder is there that is no Zarr store: what else lies in it would be lost.
    """
    if path.is_dir() and not any((path / mark).exists() for mark in ("zarr.json", ".zgroup", ".zmetadata")):
        raise IsADirectoryError(f"{path} is a folder, which would be lost; give the name of a file in it, or another")
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        new = folder / path.name
        yield new
        if path.is_dir():
            os.rename(path, folder / "old")
        os.replace(new, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
