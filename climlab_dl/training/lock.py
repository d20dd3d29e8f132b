"""One training at a time in a folder, and no folder locked by a process that is gone."""

import contextlib
import fcntl
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from climlab_dl.files import hidden, sweep

logger = logging.getLogger(__name__)
_held: set[str] = set()  # tokens of this process's locks
STALE_SECONDS = 600.0
BEAT_SECONDS = 30.0
ALONE_SECONDS = 5.0


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
        started = psutil.Process().create_time()
        self.me: dict[str, Any] = {"host": socket.gethostname(), "pid": os.getpid(), "started": started}
        self.me["token"] = secrets.token_hex(8)  # of several locks of one process
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
                refuse_if_taken(self.path.parent)
                owner = _owner(self.path) or {}
                who = f"process {owner.get('pid')} on {owner.get('host')}" if owner else "its lock says nothing"
                logger.warning("taking over %s, whose training (%s) is gone", self.path.parent, who)
                self.path.unlink(missing_ok=True)
                if not self._claim():
                    raise RuntimeError(f"another training has just begun in {self.path.parent}; choose another folder")
            _held.add(self.me["token"])
        threading.Thread(target=self._beat, name="lock of the run folder", daemon=True).start()

    def beat(self) -> None:
        """Touch the file; make it again if somebody has deleted or emptied it, and note if it is another's."""
        with contextlib.suppress(OSError), _alone(self.path.parent):  # a folder out of reach for a while is no loss
            owner = _owner(self.path)
            if self._ended.is_set():
                return
            if owner == self.me:
                os.utime(self.path)
                return
            if not owner:
                self.path.unlink(missing_ok=True)
                if self._claim():
                    logger.warning("%s was deleted while its training goes on, and is made again", self.path)
                    return
                owner = _owner(self.path) or {}
            self.lost = (
                f"process {owner.get('pid')} on {owner.get('host')} has taken {self.path.parent}, in which this "
                "one trains; two would write over each other, so this one ends here"
            )

    def release(self) -> None:
        """Give the folder back, unless it is another's by now, or this is a copy of the process that took it."""
        if os.getpid() != self.me["pid"]:
            return
        self._ended.set()
        _held.discard(self.me["token"])
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
    """Look and act without another process of this host in between; ends with the process, whatever ends it.

    Where somebody holds the folder itself for long, or the file system locks nothing, it goes without: the file is put
    there whole all the same.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + ALONE_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(0.01)
                    continue
            except OSError:
                pass
            break
        yield
    finally:
        os.close(descriptor)


def _owner(path: Path) -> dict[str, Any] | None:
    """Say who holds a lock; None if it is not there, nothing where it is damaged."""
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, IsADirectoryError):
        return {}
    return owner if isinstance(owner, dict) else {}


def refuse_if_taken(folder: Path) -> None:
    """Refuse to train in a folder in which another training is at work.

    Raises
    ------
    RuntimeError
        Naming its process and host.
    """
    path = folder / "lock"
    owner = _owner(path)
    if not owner or not {"host", "pid", "started"} <= owner.keys():
        return
    host, pid = owner["host"], owner["pid"]
    try:
        silent = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return  # it has just been released
    if host != socket.gethostname():
        alive = silent < STALE_SECONDS
    elif pid == os.getpid():
        alive = owner.get("token") in _held
    else:
        alive = _is_running(pid, owner["started"])
    if alive:
        raise RuntimeError(
            f"process {pid} on {host} is training in {folder}: wait for it, stop it, or choose another folder. "
            f"If it is gone, delete {path}"
        )


def _is_running(pid: Any, started: Any) -> bool:
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - started) < 1
    except (psutil.NoSuchProcess, ValueError, TypeError):
        return False
