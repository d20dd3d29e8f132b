from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from climlab_dl.parallel.staged import Plan
from climlab_dl.parallel.staging import stage

PLAN = Plan(source="numbers", count=6, shape=(2, 3, 4), target_shape=(3, 4), target_dtype="int64")
SCRIPT = Path(__file__).resolve().parents[1] / "mpi" / "stage_on_four.py"


def sample(number: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full((2, 3, 4), number + 0.5, dtype=np.float32), np.full((3, 4), number)


def test_one_rank_stages_everything_and_reads_it_back(tmp_path):
    staged, facts = stage(sample, PLAN, tmp_path)
    assert facts["read"] == 6
    assert facts["received"] == 0
    for number in range(6):
        values = np.empty((2, 3, 4), np.float32)
        target = staged.read(number, values)
        np.testing.assert_array_equal(values, sample(number)[0])
        np.testing.assert_array_equal(target, sample(number)[1])
    # 6 samples of 24 float32 and 12 int64.
    assert (tmp_path / "node-0000" / "samples").stat().st_size == 6 * (24 * 4 + 12 * 8)


def test_samples_are_staged_anew_where_it_cannot_be_told_what_they_are(tmp_path, caplog):
    staged, _ = stage(sample, PLAN, tmp_path)
    noted = staged.folder / "plan.json"
    noted.write_text(noted.read_text()[:20])
    again, facts = stage(lambda number: sample(number + 10), PLAN, tmp_path)
    assert f"{noted} is damaged" in caplog.text
    assert facts["read"] == 6
    assert again.read(5, np.empty((2, 3, 4), np.float32))[0, 0] == 15


def test_staged_samples_of_other_data_are_refused_with_what_to_do(tmp_path):
    stage(sample, PLAN, tmp_path)
    with pytest.raises(ValueError, match=r"node-0000 holds staged samples of other data .*; delete it, or stage else"):
        stage(sample, replace(PLAN, source="letters"), tmp_path)


@pytest.mark.mpi
@pytest.mark.slow
def test_four_ranks_on_two_nodes_read_each_sample_once(mpiexec, tmp_path):
    assert mpiexec(4, SCRIPT, str(tmp_path)).count("proven") == 4
