"""Trainings in a terminal: a line or a table that is redrawn in place; what is no terminal gets new lines."""

import os
import sys
from typing import Any

from climlab_dl.training.summary import Summary


def line() -> "Line | Lines":
    """Give what fits to standard output."""
    return Line() if sys.stdout.isatty() else Lines()


class Lines:
    """A line for each new report or change of state."""

    def __init__(self) -> None:
        self._shown: tuple[str, str, int] | None = None

    def show(self, summary: Summary, reports: int) -> None:
        """Write the summary, if it is news."""
        news = (summary.state, summary.message, reports)
        if news != self._shown:
            self._shown = news
            print(summary, flush=True)

    def leave(self) -> None:
        """Write no more."""


class Line:
    """A bar and the latest figures in one line, redrawn in place; at the end the whole summary."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._summary: Summary | None = None

    def show(self, summary: Summary, reports: int) -> None:
        """Redraw the line."""
        from tqdm import tqdm

        self._summary = summary
        if self._bar is None:
            self._bar = tqdm(bar_format="{bar:12} {desc}", dynamic_ncols=True, file=sys.stdout, total=1)
        self._bar.total, self._bar.n = max(summary.steps, 1), summary.step
        self._bar.set_description_str(summary.brief)

    def leave(self) -> None:
        """Leave the line as it is, and say below it all that is known."""
        if self._bar is not None:
            self._bar.close()
            print(self._summary, flush=True)


class Block:
    """A table, redrawn in place."""

    def __init__(self) -> None:
        self._text = ""

    def show(self, text: str) -> None:
        """Put the table in the place of the one before."""
        if text == self._text:
            return
        if sys.stdout.isatty():
            width = os.get_terminal_size(sys.stdout.fileno()).columns
            # Up to the first line of the table before, and clear all below.
            up = f"\x1b[{len(self._text.splitlines())}F\x1b[J" if self._text else ""
            text_there = "\n".join(row[:width] for row in text.splitlines())
            print(up + text_there, flush=True)
        else:
            print(text, flush=True)
        self._text = text
