"""The file of a run's reports, read as it grows: only what is new is read, however long it has become. No torch."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pandas as pd

_FIRST = ("step", "steps", "epoch", "loss", "learning_rate", "rate", "waiting", "seconds")
_WHOLE = ("step", "steps", "epoch")


class Reports:
    """A file of one JSON object a line, as a table that keeps what it has read.

    Parameters
    ----------
    path
        The file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._file, self._end = -1, 0
        self._table: pd.DataFrame = table([])

    def table(self) -> pd.DataFrame:
        """Give the reports so far, one row each; a line without its newline is still being written, and left out."""
        with self._lock:
            try:
                with self._path.open("rb") as file:
                    facts = os.fstat(file.fileno())
                    # A training that resumes drops the reports after its checkpoint: another file of the same name.
                    if facts.st_ino != self._file or facts.st_size < self._end:
                        self._forget()
                        self._file = facts.st_ino
                    file.seek(self._end)
                    lines, newline, _ = file.read().rpartition(b"\n")
            except FileNotFoundError:
                self._forget()
                return self._table
            if newline:
                self._end += len(lines) + 1
                fresh = table([report for line in lines.splitlines() if (report := parsed(line))])
                joined = pd.concat([self._table, fresh], ignore_index=True) if len(self._table) else fresh
                names = [name for name in joined.columns if name not in _FIRST]
                self._table = joined.reindex(columns=[*_FIRST, *names])
            return self._table.copy(deep=False)  # a view that is copied when somebody writes to it


def parsed(line: str | bytes) -> dict[str, Any] | None:
    """Read a report; None if the line is none, as the end of a file may be that a machine wrote when its power went."""
    try:
        report = json.loads(line)
    except ValueError:
        return None
    return report if isinstance(report, dict) and {"step", "metrics"} <= report.keys() else None


def table(reports: list[dict[str, Any]]) -> pd.DataFrame:
    """Make a table of reports: metrics are columns, NaN where a report did not evaluate."""
    found = pd.DataFrame([{**report.pop("metrics"), **report} for report in reports])
    names = [name for name in found.columns if name not in _FIRST]
    types = {name: float for name in (*_FIRST, *names) if name not in _WHOLE}
    return found.reindex(columns=[*_FIRST, *names]).astype(types)
