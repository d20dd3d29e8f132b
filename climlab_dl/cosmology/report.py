"""What was found in files of volumes, in a few lines however many they are."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from climlab_dl.cosmology import faults
from climlab_dl.cosmology.cube import Volume
from climlab_dl.words import counted

_NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was found in files of volumes.

    Attributes
    ----------
    volumes
        How many could be read.
    lines
        What they are: counts, redshifts, boxes and parameters, from the lowest to the highest, and what is not told.
    problems
        Why files cannot be used, or not together: each reason once, with the first file that it holds of.
    """

    volumes: int
    lines: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every file can be used, and all together."""
        return not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Plain types throughout, for JSON."""
        return {"lines": list(self.lines), "problems": list(self.problems), "ok": self.ok}

    def __str__(self) -> str:
        end = f"{counted(self.volumes, 'volume')}, {counted(len(self.problems), 'problem')}"
        return "\n".join([*self.lines, *(f"problem: {problem}" for problem in self.problems), end])


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a report tells of one volume: its outline, numbers of its counts at each redshift, and their digest."""

    outline: Volume
    mean: NDArray[np.float64]
    empty: NDArray[np.float64]
    largest: NDArray[np.float64]
    digest: int

    @classmethod
    def of(cls, volume: Volume) -> "Seen":
        """Look at a volume, which may be forgotten then."""
        counts, cells = volume.counts, (0, 1, 2)
        return cls(
            outline=faults.outline(volume),
            mean=counts.mean(cells, dtype=np.float64),
            empty=(counts == 0).mean(cells),
            largest=counts.max(cells).astype(np.float64),
            digest=faults.digest(counts),
        )


def summary(seen: Sequence[Seen]) -> tuple[str, ...]:
    """Say in a few lines what volumes are, and what their files do not tell; nothing of none."""
    if not seen:
        return ()
    told = [one.outline for one in seen]
    facts = {
        "counts": _kinds(told, lambda volume: f"{volume.counts.shape} {volume.counts.dtype}"),
        "redshifts": _kinds(told, _redshifts),
        "box": _kinds(told, _box),
        "mean count": _spans([one.mean for one in seen], ".3g"),
        "empty cells": _spans([one.empty for one in seen], ".0%"),
        "largest count": _spans([one.largest for one in seen], "g"),
        "parameters": _parameters(told, lambda volume: volume.physical),
        "scaled to -1..1": _parameters(told, lambda volume: volume.unit),
        "not told": _untold(told),
    }
    return tuple(f"{name:<15}  {text}" for name, text in facts.items() if text)


def each_once(problems: Iterable[tuple[Path, str]]) -> tuple[str, ...]:
    """Tell problems of files, those alike but for the file and numbers once, with the first file and how many more."""
    alike: dict[str, list[str]] = {}
    for path, text in problems:
        alike.setdefault(_NUMBER.sub("", text.replace(str(path), "")), []).append(text)
    return tuple(texts[0] + (f" (and {len(texts) - 1} more)" if len(texts) > 1 else "") for texts in alike.values())


def _kinds(told: list[Volume], name: Callable[[Volume], str]) -> str:
    """Name what there is, the most common first; how many are of each kind where there are several."""
    kinds = Counter(name(volume) for volume in told).most_common()
    return ", ".join(f"{kind or 'not told'} ({count})" for kind, count in kinds) if len(kinds) > 1 else kinds[0][0]


def _redshifts(volume: Volume) -> str:
    return "" if volume.redshifts is None else " ".join(f"{z:g}" for z in volume.redshifts)


def _box(volume: Volume) -> str:
    side = "" if volume.box_size_mpc_h is None else f"{volume.box_size_mpc_h:g} Mpc/h, "
    return f"{side}{'periodic' if volume.periodic else 'not periodic'}"


def _spans(rows: list[NDArray[np.float64]], form: str) -> str:
    """Lowest to highest of each redshift, where all have as many."""
    if len({len(row) for row in rows}) > 1:
        return ""
    return ", ".join(_span(column, form) for column in np.array(rows).T)


def _parameters(told: list[Volume], values: Callable[[Volume], NDArray[np.float64] | None]) -> str:
    """Lowest to highest of each parameter, by its name or else its number."""
    found: dict[str, list[float]] = {}
    for volume in told:
        for number, value in enumerate(() if (those := values(volume)) is None else those.tolist()):
            name = volume.names[number] if number < len(volume.names) else f"parameter {number}"
            found.setdefault(name, []).append(value)
    return ", ".join(f"{name} {_span(np.array(column), '.4g')}" for name, column in found.items())


def _untold(told: list[Volume]) -> str:
    lacking = Counter(
        name
        for volume in told
        for name, fact in {
            "names (namePar)": volume.names or None,
            "parameters (physPar)": volume.physical,
            "prior (unitPar)": volume.unit,
            "box (box_size_mpc_h)": volume.box_size_mpc_h,
            "redshifts": volume.redshifts,
        }.items()
        if fact is None
    )
    return ", ".join(name if count == len(told) else f"{name} of {count}" for name, count in lacking.items())


def _span(values: NDArray[np.float64], form: str) -> str:
    ends = f"{values.min():{form}}", f"{values.max():{form}}"
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)
