"""Trainings on several MPI ranks; the proofs themselves are in the scripts of tests/mpi.

What killed ranks cost is proven by benchmarks/killed.py, which tests/test_benchmarks.py runs.
"""

import logging
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from climlab_dl.training.checkpoint import load
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train
from climlab_dl.training.run import Run

SCRIPTS = Path(__file__).resolve().parents[1] / "mpi"
pytestmark = [pytest.mark.mpi, pytest.mark.slow]


@pytest.fixture(scope="module")
def proven(mpiexec, labelled, tmp_path_factory) -> tuple[str, Path]:
    """What the script on two ranks printed, and the folder that it filled."""
    out = tmp_path_factory.mktemp("two ranks")
    return mpiexec(2, SCRIPTS / "train_on_two.py", str(labelled), str(out)), out


@pytest.mark.parametrize(
    "what",
    [
        "a_stopped_training_resumes_bit_by_bit_with_dropout_norm_lag_and_fp16",
        "the_same_training_twice_gives_the_same_bits",
        "an_exception_on_one_rank_ends_both_with_its_own_traceback",
        "a_loss_that_is_not_finite_names_its_rank_and_samples_everywhere",
        "an_overflow_on_one_rank_skips_the_step_on_both",
        "a_signal_to_one_rank_ends_both_on_the_same_step",
        "a_staged_archive_trains_to_the_same_bits",
        "a_file_that_is_cut_short_ends_all_ranks_naming_it",
        "statistics_are_those_of_the_whole_archive",
        "universes_have_the_statistics_of_all_that_is_trained_on",
        "scores_count_each_sample_once",
    ],
)
def test_two_ranks_prove(proven, what):
    assert f"proven: {what}" in proven[0]


def test_two_ranks_with_batches_of_4_equal_one_rank_with_a_batch_of_8(proven, tmp_path):
    theirs = RunFolder(proven[1] / "two ranks")
    run = Run.from_json(theirs.run_json.read_text())
    list(train(replace(run, batch_size=8), tmp_path))
    ours = load(RunFolder(tmp_path).latest() or "")
    other = load(theirs.latest() or "")
    for name, tensor in ours["model"].items():
        torch.testing.assert_close(other["model"][name], tensor, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(theirs.progress().loss, RunFolder(tmp_path).progress().loss, rtol=1e-5)
    np.testing.assert_allclose(theirs.progress().iou_mean, RunFolder(tmp_path).progress().iou_mean, rtol=1e-2)


def test_a_training_of_two_ranks_resumes_on_one_and_says_what_changed(proven, caplog):
    folder = RunFolder(proven[1] / "two ranks")
    run = Run.from_json(folder.run_json.read_text())
    with caplog.at_level(logging.WARNING):
        reports = list(train(replace(run, steps=run.steps + 1 if run.steps else None), folder.path))
    assert [report.step for report in reports] == [5]
    assert "resumed after step 4 on 1 rank instead of 2, 4 samples a step instead of 8" in caplog.text


def test_four_ranks_exchange_gradients_by_any_route_alike(mpiexec, labelled, tmp_path):
    assert mpiexec(4, SCRIPTS / "exchange_on_four.py", str(labelled), str(tmp_path)).count("proven") == 4


def test_a_signal_before_the_first_step_is_told_by_the_rank_that_it_came_to(mpiexec, labelled, tmp_path):
    with pytest.raises(AssertionError, match="stopped by SIGTERM, which came to rank 1 of 2, before the first step"):
        mpiexec(2, SCRIPTS / "interrupted.py", str(labelled), str(tmp_path))


def test_torchrun_starts_ranks_too(labelled, tmp_path):
    import subprocess

    script = tmp_path / "two.py"
    script.write_text(
        "from climlab_dl.parallel import ranks\nimport torch\n"
        "with ranks.joined(timeout=60) as here:\n"
        "    total = int(ranks.sum(torch.tensor([here.rank + 1]), 'test'))\n"
        "    open(f'said.{here.rank}', 'w').write(str(total))\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Ranks 0 and 1 add 1 and 2.
    assert {path.name: path.read_text() for path in tmp_path.glob("said.*")} == {"said.0": "3", "said.1": "3"}
