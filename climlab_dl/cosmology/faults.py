"""What cannot be true of a volume by itself, of two side by side, and of all together.

A check of files and a training ask the same questions, so that what one passes the other takes.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from climlab_dl.cosmology.cube import Volume
from climlab_dl.words import counted


def of_counts(counts: NDArray[Any]) -> str:
    """Say why these cannot be counts; nothing if they can."""
    if counts.dtype.kind == "f" and not np.isfinite(counts).all():
        return "densities are not all finite"
    if counts.min() < 0:
        return f"counts go down to {counts.min():g}; an overflow of int16 or a contrast instead of counts"
    if counts.max() == 0:
        return "it holds no particle"
    return ""


def of_facts(volume: Volume) -> Iterator[str]:
    """Name what cannot be true of all that is told of a volume besides its counts (x, y, z, redshifts)."""
    side, channels, names = volume.box_size_mpc_h, volume.counts.shape[3], volume.names
    if side is not None and not 0 < side < np.inf:
        yield f"box_size_mpc_h = {side:g}; expected the cube's side in Mpc/h, above 0, or nothing where it is not known"
    if twice := sorted({name for name in names if names.count(name) > 1}):
        yield f"names has {', '.join(twice)} twice; expected a name of its own for each parameter"
    for name, values, wanted, of in (
        ("redshifts", volume.redshifts, channels, "for the channels of counts"),
        ("physical", volume.physical, len(names) or None, f"for {', '.join(names)}"),
        ("unit", volume.unit, len(names) or None, f"for {', '.join(names)}"),
    ):
        if values is not None and wanted is not None and len(values) != wanted:
            yield f"{name} has {counted(len(values), 'value')}; expected {wanted}, {of}"
        if values is not None and not np.isfinite(values).all():
            yield f"{name} is {', '.join(f'{value:g}' for value in values)}; expected finite numbers, or nothing at all"


def outline(volume: Volume) -> Volume:
    """All but the counts: these become a view of a single zero, of their shape and type."""
    return replace(volume, counts=np.broadcast_to(np.zeros((), volume.counts.dtype), volume.counts.shape))


def between(volume: Volume, first: Volume, chosen: tuple[str, ...] = ()) -> Iterator[str]:
    """Name what a volume has otherwise than another, so that one network cannot learn from both.

    Where one of the two does not tell something, they do not differ in it.

    Parameters
    ----------
    volume, first
        The one that is looked at, and the one that it is compared to; their counts do not matter.
    chosen
        Parameters that are taken by their names, whatever else there is; by default all, in their order.

    Yields
    ------
    str
        What was found, expected and where that is so, and what to do, to follow "this file has".
    """
    where, apart = f"as in {first.source}", "learn from each kind in a folder of its own"
    if volume.counts.shape != first.counts.shape:
        yield f"a volume {volume.counts.shape}; expected {first.counts.shape}, {where}: {apart}"
    if not _same_box(volume, first):
        yield (
            f"a box of {volume.box_size_mpc_h:g} Mpc/h; expected {first.box_size_mpc_h:g}, {where}: {apart}, or "
            "correct box_size_mpc_h where it is wrong"
        )
    if volume.periodic != first.periodic:
        yield (
            f"periodic = {volume.periodic}; expected {first.periodic}, {where}: {apart}, or correct periodic where it "
            "is wrong"
        )
    told, expected = volume.redshifts, first.redshifts
    if told is not None and expected is not None and (len(told) != len(expected) or not np.allclose(told, expected)):
        both = tuple(z for z in expected.tolist() if np.isclose(z, told).any())
        remedy = f"to take them by their values, wherever they lie in a file: redshifts={both}" if both else apart
        yield f"redshifts {_listed(told)}; expected {_listed(expected)}, {where}: {remedy}"
    if not set(chosen) <= set(volume.names) or (not chosen and volume.names != first.names):
        both = tuple(name for name in first.names if name in volume.names)
        remedy = f"to take them by their names, wherever they lie in a file: parameters={both}" if both else apart
        yield (
            f"parameters {', '.join(volume.names) or 'without names'}; expected "
            f"{', '.join(chosen or first.names) or 'none with names'}, {where}: {remedy}"
        )


def of_relation(
    unit: NDArray[np.float64], physical: NDArray[np.float64], names: Sequence[str] = (), sources: Sequence[Path] = ()
) -> str:
    """Say why scaled and physical parameters (universes, parameters) are not of one prior; nothing if they may be.

    Of each parameter one is a straight line in the other, and grows with it. Two universes always fit one.
    """
    count = unit.shape[1]
    off = [i for i in range(count) if not _on_a_line(unit[:, i], physical[:, i])]
    name = [names[i] if names else f"parameter {i}" for i in range(count)]
    if not off:
        falling = [name[i] for i in range(count) if _falls(unit[:, i], physical[:, i])]
        return (
            f"unitPar falls as physPar grows for {', '.join(falling)}; expected -1 at the prior's low end and 1 at its "
            "high end: write 2 (physPar - low) / (high - low) - 1"
            if falling
            else ""
        )
    found = f"unitPar and physPar are not on a straight line for {', '.join(name[i] for i in off)}"
    lies = {i: next((j for j in range(count) if _on_a_line(unit[:, j], physical[:, i])), None) for i in off}
    if None not in lies.values():
        swapped = ", ".join(f"{name[j]} for {name[i]}" for i, j in lies.items() if j is not None)
        return f"{found}, but they are where unitPar's order is another ({swapped}): write both in the order of namePar"
    furthest = int(np.argmax(np.sum([_share(unit[:, i], physical[:, i]) for i in off], axis=0)))
    where = f" (most of all {sources[furthest]})" if sources else ""
    return (
        f"{found}: some of these files{where} have them in another order, or were made with different priors; write "
        "both in the order of namePar, or split the files by prior"
    )


def of_means(sources: Sequence[Path], means: NDArray[np.float64], redshifts: NDArray[np.float64] | None) -> str:
    """Say that mean counts (volumes, redshifts) are too far apart for universes of one kind; nothing if they are not.

    Those of one simulation differ by what a cut box holds more or less, by a factor of a few at most.
    """
    for number, column in enumerate(means.T):
        there = np.flatnonzero(np.isfinite(column) & (column > 0))
        if there.size == 0:
            continue
        least, most = there[np.argmin(column[there])], there[np.argmax(column[there])]
        if column[most] > 100 * column[least]:
            at = f"redshift {number}" if redshifts is None else f"z = {redshifts[number]:g}"
            return (
                f"{sources[most]} has a mean count of {column[most]:.3g} at {at}, {sources[least]} of "
                f"{column[least]:.3g}, which is apart by more than a factor of 100: write all as counts of the same "
                "particles, or as densities in one unit, or learn from each kind in a folder of its own"
            )
    return ""


def digest(counts: NDArray[Any]) -> int:
    """64 bits that tell whether two volumes have the same counts, in a fraction of the time that these take to read."""
    short = hashlib.blake2b(np.ascontiguousarray(counts).data, digest_size=8).digest()
    return int.from_bytes(short, "little", signed=True)


def of_copies(sources: Iterable[Path], digests: Iterable[int]) -> str:
    """Say that volumes with these `digest` of their counts are copies of one another; nothing if none is.

    Two universes that were made from different noise never have the same counts, be their parameters alike.
    """
    first: dict[int, Path] = {}
    copies = []
    for source, one in zip(sources, digests, strict=True):
        if one in first:
            copies.append((source, first[one]))
        first.setdefault(one, source)
    if not copies:
        return ""
    more = f" ({counted(len(copies) - 1, 'copy', 'copies')} more)" if len(copies) > 1 else ""
    copy, original = copies[0]
    return (
        f"{copy} has the same counts as {original}{more}: keep one of each, lest a network be scored by what it has "
        "learnt by heart"
    )


def _on_a_line(unit: NDArray[np.float64], physical: NDArray[np.float64]) -> bool:
    """Whether one is a straight line in the other, within a hundredth of the prior's width, as rounded values are."""
    if len(unit) < 2:
        return True
    if np.ptp(unit) == 0 or np.ptp(physical) == 0:
        return np.ptp(unit) == np.ptp(physical)
    spread = unit - unit.mean()
    half = (spread * physical).sum() / (spread**2).sum()
    return bool(np.abs(half * spread + physical.mean() - physical).max() <= 0.02 * abs(half))


def _falls(unit: NDArray[np.float64], physical: NDArray[np.float64]) -> bool:
    """Whether what is on a line goes down; two universes are too few to tell."""
    return bool(len(unit) > 2 and np.ptp(unit) > 0 and ((unit - unit.mean()) * physical).sum() < 0)


def _share(unit: NDArray[np.float64], physical: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the squares off the line that each universe takes with it, where the line is drawn without it.

    All of it, if all the others are on one line; the distances themselves would not tell, as it draws the line to it.
    """
    tiny = np.finfo(np.float64).tiny
    spread = unit - unit.mean()
    squared = max((spread**2).sum(), tiny)
    rest = physical - physical.mean() - spread * (spread * physical).sum() / squared
    hold = 1 / len(unit) + spread**2 / squared  # how much of the line at a universe is its own doing
    return rest**2 / np.maximum(1 - hold, 1e-9) / max((rest**2).sum(), tiny)


def _same_box(one: Volume, other: Volume) -> bool:
    """Whether both cubes have one side in Mpc/h, or in Mpc, as MLPerf's, whose side is cut to whole Mpc/h."""
    side, expected = one.box_size_mpc_h, other.box_size_mpc_h
    if side is None or expected is None or np.isclose(side, expected, rtol=1e-3):
        return True
    if one.physical is None or other.physical is None or "H_0" not in one.names or "H_0" not in other.names:
        return False
    rate, other_rate = one.physical[one.names.index("H_0")], other.physical[other.names.index("H_0")]
    return bool(abs(side / rate - expected / other_rate) <= 1 / min(rate, other_rate))


def _listed(redshifts: NDArray[np.float64]) -> str:
    return ", ".join(f"{z:g}" for z in redshifts)
