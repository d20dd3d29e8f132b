"""SIGTERM, SIGINT and SIGUSR1 as requests to stop after the step: batch systems and people send them."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class Caught:
    """The name of the signal that came, if one did."""

    name = ""


@contextlib.contextmanager
def caught() -> Iterator[Caught]:
    """Note signals in the body instead of dying of them; a second SIGINT interrupts at once.

    Signals reach the main thread only, so in others nothing changes.
    """
    seen = Caught()

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        if seen.name and number == signal.SIGINT:
            raise KeyboardInterrupt
        seen.name = signal.Signals(number).name

    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
