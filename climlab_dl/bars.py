"""A progress bar that lives in a notebook, a terminal and a saved page alike."""

import html
import sys
import time
from types import TracebackType
from typing import Any, Self

_AT_MOST_EVERY = 0.2


class Bar:
    """How far something is; a context manager that draws the last state when it ends, however it ends."""

    def __init__(self, total: int, description: str) -> None:
        self.done = 0
        self.total, self.description = total, description

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def advance(self, count: int = 1) -> None:
        """Count that many more as done."""
        raise NotImplementedError

    def close(self) -> None:
        """Draw the last state."""
        raise NotImplementedError


def bar(total: int, description: str) -> Bar:
    """Start a bar over ``total`` things: an HTML element in a notebook, tqdm's line elsewhere.

    Jupyter's own widgets need a running kernel; an element stays readable in the saved notebook and its pages.
    """
    return _NotebookBar(total, description) if in_notebook() else _TerminalBar(total, description)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, where displays can be updated in place."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return type(get_ipython()).__name__ == "ZMQInteractiveShell"


def element(done: float, total: float, text: str) -> str:
    """HTML of a bar with words beside it."""
    return (
        "<div style='font-family:monospace;white-space:pre-wrap'>"
        f"<progress value='{done:g}' max='{max(total, 1):g}' style='width:16em'></progress> {html.escape(text)}</div>"
    )


class _NotebookBar(Bar):
    def __init__(self, total: int, description: str) -> None:
        from IPython.display import display

        super().__init__(total, description)
        self._began = time.monotonic()
        self._drawn = 0.0
        self._display: Any = display(self._data(), raw=True, display_id=True)

    def advance(self, count: int = 1) -> None:
        self.done += count
        if time.monotonic() - self._drawn > _AT_MOST_EVERY:
            self.close()

    def close(self) -> None:
        self._drawn = time.monotonic()
        self._display.update(self._data(), raw=True)

    def _data(self) -> dict[str, str]:
        seconds = time.monotonic() - self._began
        text = f"{self.description} {self.done} of {self.total}, {seconds:.0f} s"
        if 0 < self.done < self.total:
            text += f", {seconds * (self.total - self.done) / self.done:.0f} s left"
        return {"text/html": element(self.done, self.total, text), "text/plain": text}


class _TerminalBar(Bar):
    def __init__(self, total: int, description: str) -> None:
        from tqdm import tqdm

        super().__init__(total, description)
        self._bar = tqdm(total=total, desc=description)

    def advance(self, count: int = 1) -> None:
        self.done += count
        self._bar.update(count)

    def close(self) -> None:
        self._bar.close()
