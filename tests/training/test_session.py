"""What a step does with loss and gradients, and when a training ends by itself."""

import math
from dataclasses import dataclass, replace

import pytest
import torch

from climlab_dl.parallel.allreduce import Exchange
from climlab_dl.training.checkpoint import load
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train
from climlab_dl.training.losses import SoftJaccard
from climlab_dl.training.optimizers import SGD
from climlab_dl.training.run import Target


def test_an_epoch_is_as_many_whole_steps_as_there_are_samples_for(tiny, tmp_path):
    # 16 snapshots in steps of 5 are 3 steps an epoch; one snapshot waits for the next shuffle.
    reports = list(train(tiny(steps=None, epochs=2, batch_size=5, report_every=1), tmp_path))
    assert [(report.step, report.steps, report.epoch) for report in reports] == [
        (1, 6, 1), (2, 6, 1), (3, 6, 1), (4, 6, 2), (5, 6, 2), (6, 6, 2),
    ]  # fmt: skip


def test_too_few_samples_for_one_step_are_refused_before_work_starts(tiny, tmp_path):
    with pytest.raises(ValueError, match=r"a step takes 17 samples .* there are 16 to train on; lower batch_size"):
        list(train(tiny(batch_size=17), tmp_path))
    assert RunFolder(tmp_path).status()["state"] == "failed"


def test_a_target_reached_ends_the_training(tiny, tmp_path):
    run = tiny(steps=100, evaluate_every=2, target=Target(metric="iou_background", at_least=0.0))
    assert [report.step for report in train(run, tmp_path)] == [2]
    assert RunFolder(tmp_path).status()["message"].startswith("reached iou_background")
    assert RunFolder(tmp_path).status()["state"] == "finished"


def test_a_target_that_nothing_measures_is_an_error_that_lists_what_is(tiny, tmp_path):
    with pytest.raises(ValueError, match=r"'iou_rivers' is not measured; there are .*iou_river"):
        list(train(tiny(target=Target(metric="iou_rivers", at_least=0.5)), tmp_path))


def test_no_better_score_in_a_while_ends_the_training(tiny, tmp_path):
    # A rate of 1e-12 changes no score: the first evaluation is the best, two more are waited for.
    run = tiny(steps=100, evaluate_every=2, patience=2, optimizer=SGD(learning_rate=1e-12))
    assert [report.step for report in train(run, tmp_path)][-1] == 6
    assert "no better score in 2 evaluations" in RunFolder(tmp_path).status()["message"]


@dataclass(frozen=True, kw_only=True)
class BreaksAt:
    """A loss that is NaN (or raises) at one step."""

    step: int
    value: float = math.nan

    def prepare(self, statistics):
        good, calls = SoftJaccard().prepare(statistics), iter(range(1, 1000))

        def loss(logits, mask):
            return good(logits, mask) * (self.value if next(calls) == self.step else 1.0)

        return loss


def test_a_loss_that_is_not_finite_stops_the_run_naming_step_rank_and_snapshots(tiny, tmp_path):
    with pytest.raises(
        FloatingPointError, match=r"step 3, rank 0: the loss is nan for \d{4}-\d\d-\d\dT.* of .*labelled"
    ):
        list(train(tiny(loss=BreaksAt(step=3)), tmp_path))
    status = RunFolder(tmp_path).status()
    assert status["state"] == "failed"
    assert "step 3, rank 0" in status["message"]


def test_gradients_that_are_not_finite_stop_a_run_in_float32(tiny, tmp_path):
    # 1e38 is a finite factor on the loss, but the gradient of a sum over pixels overflows.
    @dataclass(frozen=True, kw_only=True)
    class Huge:
        def prepare(self, statistics):
            del statistics
            return lambda logits, mask: (
                (logits * 1e38).clamp(-1, 1).sum() * 0
                + (logits.sum() * 0 + 1).sqrt()
                - 1
                + (logits.flatten()[0] * 0).abs().sqrt()
            )

    with pytest.raises(FloatingPointError, match="step 1, rank 0: gradients are not finite, the loss is 0"):
        list(train(tiny(loss=Huge()), tmp_path))


def test_accumulated_batches_give_the_gradient_of_the_whole_batch(tiny, tmp_path):
    settings = {"steps": 4, "optimizer": SGD(learning_rate=0.1)}
    for name, sizes in (("whole", {"batch_size": 8}), ("parts", {"batch_size": 2, "accumulate": 4})):
        list(train(tiny(**settings, **sizes), tmp_path / name))
    ours, theirs = (load(RunFolder(tmp_path / name).latest() or "")["model"] for name in ("whole", "parts"))
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-4, atol=1e-6)


def test_lag_applies_the_gradient_of_the_step_before(tiny, tmp_path):
    # The first step changes nothing. With one batch for the whole archive and no momentum, the second applies the
    # first's gradient, taken at the same weights: what a run without lag has after one step.
    settings = {"batch_size": 16, "optimizer": SGD(learning_rate=0.1, momentum=0.0)}
    settings["data"] = replace(tiny().data, roll=False)
    lagged = {"exchange": Exchange(lag=1)}
    for name, changes in (("first", lagged | {"steps": 1}), ("second", lagged | {"steps": 2}), ("none", {"steps": 1})):
        list(train(tiny(**settings, **changes), tmp_path / name))
    torch.manual_seed(0)
    untouched = tiny().model.build(4, 3).state_dict()
    found = {name: load(RunFolder(tmp_path / name).latest() or "")["model"] for name in ("first", "second", "none")}
    assert all(torch.equal(found["first"][name], untouched[name]) for name in untouched)
    for name in untouched:
        torch.testing.assert_close(found["second"][name], found["none"][name], rtol=1e-5, atol=1e-7)
