"""Watch a training while it runs: a bar, the curves, and the final picture that stays in the saved notebook."""

import time
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from climlab_dl.bars import element, in_notebook
from climlab_dl.plot.curves import curves, png
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.summary import Summary

_ENDED = ("stopped", "finished", "failed")


class Watchable(Protocol):
    """What can be watched: a training's handle, or its folder."""

    def status(self) -> dict[str, Any]:
        """State, step, steps and message."""
        ...

    def progress(self) -> pd.DataFrame:
        """One row a report."""
        ...


def watch(training: "Watchable | str | Path", *, every: float = 0.5, figure_every: float = 1.0) -> None:
    """Show a training's progress until it ends; interrupting the cell ends the watching, not the training.

    In a notebook a bar with step, loss, held-out score, rate and time left is redrawn in place, and under it the
    curves. In a terminal each new report is a line.

    Parameters
    ----------
    training
        Handle (``engines.train(...)``, ``cluster.attach(...)``) or the run's folder.
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
    watched: Watchable = RunFolder(training) if isinstance(training, str | Path) else training
    view = _NotebookView(figure_every) if in_notebook() else _TerminalView()
    try:
        while True:
            # The status first: when it says "finished", the table read after it is complete.
            status = watched.status()
            progress = watched.progress()
            ended = status["state"] in _ENDED
            view.show(Summary.of(status, progress), progress, last=ended)
            if ended:
                break
            time.sleep(every)
    except KeyboardInterrupt:
        view.say("stopped watching; the training goes on: training.stop() ends it, live.watch(training) watches again")
        return
    if wait := getattr(watched, "wait", None):
        wait()


class _NotebookView:
    """A bar and a figure, each updated in place."""

    def __init__(self, figure_every: float) -> None:
        from IPython.display import display

        self._figure_every = figure_every
        self._bar: Any = display({"text/plain": "starting"}, raw=True, display_id=True)
        self._figure: Any = None
        self._drawn = (0.0, -1)

    def show(self, summary: Summary, progress: pd.DataFrame, *, last: bool) -> None:
        text = str(summary)
        html = element(summary.step, summary.steps, text)
        self._bar.update({"text/html": html, "text/plain": text}, raw=True)
        when, rows = self._drawn
        due = time.monotonic() - when > self._figure_every and len(progress) != rows
        if due or last:
            self._draw(curves(progress, text if last else "", steps=summary.steps), text)
            self._drawn = time.monotonic(), len(progress)

    def _draw(self, figure: Any, text: str) -> None:
        import base64

        from IPython.display import display

        data = {"image/png": base64.b64encode(png(figure)).decode(), "text/plain": f"curves: {text}"}
        if self._figure is None:
            self._figure = display(data, raw=True, display_id=True)
        else:
            self._figure.update(data, raw=True)

    def say(self, text: str) -> None:
        from IPython.display import display

        display({"text/plain": text}, raw=True)


class _TerminalView:
    """A line for each new report or change of state."""

    def __init__(self) -> None:
        self._shown: tuple[str, str, int] | None = None

    def show(self, summary: Summary, progress: pd.DataFrame, *, last: bool) -> None:
        news = (summary.state, summary.message, len(progress))
        if news != self._shown:
            self._shown = news
            self.say(str(summary))

    def say(self, text: str) -> None:
        print(text, flush=True)
