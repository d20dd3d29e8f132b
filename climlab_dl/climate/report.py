"""A report on an archive: what it holds, how it compares with what is possible, and what is wrong."""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from itertools import pairwise
from statistics import mode
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from dask.local import get_sync
from tqdm.auto import tqdm

from climlab_dl.climate import times
from climlab_dl.climate.checks import REMEDY, beyond
from climlab_dl.climate.fields import ACCUMULATED, CAM5, CLASSES, FIELDS, named, nearest
from climlab_dl.climate.grid import Grid
from climlab_dl.climate.labels import MASK
from climlab_dl.words import counted

_SHOWN = 5
"""How many gaps in time are printed; JSON has all."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What an archive holds, and what is wrong with it. Print it, or ask for ``ok``.

    Attributes
    ----------
    source : str
        What was checked.
    files : int
        Number of files that could be read.
    grid, calendar : str
    times : tuple of str
        First and last time.
    snapshots : int
    step : str
        The commonest time between two snapshots.
    gaps : tuple of str
        Times at which a snapshot is missing, by that step.
    holes : tuple of str
        A clause for each stretch of such times: how long it is, and the files on both sides.
    fields : DataFrame
        A row per field: ``unit``, ``lowest``, ``highest``, ``missing`` (share of NaN), ``possible_from``,
        ``possible_to``, ``ok``.
    classes : dict
        Share of the pixels in each class of the mask (empty without one), ``"unlabelled"`` among them.
    lacking : tuple of str
        Channels of CAM5 that are not there; empty where none of them is.
    unrecognised : tuple of str
        Variables on the grid that no field is known for.
    suggestions : dict
        Field that an unrecognised variable may be, by its name: a slip of the pen.
    problems : tuple of str
        What is wrong, a sentence each.
    """

    source: str
    files: int = 0
    grid: str = ""
    calendar: str = ""
    times: tuple[str, str] = ("", "")
    snapshots: int = 0
    step: str = ""
    gaps: tuple[str, ...] = ()
    holes: tuple[str, ...] = ()
    fields: pd.DataFrame = field(default_factory=pd.DataFrame)
    classes: dict[str, float] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()
    unrecognised: tuple[str, ...] = ()
    suggestions: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong. A gap in time is no fault."""
        return not self.problems

    @property
    def _sought(self) -> tuple[str, ...]:
        """Lacking fields that the default rules need, where a variable of unknown name may be one of them."""
        if not self.unrecognised:
            return ()
        from climlab_dl.climate.rules import Cyclones, Rivers

        needed = (*Rivers.kurth().needed(()), *Cyclones.kurth().needed(()))
        return tuple(name for name in self.lacking if name in needed)

    @property
    def _verdict(self) -> str:
        if not self.ok:
            return f"{len(self.problems)} problem(s)"
        lacking = [f"{counted(len(self.lacking), 'field')} lacking"] if self._sought else []
        missing = [f"{counted(len(self.gaps), 'snapshot')} missing"] if self.gaps else []
        return "; ".join(["readable", *missing, *lacking]) if missing or lacking else "as it should be"

    def to_dict(self) -> dict[str, Any]:
        """Plain types throughout, for JSON; fields as a list of rows."""
        plain = {f.name: getattr(self, f.name) for f in dataclass_fields(self)}
        rows = [{"field": name, **row} for name, row in self.fields.to_dict("index").items()]
        return {**plain, "fields": rows, "ok": self.ok}

    def _repr_html_(self) -> str:
        head, _, rest = str(self).partition("\n")
        color = "inherit" if self.ok else "#b30000"
        return f"<b style='color:{color}'>{html.escape(head)}</b><pre>{html.escape(rest)}</pre>"

    def __str__(self) -> str:
        lines = [f"{self.source}: {self._verdict}"]
        lines += [
            f"  ? {theirs} is no known name and left out; is it {ours}, {FIELDS[ours].long_name}? "
            f"Then pass names={{{theirs!r}: {ours!r}}}."
            for theirs, ours in self.suggestions.items()
        ]
        if self._sought and not self.suggestions:
            first = self._sought[0]
            lines.append(
                f"  ? Is one of the unknown {first}, {FIELDS[first].long_name}, or another that is lacking? "
                f"Then pass names={{'THEIRS': {first!r}}}."
            )
        if self.snapshots:
            gaps = f", {len(self.gaps)} missing:" if self.gaps else ", none missing"
            lines += [
                f"  files      {self.files}",
                f"  grid       {self.grid}",
                f"  calendar   {self.calendar}",
                f"  times      {self.snapshots}, {self.times[0]} to {self.times[1]}"
                + (f", every {self.step}{gaps}" if self.step else ""),
                *(f"             {hole}" for hole in self.holes[:_SHOWN]),
            ]
            if (more := len(self.holes) - _SHOWN) > 0:
                lines.append(f"             and {counted(more, 'gap')} more")
        if self.classes:
            lines.append("  mask       " + ", ".join(f"{name} {share:.3%}" for name, share in self.classes.items()))
        if self.lacking:
            lines.append(f"  lacks      {', '.join(self.lacking)}, of the {len(CAM5)} channels of CAM5 and DeepCAM")
        if self.unrecognised:
            lines.append(f"  unknown    {', '.join(self.unrecognised)}")
        if len(self.fields):
            lines += ["", *("  " + line for line in _table(self.fields).splitlines())]
        lines += [f"  ! {problem}" for problem in self.problems]
        if len(self.fields) and not np.all(self.fields["ok"]):
            lines.append(f"  {REMEDY}")
        return "\n".join(lines)


def survey(source: str, fields: xr.Dataset, problems: Sequence[str] = ()) -> Report:
    """Read every snapshot once, and report.

    Parameters
    ----------
    source : str
        What to call the archive in the report.
    fields : Dataset
        Lazy; read one snapshot at a time.
    problems : sequence of str
        What went wrong before.
    """
    problems = list(problems)
    files = fields.encoding["files"]
    names = [name for name in map(str, fields.data_vars) if name in FIELDS]
    extremes = {name: _Extremes(name) for name in names}
    counts = np.zeros(len(CLASSES) + 1, np.int64)
    unread: dict[str, list[str]] = {}
    when = _clocks(fields)
    for i, file in enumerate(tqdm(files, desc="checking", unit="snapshot", delay=2, leave=False)):
        snapshot = fields.isel(time=i)
        try:
            values = snapshot[names].compute(scheduler=get_sync)
        except OSError as error:  # one damaged block does not take away the report on all else
            unread.setdefault(str(error), []).append(when[i])
            continue
        for name in names:
            extremes[name].add(values[name].values, f"at {when[i]} in {file}")
        if MASK in fields:
            try:
                mask = snapshot[MASK].compute(scheduler=get_sync).values
                counts += np.bincount(mask.ravel() + 1, minlength=len(counts))
            except (OSError, ValueError) as error:
                problems.append(str(error))
    rows, all_of_them = {}, counted(len(files), "snapshot")
    problems += [f"{said} ({len(at)} of {all_of_them}, first at {at[0]})" for said, at in unread.items()]
    for name, seen in extremes.items():
        known = FIELDS[name]
        found = [f"{seen.problem} ({seen.wrong} of {all_of_them}, first {seen.first})"] if seen.wrong else []
        # What accumulates from one snapshot to the next may be missing in the first.
        if blank := [place for i, place in seen.blank.items() if i or name not in ACCUMULATED or not seen.numbers]:
            found.append(f"{name} has no number at all in {len(blank)} of {all_of_them} ({blank[0]})")
        problems += found
        rows[name] = {
            "unit": known.unit,
            "lowest": seen.lowest if seen.numbers else np.nan,
            "highest": seen.highest if seen.numbers else np.nan,
            "missing": 1 - seen.numbers / max(seen.pixels, 1),
            "possible_from": known.limits[0],
            "possible_to": known.limits[1],
            "ok": not found,
        }
    step, gaps, holes = _gaps(fields)
    lacking = [name for name in CAM5 if name not in fields]
    unrecognised = str(fields.attrs.get("unrecognised", "")).split()
    shares = dict(zip(("unlabelled", *CLASSES), counts / max(counts.sum(), 1), strict=True))
    return Report(
        source=source,
        files=len(set(files)),
        grid=str(Grid.of(fields["lat"].values, fields["lon"].values)),
        calendar=times.calendar(fields["time"]),
        times=(when[0], when[-1]),
        snapshots=fields.sizes["time"],
        step=step,
        gaps=gaps,
        holes=holes,
        fields=pd.DataFrame.from_dict(rows, orient="index"),
        classes={name: float(share) for name, share in shares.items()} if counts.sum() else {},
        lacking=tuple(lacking) if len(lacking) < len(CAM5) else (),
        unrecognised=tuple(unrecognised),
        suggestions={name: near for name in unrecognised if not named(name) and (near := nearest(name, names))},
        problems=tuple(dict.fromkeys(problems)),
    )


_CLOCK = "%Y-%m-%d %H:%M"


def _clocks(fields: xr.Dataset) -> list[str]:
    """Write times as the report does; numbers stay as they are."""
    dated = fields["time"].dtype.kind in "MO"
    return list(map(str, (fields["time"].dt.strftime(_CLOCK) if dated else fields["time"]).values))


@dataclass
class _Extremes:
    """Smallest and largest number of a field; what is wrong with the first snapshot that cannot be; the blank ones."""

    name: str
    lowest: float = np.inf
    highest: float = -np.inf
    problem: str = ""
    first: str = ""
    wrong: int = 0
    blank: dict[int, str] = field(default_factory=dict)
    snapshots: int = 0
    numbers: int = 0
    pixels: int = 0

    def add(self, values: np.ndarray, place: str) -> None:
        """Count the next snapshot, which is to be found at ``place``."""
        missing = int(np.isnan(values).sum())
        if missing == values.size:
            self.blank[self.snapshots] = place
        self.snapshots += 1
        self.pixels += values.size
        self.numbers += values.size - missing
        # fmin and fmax pass over NaN without a copy; only NaN gives NaN, which is neither less nor more.
        low, high = float(np.fmin.reduce(values, axis=None)), float(np.fmax.reduce(values, axis=None))
        if missing == values.size:
            return
        self.lowest, self.highest = min(self.lowest, low), max(self.highest, high)
        # Of one snapshot, because a mixture of two units looks like neither.
        if problem := beyond(self.name, low, high):
            self.wrong += 1
            if self.wrong == 1:
                self.problem, self.first = problem, place


def _gaps(fields: xr.Dataset) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Commonest step between snapshots, the times that are missing by it, and between which files they are."""
    if fields["time"].dtype.kind not in "MO" or fields.sizes["time"] < 3:
        return "", (), ()
    when = [t.to_pydatetime() if isinstance(t, pd.Timestamp) else t for t in fields["time"].to_index()]
    ahead = [b - a for a, b in pairwise(when) if b > a]  # a next run of the model starts over
    if not ahead:
        return "", (), ()
    step, missing, holes = mode(ahead), [], []
    for (a, before), (b, after) in pairwise(zip(when, fields.encoding["files"], strict=True)):
        times = [(a + k * step).strftime(_CLOCK) for k in range(1, round((b - a) / step))] if b > a else []
        if times:
            stretch = times[0] if len(times) == 1 else f"{len(times)} from {times[0]} to {times[-1]}"
            holes.append(f"{stretch}, " + (f"within {before}" if before == after else f"between {before} and {after}"))
        missing += times
    return f"{step.total_seconds() / 3600:g} h", tuple(missing), tuple(holes)


def _table(rows: pd.DataFrame) -> str:
    lines = [("", "unit", "lowest", "highest", "missing", "possible", "")]
    lines += [
        (name, row["unit"], f"{row['lowest']:.5g}", f"{row['highest']:.5g}", f"{row['missing']:.2%}",
         f"{row['possible_from']:g} to {row['possible_to']:g}", "" if row["ok"] else "<- look")
        for name, row in rows.to_dict("index").items()
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(f"{text:>{n}}" for text, n in zip(line, widths, strict=True)).rstrip() for line in lines)
