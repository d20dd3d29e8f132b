"""What a step does with loss and gradients, and when a training ends by itself."""

import json
import math
from dataclasses import dataclass, replace

import pytest
import torch

from climlab_dl.parallel.allreduce import Exchange
from climlab_dl.training.checkpoint import load
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train
from climlab_dl.training.losses import SoftJaccard
from climlab_dl.training.metrics import Segmentation
from climlab_dl.training.optimizers import SGD, Adam
from climlab_dl.training.run import Target


def test_an_epoch_is_as_many_whole_steps_as_there_are_samples_for(tiny, tmp_path):
    # 16 snapshots in steps of 5 are 3 steps an epoch; one snapshot waits for the next shuffle.
    reports = list(train(tiny(steps=None, epochs=2, batch_size=5, report_every=1), tmp_path))
    assert [(report.step, report.steps, report.epoch) for report in reports] == [
        (1, 6, 1), (2, 6, 1), (3, 6, 1), (4, 6, 2), (5, 6, 2), (6, 6, 2),
    ]  # fmt: skip


def test_too_few_samples_for_one_step_are_refused_before_work_starts(tiny, tmp_path):
    with pytest.raises(ValueError, match=r"a step takes 17 samples .* there are 16 to train on; choose batch_size=16"):
        list(train(tiny(batch_size=17), tmp_path))
    with pytest.raises(ValueError, match=r"accumulate 17\), but .* take fewer ranks, or accumulate less"):
        list(train(tiny(batch_size=1, accumulate=17), tmp_path))
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


def test_a_training_whose_folder_another_has_taken_ends_and_leaves_it(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("climlab_dl.training.lock.BEAT_SECONDS", 0.02)
    theirs = json.dumps({"host": "elsewhere", "pid": 7, "started": 0.0})
    with pytest.raises(RuntimeError, match=r"process 7 on elsewhere has taken .* this one ends here"):  # noqa: PT012
        for _ in train(tiny(steps=10_000, report_every=1), tmp_path):
            (tmp_path / "lock").write_text(theirs)
    assert (tmp_path / "lock").read_text() == theirs
    assert RunFolder(tmp_path).status()["state"] == "running"  # which is the other's to say


@pytest.mark.parametrize(("look", "fails_at"), [(1, 5), (3, 12)])
def test_a_look_at_what_is_held_out_that_fails_costs_nothing_and_is_repeated(
    tiny, tmp_path, monkeypatch, look, fails_at
):
    # Both are due after every 5 steps and the last, and the checkpoint is written last.
    run = tiny(steps=12, evaluate_every=5, checkpoint_every=5, report_every=3)
    list(train(run, tmp_path / "whole"))
    scores, folder, looks = Segmentation.scores, RunFolder(tmp_path / "run"), iter(range(1, 10))
    monkeypatch.setattr(Segmentation, "scores", lambda self: {} if next(looks) == look else scores(self))
    with pytest.raises(KeyError, match="iou_mean"):
        list(train(run, folder.path))
    assert folder.latest() == folder.checkpoint(fails_at)
    assert folder.status()["state"] == "failed"
    monkeypatch.undo()
    list(train(run, folder.path))
    measured = ["step", "steps", "epoch", "loss", "learning_rate", "iou_mean"]
    assert folder.progress()[measured].equals(RunFolder(tmp_path / "whole").progress()[measured])
    for name in ("step-00000012.pt", "best.pt"):
        ours, theirs = (load(one / "checkpoints" / name) for one in (folder.path, tmp_path / "whole"))
        assert all(torch.equal(ours["model"][key], tensor) for key, tensor in theirs["model"].items())
        assert (ours["step"], ours.get("best")) == (theirs["step"], theirs.get("best"))


def test_a_look_that_failed_is_repeated_where_another_is_due_later(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(Segmentation, "scores", lambda self: {})
    with pytest.raises(KeyError, match="iou_mean"):
        list(train(tiny(steps=4, evaluate_every=3), tmp_path))
    monkeypatch.undo()
    steps = [report.step for report in train(tiny(steps=4, evaluate_every=100), tmp_path)]
    assert steps == [3, 4]


def test_a_stop_in_the_last_step_is_no_reason_to_train_again(tiny, tmp_path):
    for report in train(tiny(steps=3, report_every=1), tmp_path):
        if report.step == 2:
            RunFolder(tmp_path).request_stop()
    assert RunFolder(tmp_path).status()["state"] == "finished"
    assert not RunFolder(tmp_path).stop_requested()


def test_weights_that_are_no_numbers_are_not_kept(tiny, tmp_path):
    # The loss before the last update is finite, and nothing would look at the weights after it.
    with pytest.raises(FloatingPointError, match=r"after step 1 \d+ tensors of the network, .* are not finite"):
        list(train(tiny(steps=1, optimizer=Adam(learning_rate=1e39)), tmp_path))
    assert list(RunFolder(tmp_path).checkpoints.glob("*.pt")) == []
    assert RunFolder(tmp_path).status()["state"] == "failed"


def test_an_epoch_that_is_resumed_with_other_batches_ends_where_its_samples_do(tiny, tmp_path):
    # 16 samples are 5 steps of 3, of which the 10 that were seen are 3 whole ones; it is the samples left that count.
    folder = RunFolder(tmp_path)
    for report in train(tiny(steps=None, epochs=1, batch_size=5, report_every=1), tmp_path):
        if report.step == 1:
            folder.request_stop()
    assert folder.status()["step"] == 2
    *_, last = train(tiny(steps=None, epochs=1, batch_size=3, report_every=1), tmp_path)
    assert (last.step, last.epoch) == (4, 1)  # 16 - 2 x 5 = 6 samples, two steps of 3
    assert list(train(tiny(steps=None, epochs=1, batch_size=3), tmp_path)) == []


def test_steps_that_ended_within_an_epoch_are_no_epoch(tiny, tmp_path):
    list(train(tiny(steps=1, evaluate_every=100), tmp_path))
    *_, last = train(tiny(steps=None, epochs=1), tmp_path)
    assert last.step == 8


def test_a_score_that_is_no_number_is_the_best_for_as_long_as_there_is_no_other(tiny, tmp_path, monkeypatch):
    whole, seen = Segmentation.scores, []

    def scores(self: Segmentation) -> dict[str, float]:
        seen.append(whole(self))
        return seen[-1] | ({"iou_mean": math.nan} if len(seen) == 1 else {})

    monkeypatch.setattr(Segmentation, "scores", scores)
    list(train(tiny(steps=6, evaluate_every=2, patience=3), tmp_path))
    assert load(RunFolder(tmp_path).checkpoints / "best.pt")["step"] > 2


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"clip_norm": math.nan}, {"clip_norm": math.inf}], ids=str)
def test_numbers_that_mean_nothing_are_refused_with_the_run(tiny, wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name}="):
        tiny(**wrong)
