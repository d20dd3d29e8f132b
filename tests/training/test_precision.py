"""Half precision learns what single precision does, and where it cannot, says so."""

from dataclasses import replace

import pytest
import torch

from climlab_dl.training.checkpoint import load
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train
from climlab_dl.training.optimizers import Adam
from climlab_dl.training.precision import Precision


def test_an_overflow_in_fp16_skips_the_step_and_halves_the_scale(tiny, tmp_path):
    # At a scale of 2^30 the loss's gradients exceed fp16's 65504, until enough halvings have passed.
    run = tiny(precision=Precision(kind="fp16", on_cpu=True, initial_scale=2.0**30), steps=1)
    list(train(run, tmp_path / "one"))
    torch.manual_seed(run.seed)
    untouched = run.model.build(4, 3).state_dict()
    saved = load(RunFolder(tmp_path / "one").latest() or "")
    assert saved["scaler"]["scale"] == 2.0**29
    assert all(torch.equal(saved["model"][name], untouched[name]) for name in untouched)
    reports = list(train(replace(run, steps=30), tmp_path / "one"))
    assert load(RunFolder(tmp_path / "one").latest() or "")["scaler"]["scale"] < 2.0**26
    assert reports[-1].loss < reports[0].loss


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
def test_half_precision_reaches_the_loss_of_float32_within_two_percent(tiny, tmp_path, kind):
    settings = {"steps": 40, "report_every": 40, "evaluate_every": 40, "optimizer": Adam(learning_rate=0.01)}
    (full,) = train(tiny(**settings), tmp_path / "full")
    (half,) = train(tiny(precision=Precision(kind=kind, on_cpu=True), **settings), tmp_path / "half")
    assert half.loss == pytest.approx(full.loss, rel=0.02)
    assert half.loss != full.loss


def test_half_precision_on_a_cpu_without_it_becomes_float32_and_says_so(caplog):
    cpu = torch.device("cpu")
    native = bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    found = Precision(kind="fp16").usable(cpu)
    assert found.kind == ("fp16" if native else "fp32")
    assert native or "no native fp16 arithmetic" in caplog.text
    assert Precision(kind="fp16", on_cpu=True).usable(cpu).kind == "fp16"


def test_a_training_in_which_every_step_overflows_says_so(tiny, tmp_path, caplog):
    # In float16, 2^60 times the loss is infinite, and so is half of it.
    run = tiny(steps=4, report_every=2, precision=Precision(kind="fp16", on_cpu=True, initial_scale=2.0**60))
    list(train(run, tmp_path))
    assert "step 4: a gradient overflowed in fp16 at every step since the last report" in caplog.text
    assert f"multiplied by {2.0**56:g} now" in caplog.text


def test_the_scale_of_a_training_that_needed_none_is_not_that_of_one_in_fp16():
    scaler = Precision(kind="fp16").scaler()
    scaler.restore(Precision(kind="fp32").scaler().state())
    assert scaler.scale == 2.0**16


@pytest.mark.parametrize("wrong", [{"initial_scale": float("nan")}, {"growth_interval": 0}, {"growth_interval": 1.5}])
def test_a_loss_scale_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="is usual"):
        Precision(kind="fp16", **wrong)
