"""What a training holds on one rank, and how it is prepared, saved and resumed."""

import contextlib
import logging
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from climlab_dl.parallel import ranks
from climlab_dl.parallel.allreduce import broadcast_model
from climlab_dl.training import checkpoint, held_out, logs, resume, signals
from climlab_dl.training.batches import Order, steps_an_epoch, training_batches
from climlab_dl.training.environment import environment
from climlab_dl.training.folder import RunFolder, State
from climlab_dl.training.lock import Lock, locked
from climlab_dl.training.run import Run, has_steps_left

logger = logging.getLogger(__name__)


class Session:
    """A training on this rank, between its start and its end; a context manager.

    Parameters
    ----------
    run
        What to train.
    folder
        Where; if it holds checkpoints of the same run, the training resumes from the latest.
    """

    def __init__(self, run: Run, folder: RunFolder) -> None:
        self.run, self.folder, self.device = run, folder, ranks.device()
        self.leader = ranks.rank() == 0
        self.step, self.steps, self.epoch, self.offset = 0, run.steps or 0, 1, 0
        self.loss_sum, self.loss_count = 0.0, 0
        self.stepped: dict[str, Any] = {}  # epoch and learning rate of the step before
        self.seen = True  # whether what that step has made was evaluated, where that was due
        self.overflows = 0  # steps since the last report that changed nothing, for want of range in fp16
        self.waited = 0.0  # seconds of the step in which this rank had nothing to do, for want of samples
        self.best: float | None = None
        self.stale_evaluations = 0
        self.numbers: list[int] = []  # of this rank's samples in the step
        self.ending: State | None = None  # how the training ends, once it is to end before its last step
        self.described = run.to_json()
        self.message, self.interrupted = "", False
        self._signal = signals.Caught()
        self._lock: Lock | None = None
        self._logs: list[logs.Log] = []
        profiled = run.profile if self.leader else None
        self._profiler = logs.Profiler(profiled, folder.path / "trace.json")
        self._opened = contextlib.ExitStack()
        self._opened.callback(self._profiler.close)

    def __enter__(self) -> Self:
        with self._opened:
            self._signal = self._opened.enter_context(signals.caught())
            self._begin()
            if self.ending is not None:
                return self
            self.mark("init_start")
            try:
                self._prepare()
                self._resume()
            except Exception as error:
                self._say("failed", f"{type(error).__name__}: {error}")
                raise
            except KeyboardInterrupt as interrupt:
                self._say("stopped", str(interrupt))
                raise
            for key, value in [*logs.facts(self).items(), ("init_stop", None), ("run_start", None)]:
                self.mark(key, value)
            self._signal.waits = True
            self._opened = self._opened.pop_all()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        with self._opened:
            if self._signal.waits:
                self._end(error)

    def _end(self, error: BaseException | None) -> None:
        target, unfinished = self.run.target, error is not None or self.ending == "stopped"
        good = not unfinished and (target is None or self.message.startswith("reached"))
        self.mark("run_stop", status="success" if good else "aborted")
        if error is not None and not isinstance(error, GeneratorExit):
            self._say("failed", f"{type(error).__name__}: {error}")
        elif self.step < self.steps and self.ending is None:
            self._say("stopped", "the caller stopped taking steps")
        else:
            self._say(self.ending or "finished", self.message)

    def _begin(self) -> None:
        """Open the folder; if there is nothing to do any more, leave it as it is."""
        with ranks.together("opening the run folder"):
            if self.leader:
                self.folder.make()
                self._lock = self._opened.enter_context(locked(self.folder.path))
                self.folder.sweep()
                if not has_steps_left(self.run, self.folder):
                    self.ending = "finished"
                else:
                    self.step = self.folder.begin(self.described, self.steps)
                    self.folder.write_environment(environment(self.run.seed))
                    self._logs = logs.start(self.run.logs, self.folder.path)
        if ranks.broadcast_text(self.ending or "", "steps left"):
            self.ending = "finished"

    def _prepare(self) -> None:
        run = self.run
        latest = str(self.folder.latest() or "") if self.leader else ""
        latest = ranks.broadcast_text(latest, "latest checkpoint")
        with ranks.together("reading the checkpoint"):
            self.saved = checkpoint.load(latest) if latest else {}
        self.data = run.data.prepare(run.seed, self.saved.get("statistics"))
        if run.target is not None:
            run.target.check(self.data.metrics().measured)
        self.samples_per_step = run.batch_size * run.accumulate * ranks.size()
        # Of the samples that this rank's group shares out: all, or its node's.
        sharing = self.data.sharing[1]
        self.shared_per_step = run.batch_size * run.accumulate * sharing
        self.steps_per_epoch = steps_an_epoch(len(self.data.training), run.batch_size, run.accumulate, sharing)
        with ranks.together("building the network"):
            self.precision = run.precision.usable(self.device)
            self.loss = run.loss.prepare(self.data.statistics)
            torch.manual_seed(run.seed)
            outputs = len(self.data.targets) * getattr(run.loss, "outputs_per_target", 1)
            model: nn.Module = run.model.build(len(self.data.channels), outputs)
            self.model = model.to(self.device)
        broadcast_model(self.model)
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.exchange = run.exchange.start(parameters)
        self._opened.callback(self.exchange.close)
        self.optimizer = run.optimizer.build(parameters)
        self.scaler = self.precision.scaler()

    def _resume(self) -> None:
        if self.saved:
            resume.restore(self, self.saved)
        del self.saved
        self._running = resume.RunningStatistics(self.model)
        left = (len(self.data.training) - self.offset) // self.shared_per_step
        if self.run.epochs is not None:
            self.steps = self.step + left + (self.run.epochs - self.epoch) * self.steps_per_epoch
        if self.leader:
            self.folder.rewind(self.step)
        order = Order(
            len(self.data.training), self.run.batch_size, accumulate=self.run.accumulate, seed=self.run.seed,
            epoch=self.epoch, offset=self.offset, sharing=self.data.sharing,
        )  # fmt: skip
        self._batches = training_batches(self.data, order, self.device)
        self._opened.callback(self._batches.close)
        self._say("running", self.message)

    # What one step needs.

    @property
    def going(self) -> bool:
        """Whether there is another step to take."""
        return (self.step < self.steps or not self.seen) and self.ending is None

    def micro_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the (samples, targets) of one step; the last one's gradients travel while they are computed."""
        self.numbers, self.waited = [], 0.0
        resume.begin_randomness(self.run.seed, self.step + 1)
        self._profiler.before(self.step + 1)
        if self.offset == 0:
            self.mark("epoch_start", epoch_num=self.epoch)
        for number in range(self.run.accumulate):
            began = time.monotonic()
            values, target, numbers = next(self._batches)
            self.waited += time.monotonic() - began
            self.numbers += numbers.tolist()
            self.exchange.last(number == self.run.accumulate - 1)
            yield values, target

    def unexplained(self, loss: float, finite: bool) -> FloatingPointError | None:
        """Return an error naming step, rank and samples, if a loss or gradient is not finite and no scale explains it.

        Where the loss is scaled (fp16), a gradient that overflows while the loss is finite is expected now and then.
        """
        if math.isfinite(loss) and (finite or (self.scaler.dynamic and self.scaler.scale > 1)):
            return None
        what = "gradients are not finite, the loss is" if math.isfinite(loss) else "the loss is"
        samples = "; ".join(self.data.training.describe(number) for number in self.numbers)
        return FloatingPointError(f"step {self.step + 1}, rank {ranks.rank()}: {what} {loss:g} for {samples}")

    def lost(self) -> RuntimeError | None:
        """Return an error if another training has taken the folder."""
        return RuntimeError(self._lock.lost) if self._lock is not None and self._lock.lost else None

    def stop_wanted(self) -> bool:
        """Whether this rank was asked to stop, by a signal or by the folder's file."""
        return bool(self._signal.name) or (self.leader and self.folder.stop_requested())

    def update(self, overflow: bool) -> None:
        """Apply the gradient that the ranks have agreed on, unless it overflowed."""
        self._running.average()
        self.stepped = {"epoch": self.epoch, "learning_rate": self.learning_rate}
        about = self.exchange.receive(scale=self.scaler.scale, overflow=float(overflow))
        if about is not None and not about["overflow"]:
            if about["scale"] != 1:
                for parameter in self.exchange.parameters:
                    assert parameter.grad is not None
                    parameter.grad.div_(about["scale"])
            if self.run.clip_norm is not None:
                nn.utils.clip_grad_norm_(self.exchange.parameters, self.run.clip_norm)
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate
            self.optimizer.step()
        self.scaler.update(overflow=overflow)
        self.overflows += overflow
        self.step += 1
        self._profiler.after(self.step)
        self.offset += self.shared_per_step
        if self.offset + self.shared_per_step > len(self.data.training):
            self.mark("epoch_stop", epoch_num=self.epoch)
            self.epoch, self.offset = self.epoch + 1, 0

    @property
    def learning_rate(self) -> float:
        """Rate of the update to come."""
        return self.run.learning_rate(self.step, self.steps, self.steps_per_epoch, ranks.size())

    # What happens every so many steps.

    def due(self, every: int) -> bool:
        """Whether something done every so many steps is due after this one."""
        return self.step % every == 0 or self.step == self.steps

    def evaluate(self) -> dict[str, float]:
        """Score the network on what is held out; if that fails what has been learnt is kept, to be scored then."""
        epoch, self.seen = self.stepped["epoch"], False
        self.mark("eval_start", epoch_num=epoch)
        try:
            scores = held_out.evaluate(self)
        except Exception:
            with contextlib.suppress(Exception):  # the first error is told
                self.save()
            raise
        self.seen = True
        self.mark("eval_stop", epoch_num=epoch)
        return scores

    def save(self) -> None:
        """Write a checkpoint from which the training can resume as if it had never been interrupted."""
        self.write(self.folder.checkpoint(self.step), resume.whole(self))

    def report(self, row: dict[str, Any]) -> None:
        """Write a report and the status to the folder."""
        if self.overflows == self.loss_count:
            logger.warning(
                "step %d: a gradient overflowed in fp16 at every step since the last report, so that nothing was "
                "learnt; the loss is multiplied by %g now, half as much at each. Precision(initial_scale=) begins "
                "lower", self.step, self.scaler.scale,
            )  # fmt: skip
        with ranks.together("writing progress"):
            if self.leader:
                self.folder.append_progress(row)
                for log in self._logs:
                    log.report(row)
                self.folder.write_status("running", step=self.step, steps=self.steps, message=self.message)

    def honour_stop(self) -> None:
        """Say that the training ends here because it was asked to; the last step ends it anyway."""
        if self.leader:
            self.folder.clear_stop()
        if self.step == self.steps:
            return
        came = int(ranks.largest(torch.tensor(self._signal.number), "why the training stops"))
        why = f"by {signals.named(came)}" if came else "on request"
        self.ending, self.interrupted = "stopped", bool(came)
        self.message = f"stopped {why} after step {self.step}; train again with the same folder to resume"

    def write(self, path: Path, state: dict[str, Any]) -> None:
        """Write a checkpoint, if its weights are numbers."""
        with ranks.together("writing a checkpoint"):
            resume.check_finite(state)
            if self.leader:
                checkpoint.save(path, state)
                self.folder.prune(self.run.keep_checkpoints)

    def mark(self, key: str, value: Any = None, **metadata: Any) -> None:
        """Tell the logs."""
        for log in self._logs:
            log.mark(key, value, **metadata)

    def _say(self, state: State, message: str) -> None:
        # A full disk has been reported by then, and is not to be hidden by another failure to write.
        with contextlib.suppress(OSError):
            if self.leader and not self.lost():
                self.folder.write_status(state, step=self.step, steps=self.steps, message=message)
