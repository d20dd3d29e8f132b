"""Which rank tells of a failure that ends all of them: the one that has it, and one where all have the same. No torch.

The others keep their exceptions, so that callers can handle them, but print none.
"""

import contextlib
import sys
import time
from types import TracebackType
from typing import Any

# Rank 0 keeps the ranks' meeting place open for so long, that the others can ask whether they are to tell.
_PATIENCE = 2.0
_untold: list[BaseException] = []


def tells(error: BaseException) -> bool:
    """Whether this rank is the one to tell of an error that went through :func:`climlab_dl.parallel.ranks.joined`."""
    return not any(error is other for other in _untold)


def silence(error: BaseException) -> None:
    """Leave the telling of an error to another rank."""
    _untold.append(error)


def settle(error: BaseException, store: Any, rank: int, size: int) -> None:
    """Find out with the other ranks who tells of the errors that end them; needs no rank to be there.

    Parameters
    ----------
    error
        This rank's.
    store
        Where the ranks meet: anything with ``add(key, number)`` that returns the sum.
    rank, size
        This rank, and how many there are.
    """
    if isinstance(error, ConnectionError):
        return  # Each rank knows best what it waited for, and the meeting place may be what is cut off.
    with contextlib.suppress(RuntimeError):  # rank 0 is gone, and the meeting place with it
        if tells(error) and store.add(f"failed: {type(error).__name__}: {error}", 1) > 1:
            silence(error)
        deadline = time.monotonic() + _PATIENCE
        here = store.add("failures", 1)
        while rank == 0 and here < size and time.monotonic() < deadline:
            time.sleep(0.02)
            here = store.add("failures", 0)


def print_once() -> None:
    """Let the interpreter print only those uncaught errors that this rank is to tell."""
    if sys.excepthook is sys.__excepthook__:  # a kernel's or a debugger's own is left alone
        sys.excepthook = _print


def _print(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if tells(error):
        sys.__excepthook__(kind, error, trace)
