"""A training: a folder, and the engines that fill it if this kernel started it."""

import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from climlab_dl import cards
from climlab_dl.parallel.cluster.processes import alive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.summary import Summary

if TYPE_CHECKING:
    import pandas as pd

    from climlab_dl.parallel.cluster.engines import Engines

_ENDED = ("stopped", "finished", "failed")


def _gone(status: dict[str, Any]) -> bool:
    """Whether a training that should be active has lost its process on this machine."""
    here = status.get("host") == socket.gethostname()
    return status["state"] not in _ENDED and here and not alive(status["pid"])


class Training:
    """Handle of a training. It reads the run's folder, so it tells the same from any kernel that sees the folder.

    Parameters
    ----------
    folder
        The run's folder.
    engines, run
        What trains it; without, the handle belongs to a training that somebody else started.
    max_restarts
        How often ranks that die are started again.
    detach
        Whether the training goes on when this kernel ends.
    timeout
        Seconds after which ranks give up waiting for one that does not come.
    """

    def __init__(
        self,
        folder: str | Path,
        engines: "Engines | None" = None,
        run: Any = None,
        *,
        max_restarts: int = 2,
        detach: bool = False,
        timeout: float = 600.0,
    ) -> None:
        self.folder = RunFolder(folder)
        self.run = run
        self.max_restarts = max_restarts
        self.detach = detach
        self.timeout = timeout
        self.restarts = 0
        self._engines = engines
        self._error: BaseException | None = None
        self._ended: threading.Event | None = None  # set once it has ended, if this kernel started it
        if engines is not None:
            self._begin(engines)

    def _begin(self, engines: "Engines") -> None:
        from climlab_dl.training.lock import refuse_if_taken
        from climlab_dl.training.run import has_steps_left

        refuse_if_taken(self.folder.path)
        left = has_steps_left(self.run, self.folder)
        self._error, self.restarts = None, 0
        # Not the thread itself: an interrupted Thread.join() takes a running thread for ended (Python 3.11).
        self._ended = threading.Event()
        if not left:
            self._ended.set()
            return
        self.folder.begin(self.run.to_json())
        engines.engage(self)
        threading.Thread(target=self._follow, args=(engines, self._ended), name="training", daemon=True).start()

    def _follow(self, engines: "Engines", ended: threading.Event) -> None:
        """Train to the end, starting ranks that die again; the error that ends it waits for :meth:`wait`."""
        try:
            while self._train(engines):
                pass
        except BaseException as error:
            self._error = error
            self._write("failed", f"{type(error).__name__}: {error}")
        finally:
            ended.set()

    def _train(self, engines: "Engines") -> bool:
        """Train until it ends or ranks die; returns whether they were started again to go on."""
        try:
            engines.train_on_all(self.run, self.folder.path, self.timeout)
            return False
        except ChildProcessError as death:
            if engines.closed:
                return self._abandon()
            if self.restarts == self.max_restarts:
                raise
            self.restarts += 1
            checkpoint = self.folder.latest()
            origin = f"continues from {checkpoint.name}" if checkpoint else "starts over, there was no checkpoint"
            self._write("starting", f"{death}; restart {self.restarts} of {self.max_restarts}, {origin}")
            try:
                engines.restart()
                engines.engage(self)
            except (RuntimeError, OSError) as failure:
                if engines.closed:
                    return self._abandon()
                failure.add_note(f"They were to be started again because {death}")
                raise
            return True

    def _abandon(self) -> bool:
        checkpoint = self.folder.latest()
        origin = checkpoint.name if checkpoint else "its beginning"
        self._write("stopped", f"the engines were closed before its next step; it resumes from {origin}")
        return False

    def _write(self, state: Any, message: str) -> None:
        status = self.folder.status()
        self.folder.write_status(state, step=status["step"], steps=status["steps"], message=message)

    # Reading.

    def active(self) -> bool:
        """Whether it is still starting or training."""
        if self._ended is not None:
            return not self._ended.is_set()
        return self.status()["state"] not in _ENDED

    def status(self) -> dict[str, Any]:
        """State ("starting", "running", "stopped", "finished", "failed"), step, steps, time, message, host, pid."""
        status = self.folder.status()
        # Nobody is left to write "failed" where ranks and kernel were killed together.
        if self._ended is None and _gone(status):
            time.sleep(1.0)  # a restart is announced within a fraction of that
            status = self.folder.status()
            if _gone(status):
                status |= {"state": "failed", "message": f"process {status['pid']} that trained it is gone"}
        return status

    def progress(self) -> "pd.DataFrame":
        """Table of the reports so far: step, epoch, loss, learning rate, rate and held-out metrics."""
        return self.folder.progress()

    def summary(self) -> Summary:
        """Give the latest figures, and how long it will still take."""
        return Summary.of(self.status(), self.progress())

    # Steering.

    def wait(self, timeout: float | None = None) -> "Training":
        """Wait until it has ended; interrupting the wait does not interrupt the training.

        Raises
        ------
        Exception
            What ended it, if it failed: the exception of the rank that raised it, with rank and traceback in its notes.
        TimeoutError
            If it has not ended within ``timeout`` seconds.
        """
        deadline = time.monotonic() + (float("inf") if timeout is None else timeout)
        while self.active():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.folder.path} has not ended within {timeout:g} s: {self.summary()}")
            self._ended.wait(0.2) if self._ended is not None else time.sleep(0.5)
        if self._error is not None:
            raise self._error
        status = self.status()
        if status["state"] == "failed":
            raise RuntimeError(f"{self.folder.path} failed at step {status['step']}: {status['message']}")
        return self

    def stop(self, timeout: float = 120.0) -> "Training":
        """Ask it to checkpoint and end at its next step, the same on all ranks, and wait for that.

        Raises
        ------
        TimeoutError
            If it has not ended within ``timeout`` seconds; ``engines.restart()`` ends ranks by force.
        """
        self.ask_to_stop()
        return self.wait(timeout)

    def ask_to_stop(self, timeout: float = 0.0) -> None:
        """Ask for what :meth:`stop` does, and wait at most ``timeout`` seconds for it."""
        if self.active():
            self.folder.request_stop()
        self.join(timeout)

    def join(self, timeout: float | None = None) -> None:
        """Wait until the ranks' results are in, if this kernel started the training; raises nothing."""
        if self._ended is not None:
            self._ended.wait(timeout)

    def resume(self, engines: "Engines | None" = None, *, allow: Sequence[type] = ()) -> "Training":
        """Continue from the latest checkpoint; returns at once.

        Parameters
        ----------
        engines
            Where to continue; by default where it was trained before, if this kernel did that.
        allow
            Your own dataclasses that the run may hold, such as that of a network, if this kernel did not start it.

        Raises
        ------
        RuntimeError
            If it is still training.
        ValueError
            If there are no engines to continue on, or the run holds a part that is neither this package's nor in
            ``allow``.
        """
        if self.active():
            raise RuntimeError(
                f"{self.folder.path} is still training: {self.summary()}. There is nothing to resume; stop() ends it, "
                "live.watch(training) shows it"
            )
        engines = engines or self._engines
        if engines is None:
            raise ValueError("this training was started elsewhere: pass engines=cluster.start(...) to continue it here")
        if self.run is None:
            from climlab_dl.training.run import Run

            self.run = Run.from_json(self.folder.described(), allow=allow)
        self._engines = engines
        engines.check_idle()
        self._begin(engines)
        return self

    # How it shows itself.

    def __repr__(self) -> str:
        return f"Training({self.folder.path}: {self.summary()})"

    def _repr_html_(self) -> str:
        rows = self.summary().rows() | {"folder": str(self.folder.path)}
        if self._engines is not None:
            rows["ranks"] = repr(self._engines)
        if self.restarts:
            rows["restarts"] = f"{self.restarts} of at most {self.max_restarts}"
        return cards.card(rows, "Training")
