"""The training loop: one generator, which notebook, command line and tests consume alike."""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from climlab_dl.parallel import ranks
from climlab_dl.parallel.memory import give_back
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.run import Run
from climlab_dl.training.session import Session


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One report of a training, the same on all ranks.

    Parameters
    ----------
    step, steps, epoch
        Updates done and to do; the 1-based epoch that the last one belonged to.
    loss
        Mean over ranks and over the steps since the report before.
    learning_rate
        Of the last update.
    rate
        Samples per second of all ranks together, evaluation and checkpoints left out.
    waiting
        Share of that time in which the ranks waited for samples to be read, a mean over them.
    seconds
        Since this start of the training.
    metrics
        Scores on what is held out, where this step evaluated.
    """

    step: int
    steps: int
    epoch: int
    loss: float
    learning_rate: float
    rate: float
    waiting: float
    seconds: float
    metrics: dict[str, float] = field(default_factory=dict)


class Stopped(KeyboardInterrupt):
    """A signal has ended a training after one of its steps; it can be resumed."""


def train(run: Run, folder: Path | str) -> Iterator[Progress]:
    """Train on this rank, reporting every ``report_every`` steps; every rank iterates.

    Parameters
    ----------
    run
        What to train.
    folder
        What rank 0 fills. If it holds checkpoints of the same run, the training resumes from the latest; if that
        has finished and no more is asked for, the log says so, and nothing is touched.

    Yields
    ------
    Progress
        The same on all ranks.

    Raises
    ------
    ValueError
        Before the first step, if the run, its data and the folder do not fit together.
    FloatingPointError
        If loss or gradients are not finite, naming step, rank and samples.
    RuntimeError
        If another rank failed, with that rank's traceback.
    Stopped
        If a signal, to any rank, ended the training, whose checkpoint is written by then.
    """
    with ranks.joined(), Session(run, RunFolder(folder)) as session:
        start, busy, waited = time.monotonic(), 0.0, 0.0
        while session.going:
            stop = False
            if session.seen:  # else what the last step before an interruption has made is to be looked at first
                stop, seconds, idle = _step(session)
                busy, waited = busy + seconds, waited + idle
            if stop:
                session.honour_stop()
            metrics = session.evaluate() if session.due(run.evaluate_every) or not session.seen else {}
            if metrics or stop or session.due(run.report_every):
                progress = Progress(
                    step=session.step, steps=session.steps, epoch=session.stepped["epoch"],
                    loss=session.loss_sum / session.loss_count, learning_rate=session.stepped["learning_rate"],
                    rate=session.loss_count * session.samples_per_step / (busy or math.nan),
                    waiting=waited / (busy or math.nan), seconds=time.monotonic() - start, metrics=metrics,
                )  # fmt: skip
                session.report(asdict(progress))
                session.loss_sum, session.loss_count, session.overflows, busy, waited = 0.0, 0, 0, 0.0, 0.0
                yield progress
            if session.ending or session.due(run.checkpoint_every):
                session.save()
    if session.interrupted:  # what follows in a script is not for a network that has learnt by half
        raise Stopped(session.message)


def _step(session: Session) -> tuple[bool, float, float]:
    """Take a step on all ranks; give whether to stop after it, its seconds, and how many of them lacked samples."""
    run, began, error, loss = session.run, time.monotonic(), None, 0.0
    session.exchange.begin()
    if getattr(run.model, "recompute", False):
        give_back()  # memory counts for more than time
    try:
        for values, target in session.micro_batches():
            with session.precision.autocast(session.device):
                prediction = session.model(values)
            part = session.loss(prediction.float(), target) / run.accumulate
            (part * session.scaler.scale).backward()
            loss += part.item()
    except Exception as caught:
        error = caught
    # A rank that failed still sends, so that the others reach the agreement and hear why.
    session.exchange.send()
    finite = session.exchange.finite()
    error = error or session.lost() or session.unexplained(loss, finite)
    mine = [loss, session.stop_wanted(), not finite, session.waited]
    loss, stop, overflow, idle = ranks.agree(mine, f"step {session.step + 1}", error)
    session.update(overflow > 0)
    session.loss_sum, session.loss_count = session.loss_sum + loss / ranks.size(), session.loss_count + 1
    return stop > 0, time.monotonic() - began, idle / ranks.size()
