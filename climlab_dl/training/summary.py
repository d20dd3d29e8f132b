"""The latest figures of a training in words: what a handle, a progress bar and a line of a log say alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# Time left is judged from the latest reports, so that a slow start (reading, warming up) is soon forgotten.
_RECENT = 20
_STEADY = 5
_MEAN_IOU = "IoU (mean of classes)"


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Where a training stands.

    Attributes
    ----------
    state, step, steps, message
        As in its status.
    loss, waiting
        Of the latest report; the share of the time in which the ranks waited for samples to be read. None before it.
    rate
        Samples per second over all ranks, the median of the latest five reports. None before the first.
    scores
        Latest held-out IoU and errors with their baselines, by name.
    remaining
        Seconds that it will still take, or None where that is not known.
    """

    state: str
    step: int
    steps: int
    message: str
    loss: float | None
    rate: float | None
    waiting: float | None
    scores: dict[str, float]
    remaining: float | None

    @classmethod
    def of(cls, status: Mapping[str, Any], progress: "pd.DataFrame") -> "Summary":
        """Summarise a status and a table of progress."""
        latest = progress.iloc[-1] if len(progress) else None
        step = max(int(status["step"]), 0 if latest is None else int(latest["step"]))
        steps = max(int(status["steps"]), 0 if latest is None else int(latest["steps"]))
        active = status["state"] in ("starting", "running")
        return cls(
            state=status["state"],
            step=step,
            steps=steps,
            message=status.get("message", ""),
            loss=None if latest is None else float(latest["loss"]),
            rate=None if latest is None else recent_rate(progress),
            waiting=_number(latest, "waiting"),
            scores=_scores(progress),
            remaining=_remaining(progress, step, steps) if active else None,
        )

    @property
    def score(self) -> str:
        """The leading held-out metric in words, or an empty string before the first evaluation."""
        if "iou_mean" in self.scores:
            return f"{_MEAN_IOU} {self.scores['iou_mean']:.3f}"
        if "mae_mean" in self.scores:
            return f"error {self.scores['mae_mean'] / self.scores['baseline_mae_mean']:.2f} of the prior's"
        return ""

    def rows(self) -> dict[str, str]:
        """Name and value of all that is known."""
        known = {
            "state": f"{self.state}: {self.message}" if self.message else self.state,
            "step": f"{self.step} of {self.steps}" if self.steps else str(self.step),
            "loss": "" if self.loss is None else f"{self.loss:.4g}",
            "held out": self.score,
            "rate": "" if self.rate is None else f"{self.rate:.3g} samples/s",
            "input": "" if self.waiting is None else f"waiting for input {self.waiting:.1%}".replace("%", " %"),
            "left": "" if self.remaining is None else duration(self.remaining),
        }
        return {name: value for name, value in known.items() if value}

    @property
    def brief(self) -> str:
        """What a line of a terminal holds: no state while it is running, nothing of the input, the score in short."""
        rows = self.rows()
        state = [] if rows["state"] == "running" else [rows["state"]]
        rows.pop("input", None)
        figures = [figure.replace(_MEAN_IOU, "mean IoU") for figure in self._figures(rows)]
        return " · ".join([*state, rows["step"].replace(" of ", "/"), *figures])

    def __str__(self) -> str:
        rows = self.rows()
        return " · ".join([rows["state"], f"step {rows['step']}", *self._figures(rows)])

    def _figures(self, rows: dict[str, str]) -> list[str]:
        parts = [f"loss {rows['loss']}"] if "loss" in rows else []
        parts += [rows[name] for name in ("held out", "rate", "input") if name in rows]
        return [*parts, f"{rows['left']} left"] if "left" in rows else parts


def _number(latest: "pd.Series | None", name: str) -> float | None:
    """Give a figure that reports of older versions do not have."""
    value = np.nan if latest is None else float(latest.to_dict().get(name, np.nan))
    return None if np.isnan(value) else value


def recent_rate(progress: "pd.DataFrame") -> float:
    """Median of the latest reports' samples per second: the last one may be of a step or two. NaN before the first."""
    rates = progress["rate"].to_numpy(dtype=float)[-_STEADY:]
    return float(np.median(rates)) if rates.size else np.nan


def duration(seconds: float) -> str:
    """Write a duration in its two leading units: "41 s", "3 min 20 s", "2 h 5 min"."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def _scores(progress: "pd.DataFrame") -> dict[str, float]:
    names = [name for name in progress.columns if name.startswith(("iou_", "mae_", "baseline_"))]
    evaluated = progress[names].dropna(how="all")
    return {str(name): float(value) for name, value in evaluated.iloc[-1].items()} if len(evaluated) else {}


def _remaining(progress: "pd.DataFrame", step: int, steps: int) -> float | None:
    at, seconds = progress["step"].to_numpy(dtype=float), progress["seconds"].to_numpy(dtype=float)
    # Each start of a training counts its seconds anew.
    start = int(np.flatnonzero(np.diff(seconds, prepend=np.inf) < 0)[-1]) if len(seconds) else 0
    at, seconds = at[start:][-_RECENT:], seconds[start:][-_RECENT:]
    if len(at) < 2 or not steps or at[-1] <= at[0]:
        return None
    return (steps - step) * float((seconds[-1] - seconds[0]) / (at[-1] - at[0]))
