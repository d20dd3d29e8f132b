"""Where the seconds of work go: by torch's operations, or by Python's functions, as a table and as a picture."""

import cProfile
import pstats
import re
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch
from torch.autograd.profiler_util import EventList
from torch.profiler import ProfilerActivity

from climlab_dl.files import beside
from climlab_dl.words import counted

_ROWS = 12


def by_operation(call: Callable[[], object]) -> pd.Series:
    """Seconds of torch's operations, without those that they call, longest first; on a GPU its kernels' seconds."""
    call()  # chooses kernels
    cuda = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * cuda]
    with torch.profiler.profile(activities=activities) as profiler:
        call()
    events: EventList = profiler.key_averages()
    own = "self_device_time_total" if cuda else "self_cpu_time_total"
    return _sorted({event.key: getattr(event, own) / 1e6 for event in events})


def by_function(call: Callable[[], object]) -> pd.Series:
    """Seconds on a core of Python's functions and those in C that they call, without what they call, longest first."""
    call()
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(call)
    seconds: dict[str, float] = {}
    for (file, _, name), (_, _, own, _, _) in pstats.Stats(profiler).stats.items():  # pyright: ignore
        where = "" if file == "~" else f" ({'/'.join(Path(file).parts[-2:])})"
        plain = re.sub(r"^<(?:built-in )?method '?(.+?)'?(?: of .*)?>$", r"\1", name)
        seconds[plain + where] = seconds.get(plain + where, 0.0) + own
    return _sorted(seconds)


def draw(seconds: pd.Series, title: str, path: Path) -> Path:
    """Draw the longest dozen as bars, with their share of all, and the rest as one bar below.

    Parameters
    ----------
    seconds
        From :func:`by_operation` or :func:`by_function`.
    title
        What was done, at what size, where.
    path
        ``*.png``.
    """
    from matplotlib.figure import Figure

    rest = seconds.iloc[_ROWS:]
    shown = pd.concat([seconds.iloc[:_ROWS], pd.Series({counted(len(rest), "other"): rest.sum()} if len(rest) else {})])
    figure = Figure(figsize=(9, 0.34 * len(shown) + 1), layout="constrained", dpi=110)
    axes = figure.add_subplot()
    bars = axes.barh(range(len(shown)), shown.to_numpy(), color="#31688e")
    if len(rest):
        bars[-1].set_color("#b0b0b0")
    axes.bar_label(bars, [f" {value:.3g} s, {value / seconds.sum():.0%}" for value in shown], fontsize=8)
    axes.set_yticks(range(len(shown)), [str(name)[-58:] for name in shown.index], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.set_xlabel("seconds, without what is called from there")
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with beside(path) as new:
        figure.savefig(new)
    return path


def _sorted(seconds: dict[str, float]) -> pd.Series:
    return pd.Series(seconds, dtype=float).sort_values(ascending=False)
