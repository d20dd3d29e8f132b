"""Learning-rate schedules: each gives a factor on the optimiser's rate, from the step alone.

They keep no state, so a resumed training needs none, and a plot of a schedule is a list comprehension.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


class Schedule(Protocol):
    """What a schedule is."""

    def factor(self, step: int, steps: int, steps_per_epoch: int) -> float:
        """Return the factor for the update number ``step`` (0-based) of ``steps``."""
        ...


@dataclass(frozen=True, kw_only=True)
class Constant:
    """The optimiser's own rate throughout."""

    def factor(self, step: int, steps: int, steps_per_epoch: int) -> float:
        """Return 1."""
        del step, steps, steps_per_epoch
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Polynomial:
    """From 1 to ``end`` as (1 - progress)^power (Mathuriya et al. 2018: power 1).

    Parameters
    ----------
    power
        Exponent.
    end
        Factor at the end.
    staircase
        Change once an epoch (Kurth et al. 2018) instead of at each step.
    """

    power: float = 1.0
    end: float = 0.0
    staircase: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.power < math.inf:
            raise ValueError(f"power={self.power!r}: choose a positive exponent, 1 is linear")
        _check_end(self.end)

    def factor(self, step: int, steps: int, steps_per_epoch: int) -> float:
        """Return the factor at a step."""
        if self.staircase:
            step = step // steps_per_epoch * steps_per_epoch
        return self.end + (1 - self.end) * (1 - min(step / max(steps, 1), 1.0)) ** self.power


@dataclass(frozen=True, kw_only=True)
class Cosine:
    """From 1 to ``end`` as half a cosine wave (Loshchilov & Hutter 2017)."""

    end: float = 0.0

    def __post_init__(self) -> None:
        _check_end(self.end)

    def factor(self, step: int, steps: int, steps_per_epoch: int) -> float:
        """Return the factor at a step."""
        del steps_per_epoch
        return self.end + (1 - self.end) * 0.5 * (1 + math.cos(math.pi * min(step / max(steps, 1), 1.0)))


@dataclass(frozen=True, kw_only=True)
class Multistep:
    """Multiplied by ``decay`` at each milestone.

    Parameters
    ----------
    milestones
        Steps or epochs completed, rising.
    decay
        Factor at each.
    unit
        What the milestones count.
    """

    milestones: tuple[int, ...]
    decay: float = 0.1
    unit: Literal["step", "epoch"] = "step"

    def __post_init__(self) -> None:
        if list(self.milestones) != sorted(set(self.milestones)) or any(each < 1 for each in self.milestones):
            raise ValueError(f"milestones={self.milestones!r}: list each once, from 1 on, in rising order")
        if not 0 < self.decay < math.inf:
            raise ValueError(f"decay={self.decay!r}: choose a positive factor, 0.1 is usual")
        if self.unit not in ("step", "epoch"):
            raise ValueError(f"unit={self.unit!r}: choose 'step' or 'epoch'")

    def factor(self, step: int, steps: int, steps_per_epoch: int) -> float:
        """Return the factor at a step."""
        del steps
        done = step // steps_per_epoch if self.unit == "epoch" else step
        return self.decay ** sum(done >= milestone for milestone in self.milestones)


@dataclass(frozen=True, kw_only=True)
class Warmup:
    """Linear from ``start`` to 1 over some steps, then another schedule over the steps that remain.

    Parameters
    ----------
    steps
        How many steps the warm-up takes.
    start
        Factor at the first step.
    then
        The schedule that follows; it sees its own steps, from 0.
    """

    steps: int
    start: float = 0.0
    then: Any = field(default_factory=Constant)

    def __post_init__(self) -> None:
        if not (isinstance(self.steps, int) and self.steps >= 0):
            raise ValueError(f"steps={self.steps!r}: choose a whole number of steps of warm-up, from 0")
        if not 0 <= self.start <= 1:
            raise ValueError(f"start={self.start!r}: choose a factor from 0 to 1")

    def factor(self, step: int, steps: int, steps_per_epoch: int) -> float:
        """Return the factor at a step."""
        if step < self.steps:
            # The first update moves already: a factor of exactly 0 would waste it.
            return self.start + (1 - self.start) * (step + 1) / self.steps
        return self.then.factor(step - self.steps, max(steps - self.steps, 1), steps_per_epoch)


def _check_end(end: float) -> None:
    if not 0 <= end < math.inf:
        raise ValueError(f"end={end!r}: choose the factor at the end, 0 or more")
