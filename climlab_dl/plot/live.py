"""Watch a training while it runs: a bar, the curves and what it says of something held out.

The last of each stays in the saved notebook.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from climlab_dl.bars import element, in_notebook
from climlab_dl.plot import terminal
from climlab_dl.plot.curves import compare, curves
from climlab_dl.plot.pictures import png
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.summary import Summary
from climlab_dl.training.table import Runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ENDED = ("stopped", "finished", "failed")


class Watchable(Protocol):
    """What can be watched: a training's handle."""

    @property
    def folder(self) -> RunFolder:
        """What it fills."""
        ...

    def status(self) -> dict[str, Any]:
        """State, step, steps and message."""
        ...

    def progress(self) -> pd.DataFrame:
        """One row a report."""
        ...


class Comparison(Protocol):
    """Several trainings side by side (``cluster.sweep``)."""

    @property
    def trainings(self) -> Mapping[str, Watchable]:
        """Those that have begun, by name."""
        ...

    def active(self) -> bool:
        """Whether something still trains."""
        ...

    def table(self) -> Runs:
        """One row a training."""
        ...


def watch(training: "Watchable | Comparison | str | Path", *, every: float = 0.5, figure_every: float = 1.0) -> None:
    """Show a training's progress until it ends; interrupting the cell ends the watching, not the training.

    In a notebook a bar with step, loss, held-out score, rate and time left is redrawn in place; under it the curves;
    and under those, after each evaluation, a held-out snapshot's mask beside the truth, or the estimates of held-out
    universes against it. A sweep shows its table and the curves of its runs. A terminal has the bar alone, a log file
    a line for each new report. All of it is read from the run's folder.

    Parameters
    ----------
    training
        Handle (``engines.train(...)``, ``cluster.attach(...)``), the run's folder, or a sweep.
    every
        Seconds between looks at the folder.
    figure_every
        Seconds between drawings, which happen only when there is something new.

    Raises
    ------
    Exception
        What ended the training, if it failed and the handle knows (``training.wait()``).
    FileNotFoundError
        If there is no such folder.
    """
    watched: Any = RunFolder(training) if isinstance(training, str | Path) else training
    several = hasattr(watched, "table")
    view = _SweepView(watched, figure_every) if several else _TrainingView(watched, figure_every)
    try:
        while not view.look():
            time.sleep(every)
    except KeyboardInterrupt:
        view.leave()
        goes_on = "the runs go on: sweep.stop(name)" if several else "the training goes on: training.stop()"
        _say(f"stopped watching; {goes_on} ends it, live.watch(...) watches again")
        return
    view.leave()
    if wait := getattr(watched, "wait", None):
        wait()


class _TrainingView:
    """What is shown of one training."""

    def __init__(self, watched: Watchable | RunFolder, figure_every: float) -> None:
        self._watched = watched
        self._folder = watched if isinstance(watched, RunFolder) else watched.folder
        self._bar = _Shown()
        self._curves, self._seen = _Picture("curves", figure_every), _Picture("held out", figure_every)
        self._line = terminal.line()

    def look(self) -> bool:
        """Show what is new; whether that was the end."""
        # The status first: when it says "finished", the table read after it is complete.
        status = self._watched.status()
        progress = self._watched.progress()
        ended = status["state"] in _ENDED
        summary = Summary.of(status, progress)
        if not in_notebook():
            self._line.show(summary, len(progress))
            return ended
        text = str(summary)
        self._bar.show({"text/html": element(summary.step, summary.steps, text), "text/plain": text})
        title = text if ended else ""
        self._curves.show(len(progress), lambda: curves(progress, title, steps=summary.steps), text, last=ended)
        if self._folder.held_out_nc.exists():
            news = self._folder.held_out_nc.stat().st_mtime_ns
            self._seen.show(news, self._held_out, "the network beside the truth", last=ended)
        return ended

    def leave(self) -> None:
        """Look no more."""
        if not in_notebook():
            self._line.leave()

    def _held_out(self) -> "Figure":
        from climlab_dl.plot.held_out import held_out

        seen = self._folder.held_out()
        assert seen is not None  # the file is only ever replaced
        return held_out(seen)


class _SweepView:
    """What is shown of several trainings."""

    def __init__(self, watched: Comparison, figure_every: float) -> None:
        self._watched = watched
        self._table, self._curves = _Shown(), _Picture("curves", figure_every)
        self._block = terminal.Block()

    def look(self) -> bool:
        """Show what is new; whether that was the end."""
        ended = not self._watched.active()
        table = self._watched.table()
        text = table.to_string(na_rep="", float_format=lambda value: f"{value:.4g}")
        if not in_notebook():
            self._block.show(text)
            return ended
        self._table.show({"text/html": table._repr_html_(), "text/plain": text})
        trainings = dict(self._watched.trainings)
        runs = {name: training.progress() for name, training in trainings.items()}
        steps = max((training.status()["steps"] for training in trainings.values()), default=0)
        self._curves.show(sum(map(len, runs.values())), lambda: compare(runs, steps=steps), text, last=ended)
        return ended

    def leave(self) -> None:
        """Look no more."""


def _say(text: str) -> None:
    if in_notebook():
        from IPython.display import display

        display({"text/plain": text}, raw=True)
    else:
        print(text, flush=True)


class _Shown:
    """An output of the cell, replaced in place when it changes."""

    def __init__(self) -> None:
        self._display: Any = None
        self._data: dict[str, str] = {}

    def show(self, data: dict[str, str]) -> None:
        from IPython.display import display

        if self._display is None:
            self._display = display(data, raw=True, display_id=True)
        elif data != self._data:
            self._display.update(data, raw=True)
        self._data = data


class _Picture:
    """A figure in the cell, drawn when there is news, and so seldom that it costs a small share of a core."""

    def __init__(self, name: str, every: float) -> None:
        self._name, self._every = name, every
        self._shown = _Shown()
        self._when, self._news, self._cost = 0.0, -1, 0.0

    def show(self, news: int, draw: Callable[[], "Figure"], said: str, *, last: bool) -> None:
        due = time.monotonic() - self._when > max(self._every, 5 * self._cost) and news != self._news
        if not (due or last):
            return
        import base64

        began = time.thread_time()
        picture = base64.b64encode(png(draw())).decode()
        self._shown.show({"image/png": picture, "text/plain": f"{self._name}: {said}"})
        # The first drawing imports matplotlib, which says nothing of the next.
        self._cost = time.thread_time() - began if self._news >= 0 else 0.0
        self._when, self._news = time.monotonic(), news
