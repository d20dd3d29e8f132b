import json
import os
import subprocess
import sys
import time

import pytest

from climlab_dl.training.lock import STALE_SECONDS, locked

HOLD = """
import sys, time
from pathlib import Path
from climlab_dl.training.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_two_processes_do_not_train_in_one_folder(tmp_path, holder):
    with pytest.raises(RuntimeError, match=rf"process {holder.pid} on .* is training in .*delete"), locked(tmp_path):
        pass
    assert (tmp_path / "lock").exists()


def test_the_lock_of_a_process_that_was_killed_is_taken_over(tmp_path, holder, caplog):
    holder.kill()
    holder.wait()
    with locked(tmp_path) as lock:
        assert json.loads(lock.read_text())["pid"] == os.getpid()
    assert "taking over" in caplog.text
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize(("age", "taken_over"), [(10.0, False), (STALE_SECONDS + 10, True)])
def test_the_lock_of_another_host_counts_while_it_shows_signs_of_life(tmp_path, age, taken_over):
    lock = tmp_path / "lock"
    lock.write_text(json.dumps({"host": "elsewhere", "pid": 1, "started": 0.0}))
    os.utime(lock, (time.time() - age,) * 2)
    if taken_over:
        with locked(tmp_path):
            pass
    else:
        with pytest.raises(RuntimeError, match="process 1 on elsewhere"), locked(tmp_path):
            pass


def test_a_lock_cut_short_by_a_kill_is_taken_over(tmp_path):
    (tmp_path / "lock").write_text('{"host": "el')
    with locked(tmp_path):
        pass
