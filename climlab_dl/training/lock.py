"""One training at a time in a folder, and no folder locked by a process that is gone."""

import contextlib
import fcntl
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from climlab_dl.files import hidden, sweep

logger = logging.getLogger(__name__)
STALE_SECONDS = 600.0
BEAT_SECONDS = 30.0


class Lock:
    """A folder's file ``lock`` while this process holds it; a thread touches it, as a sign of life for other hosts.

    Parameters
    ----------
    path
        The file.

    Attributes
    ----------
    lost
        Who has taken the folder meanwhile, in words; empty as long as nobody has.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.lost = path, ""
        self.me = {"host": socket.gethostname(), "pid": os.getpid(), "started": psutil.Process().create_time()}
        self._ended = threading.Event()

    def take(self) -> None:
        """Take the folder; from a process that has died on this host, or has not touched it for ten minutes on another.

        Raises
        ------
        RuntimeError
            If another process is at work in the folder.
        """
        with _alone(self.path.parent):
            sweep(self.path.parent, self.path.name)
            if not self._claim():
                _refuse_if_alive(self.path)
                self.path.unlink(missing_ok=True)
                if not self._claim():
                    raise RuntimeError(f"another training has just begun in {self.path.parent}; choose another folder")
        threading.Thread(target=self._beat, name="lock of the run folder", daemon=True).start()

    def beat(self) -> None:
        """Touch the file; make it again if somebody has deleted it, and note if it is another's."""
        with contextlib.suppress(OSError), _alone(self.path.parent):  # a folder out of reach for a while is no loss
            owner = _owner(self.path)
            if owner == self.me:
                os.utime(self.path)
            elif owner is None and self._claim():
                logger.warning("%s was deleted while its training goes on, and is made again", self.path)
            else:
                owner = owner or {}
                self.lost = (
                    f"process {owner.get('pid')} on {owner.get('host')} has taken {self.path.parent}, in which this "
                    "one trains; two would write over each other, so this one ends here"
                )

    def release(self) -> None:
        """Give the folder back, unless it is another's by now."""
        self._ended.set()
        with contextlib.suppress(FileNotFoundError), _alone(self.path.parent):  # the folder itself may be gone
            if _owner(self.path) == self.me:
                self.path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self.beat()

    def _claim(self) -> bool:
        """Put the file there whole, if there is none."""
        new = self.path.with_name(hidden(self.path.name))
        try:
            new.write_text(json.dumps(self.me), encoding="utf-8")
            try:
                os.link(new, self.path)
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                with self.path.open("x", encoding="utf-8") as file:
                    json.dump(self.me, file)
        except FileExistsError:
            return False
        finally:
            new.unlink(missing_ok=True)
        return True


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[Lock]:
    """Hold the folder in the body.

    Raises
    ------
    RuntimeError
        If another process is at work in the folder.
    """
    lock = Lock(folder / "lock")
    lock.take()
    try:
        yield lock
    finally:
        lock.release()


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Look and act without another process of this host in between; ends with the process, whatever ends it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems lock nothing; the file is put there whole all the same
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _owner(path: Path) -> dict[str, Any] | None:
    """Say who holds a lock; None if it is not there, nothing where it is damaged."""
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _refuse_if_alive(path: Path) -> None:
    owner = _owner(path)
    try:
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return  # it has just been released
    if not owner or not {"host", "pid", "started"} <= owner.keys():
        logger.warning("taking over %s, whose lock says nothing that can be understood", path.parent)
        return
    host, pid, started = owner["host"], owner["pid"], owner["started"]
    here = host == socket.gethostname()
    if (here and pid != os.getpid() and _is_running(pid, started)) or (not here and age < STALE_SECONDS):
        raise RuntimeError(
            f"process {pid} on {host} is training in {path.parent}: wait for it, stop it, or choose another folder. "
            f"If it is gone, delete {path}"
        )
    logger.warning("taking over %s, whose training (process %s on %s) is gone", path.parent, pid, host)


def _is_running(pid: Any, started: Any) -> bool:
    try:
        return abs(psutil.Process(pid).create_time() - started) < 1
    except (psutil.NoSuchProcess, ValueError, TypeError):
        return False
