"""One training at a time in a folder, and no folder locked by a process that is gone."""

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

logger = logging.getLogger(__name__)
STALE_SECONDS = 600.0


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Hold the folder's file ``lock`` in the body; touch it (:func:`os.utime`) now and then.

    The lock of a process that has died on this host, or that has not been touched for ten minutes by another host, is
    taken over.

    Raises
    ------
    RuntimeError
        If another process is at work in the folder.
    """
    path = folder / "lock"
    me = {"host": socket.gethostname(), "pid": os.getpid(), "started": psutil.Process().create_time()}
    # A second try, because the lock that is in the way may be a dead one.
    if not _claim(path, me):
        _refuse_if_alive(path)
        path.unlink(missing_ok=True)
        if not _claim(path, me):
            raise RuntimeError(f"another training has just begun in {folder}; choose another folder")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _claim(path: Path, me: dict[str, object]) -> bool:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(me, file)
    return True


def _refuse_if_alive(path: Path) -> None:
    try:
        owner, age = json.loads(path.read_text(encoding="utf-8")), time.time() - path.stat().st_mtime
        host, pid, started = owner["host"], owner["pid"], owner["started"]
    except (FileNotFoundError, ValueError, KeyError):
        return  # It has just been released, or its writer was killed in the act.
    here = host == socket.gethostname()
    if (here and pid != os.getpid() and _is_running(pid, started)) or (not here and age < STALE_SECONDS):
        raise RuntimeError(
            f"process {pid} on {host} is training in {path.parent}: wait for it, stop it, or choose another folder. "
            f"If it is gone, delete {path}"
        )
    logger.warning("taking over %s, whose training (process %s on %s) is gone", path.parent, pid, host)


def _is_running(pid: int, started: float) -> bool:
    try:
        return abs(psutil.Process(pid).create_time() - started) < 1
    except psutil.NoSuchProcess:
        return False
