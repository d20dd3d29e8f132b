"""SIGTERM, SIGINT, SIGUSR1 and SIGHUP as requests to stop after the step: batch systems and people send them."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from climlab_dl.parallel import ranks

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP)


class Caught:
    """What signals have come, and what they do.

    Attributes
    ----------
    number
        Of the signal that came; 0 before.
    waits
        Whether a signal waits for the end of a step. Before there are steps, which may be minutes, it ends the rank.
    """

    number = 0
    waits = False

    @property
    def name(self) -> str:
        """Name of the signal that came, if one did."""
        return named(self.number)


def named(number: int) -> str:
    """Name a signal; 0 is none, which has no name."""
    return signal.Signals(number).name if number else ""


@contextlib.contextmanager
def caught(*, waits: bool = False) -> Iterator[Caught]:
    """Note signals in the body instead of dying of them; a second SIGINT interrupts at once.

    Signals reach the main thread only, so in others nothing changes.

    Parameters
    ----------
    waits
        As of `Caught`, from the beginning.

    Raises
    ------
    KeyboardInterrupt
        At a signal before `Caught.waits`, saying which rank it came to: the others only see that one gone.
    """
    seen = Caught()
    seen.waits = waits

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGINT and seen.number:
            raise KeyboardInterrupt
        seen.number = number
        if not seen.waits:
            raise KeyboardInterrupt(
                f"stopped by {seen.name}, which came to rank {ranks.rank()} of {ranks.size()}, before the first step; "
                "train again with the same folder to begin, or to resume"
            )

    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    # Under nohup, which ignores its end, a training outlives the terminal.
    nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    before = {n: signal.signal(n, note) for n in _SIGNALS if not (nohup and n == signal.SIGHUP)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
