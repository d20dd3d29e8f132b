import subprocess
import sys

import pytest

from climlab_dl.parallel import ranks
from climlab_dl.parallel.cluster.processes import mpiexec


def test_slurm_tasks_that_do_not_know_of_each_other_are_refused(monkeypatch):
    for name, value in (("SLURM_PROCID", "1"), ("SLURM_STEP_NUM_TASKS", "4")):
        monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError, match="srun started 4 tasks, but this one sees no other rank"):
        ranks.join()
    assert ranks._world is None


@pytest.mark.mpi
@pytest.mark.slow
def test_ranks_meet_and_part_many_times_in_any_order_and_leave_nothing_open(tmp_path):
    # Whoever leaves first must not take away what the other still needs to leave.
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time, torch\n"
        "from climlab_dl.parallel import ranks\n"
        "opened = []\n"
        "for meeting in range(24):\n"
        "    with ranks.joined(timeout=30) as here:\n"
        "        assert ranks.sum(torch.ones(1), 'met').item() == 2\n"
        "        time.sleep(0.01 * (meeting % 3) * ((meeting + here.rank) % 2))\n"
        "    opened.append(len(os.listdir('/proc/self/fd')))\n"
        "assert opened[-1] == opened[3], opened\n"
    )
    command = [mpiexec(), "-n", "2", sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
