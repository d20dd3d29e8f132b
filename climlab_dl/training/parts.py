"""Which samples are trained on and which are not: shares of them all, in their order, the same at every start."""

import itertools
import logging
import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from climlab_dl.parallel import ranks
from climlab_dl.words import counted

logger = logging.getLogger(__name__)
_FEW = 20
"""Samples below which a network learns these by heart."""


def split(count: int, *shares: float, what: str) -> list[range]:
    """Cut ``count`` samples in their order: the first part is what the shares, which follow in turn, leave.

    Parameters
    ----------
    count
        Of the samples.
    shares
        Of the parts after the first, as `check_shares` lets pass.
    what
        One of the samples is called, for messages.

    Raises
    ------
    ValueError
        If a part would be empty although its share is not 0, saying how many samples are needed.
    """
    if not _fits(count, shares):
        least = min(share for share in (1 - sum(shares), *shares) if share > 0)
        needed = next(more for more in itertools.count(max(count, int(0.5 / least))) if _fits(more, shares))
        raise ValueError(
            f"{counted(count, what)} {'is' if count == 1 else 'are'} too few to hold out "
            f"{' and '.join(f'{share:.0%}' for share in shares if share > 0)}: give {needed} or more"
        )
    ends = np.cumsum([0, *_sizes(count, shares)]).tolist()
    return [range(start, end) for start, end in itertools.pairwise(ends)]


def _sizes(count: int, shares: tuple[float, ...]) -> list[int]:
    sizes = [round(count * share) for share in shares]
    return [count - sum(sizes), *sizes]


def _fits(count: int, shares: tuple[float, ...]) -> bool:
    first, *sizes = _sizes(count, shares)
    return first > 0 and all(size > 0 for size, share in zip(sizes, shares, strict=True) if share > 0)


def same_samples(
    known: dict[str, Any] | None, source: Any, name: Callable[[int], str], **parts: range
) -> dict[str, str]:
    """Say how many samples each part has, from which to which; refuse others than a training began with.

    Parameters
    ----------
    known
        The facts of a checkpoint, whose ``samples`` are what this returned then; there are none when a training begins.
    source
        Where the samples come from.
    name
        Of a sample, by its number, wherever the source lies.
    parts
        Numbers of the samples of each part.

    Raises
    ------
    ValueError
        Saying what the samples were, and what they are.
    """
    now = {part: _told([name(number) for number in some]) for part, some in parts.items() if some}
    then = (known or {}).get("samples", now)  # checkpoints of before there was this do not say
    if then != now:
        changes = [f"{part}: {then.get(part, 'none')}; now {now.get(part, 'none')}" for part in {**then, **now}]
        raise ValueError(
            f"{source} has not the samples that this training began with ({'. '.join(changes)}). To go on would score "
            "a network by what it was trained on: put them back, or train on these in another folder"
        )
    return now


def _told(names: list[str]) -> str:
    between = zlib.crc32("\n".join(names).encode())
    return f"{len(names)} from {names[0]} to {names[-1]} (all their names: {between:08x})"


def check_shares(**shares: float) -> None:
    """Refuse shares that are none, or of which nothing would be held out.

    Raises
    ------
    ValueError
        Naming the share.
    """
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise ValueError(f"{name}={share!r}: choose a share of the samples, from 0 to below 1")
    if shares.get("held_out") == 0:
        raise ValueError(
            "held_out=0: a training is measured, and its best network kept, by what is held out; choose a share above "
            "0, such as 0.2"
        )
    if sum(shares.values()) >= 1:
        raise ValueError(f"{' + '.join(shares)} = {sum(shares.values()):g} leaves nothing to train on; lower them")


def warn_of_few(training: range, held_out: range, what: str, found: str) -> None:
    """Say in the log, once for all ranks, that a training on so few samples only shows that it runs.

    Parameters
    ----------
    training, held_out
        The samples.
    what
        One of them is called.
    found
        What a network finds by few of them, and where that is worth nothing.
    """
    if len(training) < _FEW and ranks.rank() == 0:
        logger.warning(
            "training on %s, holding out %d: enough to try whether all works, but %s worth nothing; a few hundred "
            "%ss teach it", counted(len(training), what), len(held_out), found, what,
        )  # fmt: skip


def refuse_apart(training: np.ndarray, others: np.ndarray, names: Sequence[str]) -> None:
    """Refuse to score a network, or to learn how it errs, where parameters are other ones than it was trained on.

    Parameters
    ----------
    training, others
        Parameters of the universes that are trained on and of those that are not (universes, parameters).
    names
        Of the parameters.

    Raises
    ------
    ValueError
        If their means lie further apart than five times what chance makes of so many, or all of the one beyond all of
        the other where chance does so to one set in ten thousand.
    """
    spread = np.concatenate([training, others]).std(axis=0) * np.sqrt(1 / len(training) + 1 / len(others))
    rare = math.comb(len(training) + len(others), len(others)) > 2e4
    for number, name in enumerate(names):
        ours, theirs = training[:, number], others[:, number]
        beyond = ours.max() < theirs.min() or theirs.max() < ours.min()
        if (rare and beyond) or abs(ours.mean() - theirs.mean()) > 5 * spread[number]:
            raise ValueError(
                f"{name} is {ours.min():.4g} to {ours.max():.4g} in the universes to train on, and {theirs.min():.4g} "
                f"to {theirs.max():.4g} in the others, for the files' names are in its order. Split them at random, "
                "with Universes(shuffle=True)"
            )
