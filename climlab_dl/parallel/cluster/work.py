"""What runs on a rank: one call, whose result or exception travels back with the rank and the traceback."""

import contextlib
import gc
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a call on a rank."""

    rank: int
    result: Any = None
    error: BaseException | None = None
    time: float

    def value(self) -> Any:
        """Give the result, or raise the exception that the rank raised."""
        if self.error is not None:
            raise self.error
        return self.result


def perform(call: bytes) -> bytes:
    """Run a pickled ``(function, arguments)`` on this rank and give its pickled outcome.

    Classes and functions of the notebook travel by value, which is what cloudpickle does for ``__main__``.
    """
    from mpi4py import MPI

    rank = MPI.COMM_WORLD.rank
    try:
        function, arguments = cloudpickle.loads(call)
        result = function(*arguments)
        return cloudpickle.dumps(Outcome(rank=rank, result=result, time=time.time()))
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        story = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        error.add_note(f"Raised on rank {rank}:\n{story}")
        return cloudpickle.dumps(Outcome(rank=rank, error=_portable(error), time=time.time()))


def _portable(error: BaseException) -> BaseException:
    """Give the exception itself if it survives pickling whole, else a RuntimeError that tells as much."""
    try:
        if str(cloudpickle.loads(cloudpickle.dumps(error))) == str(error):
            return error
    except Exception:  # noqa: S110
        pass
    stand_in = RuntimeError(f"{type(error).__name__}: {error}")
    for note in error.__notes__:
        stand_in.add_note(note)
    return stand_in


def train_on_rank(run: Any, folder: Path, timeout: float) -> None:
    """Train a run on this rank, to its end; a rank that does not come for ``timeout`` seconds is given up."""
    from climlab_dl.parallel import ranks
    from climlab_dl.parallel.memory import keep_freed
    from climlab_dl.training.loop import Stopped, train

    keep_freed()
    # Searching all that was there before for garbage would cost up to 0.4 ms a step.
    gc.collect()
    gc.freeze()
    try:
        # Whoever waits for the ranks is told by the folder's status that a signal has stopped them.
        with ranks.joined(timeout=timeout), contextlib.suppress(Stopped):
            for _ in train(run, folder):
                pass
    finally:
        gc.unfreeze()


def call(function: Callable, *arguments: Any) -> bytes:
    """Pickle a call for :func:`perform`."""
    return cloudpickle.dumps((function, arguments))
