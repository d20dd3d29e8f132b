"""Watch a training while it runs: a bar, the curves, and the final picture that stays in the saved notebook."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from climlab_dl.bars import element, in_notebook
from climlab_dl.plot.curves import curves, png
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.summary import Summary

_ENDED = ("stopped", "finished", "failed")


class Comparison(Protocol):
    """Several trainings side by side (``cluster.sweep``)."""

    def active(self) -> bool:
        """Whether something still trains."""
        ...

    def table(self) -> pd.DataFrame:
        """One row a training."""
        ...


class Watchable(Protocol):
    """What can be watched: a training's handle, or its folder."""

    def status(self) -> dict[str, Any]:
        """State, step, steps and message."""
        ...

    def progress(self) -> pd.DataFrame:
        """One row a report."""
        ...


def watch(training: "Watchable | Comparison | str | Path", *, every: float = 0.5, figure_every: float = 1.0) -> None:
    """Show a training's progress until it ends; interrupting the cell ends the watching, not the training.

    In a notebook a bar with step, loss, held-out score, rate and time left is redrawn in place, and under it the
    curves. In a terminal each new report is a line.

    Parameters
    ----------
    training
        Handle (``engines.train(...)``, ``cluster.attach(...)``), the run's folder, or a sweep, which shows its table.
    every
        Seconds between looks at the folder.
    figure_every
        Seconds between drawings of the curves, which are drawn only when there is something new.

    Raises
    ------
    Exception
        What ended the training, if it failed and the handle knows (``training.wait()``).
    FileNotFoundError
        If there is no such folder.
    """
    watched: Any = RunFolder(training) if isinstance(training, str | Path) else training
    look = _looks_at_table(watched) if hasattr(watched, "table") else _looks_at_training(watched, figure_every)
    try:
        while True:
            if look():
                break
            time.sleep(every)
    except KeyboardInterrupt:
        _say("stopped watching; the training goes on: training.stop() ends it, live.watch(training) watches again")
        return
    if wait := getattr(watched, "wait", None):
        wait()


def _looks_at_training(watched: Watchable, figure_every: float) -> Callable[[], bool]:
    view = _NotebookView(figure_every) if in_notebook() else _TerminalView()

    def look() -> bool:
        # The status first: when it says "finished", the table read after it is complete.
        status = watched.status()
        progress = watched.progress()
        ended = status["state"] in _ENDED
        view.show(Summary.of(status, progress), progress, last=ended)
        return ended

    return look


def _looks_at_table(watched: Comparison) -> Callable[[], bool]:
    shown: list[Any] = []

    def look() -> bool:
        ended = not watched.active()
        table = watched.table()
        text = table.to_string(na_rep="", float_format=lambda value: f"{value:.4g}")
        if not in_notebook():
            if shown[-1:] != [text]:
                shown.append(text)
                _say(text)
            return ended
        from IPython.display import display

        html = table.to_html(na_rep="", float_format=lambda value: f"{value:.4g}")
        data = {"text/html": html, "text/plain": text}
        if shown:
            shown[0].update(data, raw=True)
        else:
            shown.append(display(data, raw=True, display_id=True))
        return ended

    return look


def _say(text: str) -> None:
    if in_notebook():
        from IPython.display import display

        display({"text/plain": text}, raw=True)
    else:
        print(text, flush=True)


class _NotebookView:
    """A bar and a figure, each updated in place."""

    def __init__(self, figure_every: float) -> None:
        from IPython.display import display

        self._figure_every = figure_every
        self._bar: Any = display({"text/plain": "starting"}, raw=True, display_id=True)
        self._figure: Any = None
        self._drawn = (0.0, -1)
        self._cost = 0.0

    def show(self, summary: Summary, progress: pd.DataFrame, *, last: bool) -> None:
        text = str(summary)
        html = element(summary.step, summary.steps, text)
        self._bar.update({"text/html": html, "text/plain": text}, raw=True)
        when, rows = self._drawn
        # Drawing is to cost a small share of a core, also on a machine where it takes long.
        due = time.monotonic() - when > max(self._figure_every, 5 * self._cost) and len(progress) != rows
        if due or last:
            began = time.thread_time()
            self._draw(curves(progress, text if last else "", steps=summary.steps), text)
            self._cost = time.thread_time() - began if rows >= 0 else 0.0  # the first imports matplotlib
            self._drawn = time.monotonic(), len(progress)

    def _draw(self, figure: Any, text: str) -> None:
        import base64

        from IPython.display import display

        data = {"image/png": base64.b64encode(png(figure)).decode(), "text/plain": f"curves: {text}"}
        if self._figure is None:
            self._figure = display(data, raw=True, display_id=True)
        else:
            self._figure.update(data, raw=True)


class _TerminalView:
    """A line for each new report or change of state."""

    def __init__(self) -> None:
        self._shown: tuple[str, str, int] | None = None

    def show(self, summary: Summary, progress: pd.DataFrame, *, last: bool) -> None:
        news = (summary.state, summary.message, len(progress))
        if news != self._shown:
            self._shown = news
            _say(str(summary))
