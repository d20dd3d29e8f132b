"""Files that are written beside the old one and renamed: a reader sees the old or the new, never a half.

What the file system refuses (a full disk, a quota, a folder that is not ours) ends in a message that names the path,
the room that is left and what to do, whichever library was writing: NetCDF, HDF5, Zarr, or a table.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_STORE = ("zarr.json", ".zgroup", ".zmetadata")
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the quota is used up",
    errno.EFBIG: "no file may grow larger here (ulimit -f)",
}
_FORBIDDEN = {
    errno.EACCES: "there is no permission to write there",
    errno.EPERM: "there is no permission to write there",
    errno.EROFS: "its file system is read-only",
}
_LITTLE = 2**26
"""Bytes below which a disk counts as full, when a library failed without saying why."""
_PROBE = 2**22
_TOKEN_BYTES = 6


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file as it was when it was opened, by which one that has taken its place since is told from it.

    Its size and its time are enough; its number is not looked at, because file systems in user space, and those of
    other hosts, may give the same file another one.

    Attributes
    ----------
    path
        The file, or a Zarr store, which is told by its metadata.
    size
        In bytes.
    modified
        When it was last written, in nanoseconds since 1970.
    """

    path: Path
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> "Stamp":
        """Look at a file."""
        told = next((path / mark for mark in _STORE if (path / mark).exists()), path) if path.is_dir() else path
        there = told.stat()
        return cls(path, there.st_size, there.st_mtime_ns)

    def check(self) -> None:
        """Look again.

        Raises
        ------
        FileNotFoundError
            If the file was deleted.
        OSError
            If another one, or other content, is in its place.
        """
        try:
            now = Stamp.of(self.path)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(
                f"{self.path} was deleted since it was opened; put it back, or open the archive again without it."
            ) from None
        if now != self:
            raise OSError(
                f"{self.path} was replaced or changed since it was opened (then {self}, now {now}); "
                "open the archive again."
            )

    def __str__(self) -> str:
        return f"{self.size:,} bytes of {datetime.fromtimestamp(self.modified / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Give a path to write to; what is there at the end, file or folder, takes the place of ``path`` in one step.

    When writing fails nothing is left, and what was at ``path`` stays. Who has the old file open keeps reading it.

    Raises
    ------
    IsADirectoryError
        If a folder is there that is no Zarr store: what else lies in it would be lost.
    OSError
        If the disk is full, or (PermissionError) the folder may not be written to.
    """
    # Unlike Path.is_dir, this does not mind a folder that may not be looked into.
    if os.path.isdir(path) and not any((path / mark).exists() for mark in _STORE):
        raise IsADirectoryError(f"{path} is a folder, which would be lost; give the name of a file in it, or another")
    with _workshop(path, path.parent) as folder:
        new = folder / path.name
        yield new
        if path.is_dir():
            os.rename(path, folder / "old")
        os.replace(new, path)


def hidden(name: str) -> str:
    """Give a name that nothing has, for what is to become the file ``name``; `sweep` knows it."""
    return f".{name}.{secrets.token_hex(_TOKEN_BYTES)}"


def sweep(folder: Path, name: str = "*") -> None:
    """Delete what killed processes have left of files that they wrote `beside`; for who alone writes such files there.

    Parameters
    ----------
    folder
        Where they lie.
    name
        Of the files, or a pattern.
    """
    for left in folder.glob(f".{name}.{'[0-9a-f]' * (2 * _TOKEN_BYTES)}"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> Path:
    """Write text `beside` what is at ``path``, in UTF-8; give the path back."""
    with beside(path) as new:
        new.write_text(text, encoding="utf-8")
    return path


@contextmanager
def filled(folder: Path) -> Iterator[Path]:
    """Give a folder to write files to; at the end they move into ``folder``, in place of those of the same names.

    When writing fails, ``folder`` is as it was before.

    Raises
    ------
    OSError
        As `beside`.
    """
    was_there = folder.exists()
    try:
        with _workshop(folder, folder) as new:
            yield new
            for file in sorted(new.iterdir()):
                os.replace(file, folder / file.name)
    except BaseException:
        if not was_there and folder.exists():
            folder.rmdir()
        raise


def refuse_unwritable(path: Path) -> None:
    """Raise now what `beside` would after long work, if the folder of ``path`` may not be written to."""
    there = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    with _workshop(path, there):
        pass


@contextmanager
def _workshop(path: Path, place: Path) -> Iterator[Path]:
    """Give a temporary folder in ``place``, and say what is wrong when ``path`` cannot be written with its help."""
    # Named before it is there, so that no signal comes between its making and what takes it away.
    folder = place / hidden(path.name)
    try:
        _make(folder, path, place)
        try:
            yield folder
        except (OSError, RuntimeError) as error:
            number = getattr(error, "errno", None)
            if number not in _FULL:
                # HDF5 and NetCDF do not pass on what the file system said; it is asked again.
                number = _refusal(folder)
            if number is None:
                raise
            raise _explained(error, number, path, place) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make(folder: Path, path: Path, place: Path) -> None:
    try:
        place.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except (FileExistsError, NotADirectoryError):
        other = next(parent for parent in (place, *place.parents) if os.path.lexists(parent) and not parent.is_dir())
        what = "a link to what is not there" if other.is_symlink() and not other.exists() else "a file, not a folder"
        raise NotADirectoryError(f"{path} cannot be written: {other} is {what}") from None
    except OSError as error:
        raise _explained(error, error.errno, path, place) from error


def _refusal(folder: Path) -> int | None:
    """Ask for a little more room in the largest file of a folder; give the error's number if there is none."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    largest = max(files, key=lambda file: file.stat().st_size, default=folder / "probe")
    try:
        with largest.open("ab") as file:
            file.write(bytes(_PROBE))
            file.flush()
            os.fsync(file.fileno())
        return errno.ENOSPC if shutil.disk_usage(folder).free < _LITTLE else None
    except OSError as error:
        return error.errno if error.errno in _FULL else None


def _explained(error: Exception, number: int | None, path: Path, place: Path) -> OSError:
    """Build the error for a path that cannot be written: why, and what to do."""
    if number in _FULL:
        free = shutil.disk_usage(next(p for p in (place, *place.absolute().parents) if p.is_dir())).free
        said = "" if getattr(error, "errno", None) == number else f"; the library says: {error}"
        why = f"{_FULL[number]} ({free / 1e6:,.1f} MB are free in {place}{said})"
        found = OSError(f"{path} cannot be written: {why}. Make room, or write elsewhere; no half of it is left.")
    elif number in _FORBIDDEN:
        found = PermissionError(
            f"{path} cannot be written: {_FORBIDDEN[number]} ({place}). "
            "Write to a folder of yours, or have its owner open it to you."
        )
    else:
        found = OSError(f"{path} cannot be written: {error}")
    found.errno = number
    return found
