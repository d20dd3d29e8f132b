"""Run: the complete description of a training. What can be varied is what is listed here."""

import contextlib
import json
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from climlab_dl import cards
from climlab_dl.parallel.allreduce import Exchange
from climlab_dl.training import places
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.logs import Kind as LogKind
from climlab_dl.training.logs import check as check_logs
from climlab_dl.training.optimizers import Adam
from climlab_dl.training.plain import classes, plain, rebuilt
from climlab_dl.training.precision import Precision
from climlab_dl.training.schedules import Constant, Schedule
from climlab_dl.training.universes import Universes

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A held-out score at which a training ends.

    Parameters
    ----------
    metric
        Its name, such as ``"iou_mean"`` or ``"mae_mean"``.
    at_least, at_most
        The bound; give one of them.
    """

    metric: str
    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"Target({self.metric!r}) needs one of at_least and at_most")
        if not math.isfinite(self.at_least if self.at_least is not None else self.at_most or 0.0):
            raise ValueError(f"{self}: choose a bound that a score can reach")

    def check(self, measured: Sequence[str]) -> None:
        """Refuse a score that is not among those measured."""
        if self.metric not in measured:
            raise ValueError(f"target metric {self.metric!r} is not measured; there are {', '.join(measured)}")

    def reached(self, metrics: dict[str, float]) -> bool:
        """Whether these scores reach it."""
        value = metrics[self.metric]
        return value >= self.at_least if self.at_least is not None else value <= (self.at_most or 0.0)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A complete description of a training.

    Parameters
    ----------
    data
        What is learnt from: :class:`ClimateArchive`, :class:`Universes`, or anything with their ``prepare``.
    model
        Description of the network, with ``build(channels, classes)``.
    loss, optimizer, schedule
        From ``training.losses``, ``training.optimizers`` and ``training.schedules``.
    precision
        Arithmetic of the network.
    exchange
        How ranks average gradients.
    epochs
        How long, in passes over the training's samples: give this or steps.
    steps
        How long, in steps: give this or epochs. A step is one update, by all ranks together.
    batch_size
        Samples per rank and backward pass. Batch normalisation sees these alone, so that two ranks with 4 differ a
        little from one with 8; with group normalisation, or none, they agree to rounding.
    accumulate
        Backward passes per step.
    rate_scaling
        Multiply the learning rate by (global batch / ``reference_batch``), or by its square root.
    reference_batch
        Samples of a step for which the learning rate is meant as it is.
    clip_norm
        Bound on the norm of the whole gradient.
    report_every
        Steps from one report to the next; the last step has one.
    evaluate_every
        Steps from one look at the held-out samples to the next; the last step has one.
    checkpoint_every
        Steps from one checkpoint to the next; the last step has one.
    keep_checkpoints
        How many of the latest to keep, beside the best.
    patience
        End after so many evaluations without a better score.
    target
        End at this score.
    logs
        Other formats to write beside: ``"mlperf"``, ``"tensorboard"``.
    profile
        First and last step of which rank 0 leaves a profiler's trace.
    seed
        Of everything random.
    """

    data: ClimateArchive | Universes | Any
    model: Any
    loss: Any
    optimizer: Any = field(default_factory=Adam)
    schedule: Schedule = field(default_factory=Constant)
    precision: Precision = field(default_factory=Precision)
    exchange: Exchange = field(default_factory=Exchange)
    epochs: int | None = None
    steps: int | None = None
    batch_size: int = 2
    accumulate: int = 1
    rate_scaling: Literal["none", "linear", "sqrt"] = "none"
    reference_batch: int = 1
    clip_norm: float | None = None
    report_every: int = 10
    evaluate_every: int = 100
    checkpoint_every: int = 100
    keep_checkpoints: int = 2
    patience: int | None = None
    target: Target | None = None
    logs: tuple[LogKind, ...] = ()
    profile: tuple[int, int] | None = None
    seed: int = 0

    def _repr_html_(self) -> str:
        # What is not as by default; the parts are dataclasses, and say themselves what they are.
        usual = {one.name: one.default for one in fields(self)}
        rows = {name: getattr(self, name) for name, value in usual.items() if getattr(self, name) != value}
        return cards.card({name: repr(value) for name, value in rows.items()}, "Run")

    def __post_init__(self) -> None:
        if (self.epochs is None) == (self.steps is None):
            raise ValueError(
                f"epochs={self.epochs!r} and steps={self.steps!r}: give one of them, and None for the other "
                "(a named run has its own steps)"
            )
        for name in (
            "epochs", "steps", "batch_size", "accumulate", "reference_batch", "report_every", "evaluate_every",
            "checkpoint_every", "keep_checkpoints", "patience",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and value >= 1):
                raise ValueError(f"{name}={value!r}: choose a whole number from 1")
        if self.rate_scaling not in ("none", "linear", "sqrt"):
            raise ValueError(f"rate_scaling={self.rate_scaling!r}: choose 'none', 'linear' or 'sqrt'")
        check_logs(self.logs)
        if self.profile is not None and not 1 <= self.profile[0] <= self.profile[1]:
            raise ValueError(f"profile={self.profile!r}: choose a first step from 1 and a last one not before it")
        if self.profile is not None and self.steps is not None and self.profile[0] > self.steps:
            raise ValueError(f"profile={self.profile!r}: the training ends at step {self.steps}; choose earlier ones")
        if not (isinstance(self.seed, int) and self.seed >= 0):
            raise ValueError(f"seed={self.seed!r}: choose a whole number from 0")
        if self.clip_norm is not None and not 0 < self.clip_norm < math.inf:
            raise ValueError(f"clip_norm={self.clip_norm!r}: choose a positive norm, or None")

    def learning_rate(self, step: int, steps: int, steps_per_epoch: int, ranks: int) -> float:
        """Return the rate of the update number ``step`` (0-based) of ``steps``."""
        growth = self.batch_size * self.accumulate * ranks / self.reference_batch
        scale = {"none": 1.0, "linear": growth, "sqrt": growth**0.5}[self.rate_scaling]
        return self.optimizer.learning_rate * scale * self.schedule.factor(step, steps, steps_per_epoch)

    def to_json(self) -> str:
        """Return the description as JSON: the class and the fields of each part.

        Where the data are told by a relative path it has ``started_in`` too, the folder that this is told from.
        """
        return json.dumps(places.noted(plain(self)), indent=1)

    @classmethod
    def from_json(cls, text: str, *, allow: Sequence[type] = ()) -> "Run":
        """Rebuild a run from :meth:`to_json`; data that lie where they did then are found from any folder.

        Parameters
        ----------
        text
            The JSON.
        allow
            Dataclasses from outside this package that it may hold; code is never loaded because a file names it.

        Raises
        ------
        ValueError
            If it names another class, or is no run.
        """
        described = json.loads(text)
        described = places.located(described) if isinstance(described, dict) else described
        run = rebuilt(described, allow)
        if not isinstance(run, cls):
            raise ValueError(f"the JSON describes a {type(run).__name__}, not a Run")
        return run


# What may change between the start of a training and its resumption.
CHANGEABLE = (
    "epochs", "steps", "batch_size", "accumulate", "report_every", "evaluate_every", "checkpoint_every",
    "keep_checkpoints", "patience", "target", "logs", "profile",
)  # fmt: skip


def differences(run: Run, text: str) -> list[str]:
    """Name the fields in which a run differs from one that was described, and that a resumed training must not change.

    What the description does not say, because it is of before there was a choice, has its default.
    """
    ours, theirs = json.loads(run.to_json()), json.loads(text)
    home = {name: theirs.pop(name) for name in (places.STARTED_IN,) if name in theirs}
    with contextlib.suppress(ValueError, TypeError):  # one that cannot be built today differs as it stands
        theirs = plain(rebuilt(theirs, tuple(classes(run))))
    theirs |= home
    free = {*CHANGEABLE, places.STARTED_IN, *(["data"] if places.same_data(ours, theirs) else [])}
    # As text, in which NaN is NaN.
    return [name for name in ours if name not in free and _text(ours[name]) != _text(theirs.get(name))]


def _text(part: Any) -> str:
    return json.dumps(part, sort_keys=True)


def has_steps_left(run: Run, folder: RunFolder) -> bool:
    """Check that a folder's checkpoints, if it has any, are of the run that is to be trained there, and how far it is.

    Returns
    -------
    bool
        False, which the log says, if the training has finished and no more is asked for.

    Raises
    ------
    ValueError
        If they are of another run, less is asked for than is done, or the description is damaged.
    """
    latest = folder.latest()
    if latest is None:
        return True
    if changed := differences(run, folder.described()):
        raise ValueError(
            f"{folder.path} holds another run (it differs in {', '.join(changed)}): choose another folder, or delete "
            "this one to start afresh"
        )
    done, asked, what = int(latest.stem[5:]), run.steps, "steps"
    if asked is None:
        reports = folder.progress()
        done, asked, what = int(reports["epoch"].iloc[-1]) if len(reports) else 0, run.epochs, "epochs"
    assert asked is not None
    if asked < done:
        raise ValueError(
            f"{folder.path} already has {done} {what}, and {asked} are asked for; ask for more than {done} {what}, or "
            "choose another folder"
        )
    status = folder.status()
    if asked > done or status["state"] != "finished" or status["step"] < status["steps"]:
        return True
    if json.loads(folder.described()).get(what) is None:
        return True  # steps that have ended within an epoch, the rest of which is asked for
    logger.warning("%s already has %d of %d %s; ask for more %s", folder.path, done, asked, what, what)
    return False
