import fcntl
import json
import os
import socket
import subprocess
import sys
import time

import psutil
import pytest

from climlab_dl.training.lock import STALE_SECONDS, locked

HOST = socket.gethostname()
HOLD = """
import sys, time
from pathlib import Path
from climlab_dl.training.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""

RIVALS = """
import json, multiprocessing, socket, sys, time
from pathlib import Path
from climlab_dl.training.lock import locked

def hold(folder, start, held):
    start.wait()
    try:
        with locked(folder):
            began = time.monotonic()
            time.sleep(0.03)
            held.put((began, time.monotonic()))
    except RuntimeError:
        held.put(None)

fork = multiprocessing.get_context("fork")
for number in range(15):
    folder = Path(sys.argv[1]) / str(number)
    folder.mkdir()
    (folder / "lock").write_text(json.dumps({"host": socket.gethostname(), "pid": 2**22 - 1, "started": 0.0}))
    start, held = fork.Event(), fork.Queue()
    rivals = [fork.Process(target=hold, args=(folder, start, held)) for _ in range(6)]
    for rival in rivals:
        rival.start()
    start.set()
    times = sorted(time for time in [held.get() for _ in rivals] if time)
    for rival in rivals:
        rival.join()
    assert times, "nobody had it"
    assert all(one[1] <= next[0] for one, next in zip(times, times[1:])), f"two had it in round {number}"
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
        assert json.loads(lock.path.read_text())["pid"] == os.getpid()
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


@pytest.mark.parametrize(
    "text",
    ['{"host": "el', "", "null", "[]", '{"host": null}', json.dumps({"host": HOST, "pid": -5, "started": 0.0})],
)
def test_a_lock_that_names_nobody_is_taken_over(tmp_path, text):
    (tmp_path / "lock").write_text(text)
    with locked(tmp_path) as lock:
        assert json.loads(lock.path.read_text())["pid"] == os.getpid()
    assert not list(tmp_path.iterdir())


def test_of_many_that_take_over_a_dead_lock_at_once_one_has_it(tmp_path):
    ended = subprocess.run([sys.executable, "-c", RIVALS, str(tmp_path)], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_a_lock_that_was_deleted_is_made_again(tmp_path, caplog):
    with locked(tmp_path) as lock:
        lock.path.unlink()
        lock.beat()
        assert json.loads(lock.path.read_text())["pid"] == os.getpid()
        assert not lock.lost
    assert "made again" in caplog.text


def test_a_lock_shows_signs_of_life_however_long_a_step_takes(tmp_path, monkeypatch):
    monkeypatch.setattr("climlab_dl.training.lock.BEAT_SECONDS", 0.05)
    with locked(tmp_path) as lock:
        os.utime(lock.path, (0, 0))
        while not lock.path.stat().st_mtime:
            time.sleep(0.02)


def test_the_lock_of_who_took_the_folder_meanwhile_stays(tmp_path):
    theirs = json.dumps({"host": "elsewhere", "pid": 7, "started": 0.0})
    with locked(tmp_path) as lock:
        lock.path.write_text(theirs)
        lock.beat()
        assert "process 7 on elsewhere has taken" in lock.lost
    assert (tmp_path / "lock").read_text() == theirs


def test_a_second_training_of_the_same_process_is_refused(tmp_path):
    with locked(tmp_path):
        with pytest.raises(RuntimeError, match=rf"process {os.getpid()} on .* is training in"), locked(tmp_path):
            pass
        assert (tmp_path / "lock").exists()
    with locked(tmp_path):
        pass


def test_a_killed_process_that_nobody_has_waited_for_is_gone(tmp_path, holder):
    holder.kill()
    while psutil.Process(holder.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    with locked(tmp_path):
        pass


def test_a_folder_that_somebody_else_holds_is_trained_in_all_the_same(tmp_path, monkeypatch):
    # As ``flock FOLDER python train.py`` does.
    monkeypatch.setattr("climlab_dl.training.lock.ALONE_SECONDS", 0.05)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with locked(tmp_path) as lock:
            assert lock.path.exists()
    finally:
        os.close(descriptor)
    assert not list(tmp_path.iterdir())


def test_a_sign_of_life_after_the_end_makes_no_lock(tmp_path):
    with locked(tmp_path) as lock:
        pass
    lock.beat()
    assert not list(tmp_path.iterdir())


def test_a_lock_that_was_emptied_is_made_again(tmp_path):
    with locked(tmp_path) as lock:
        lock.path.write_text("")
        lock.beat()
        assert json.loads(lock.path.read_text()) == lock.me
        assert not lock.lost


def test_a_copy_of_the_process_does_not_give_the_folder_back(tmp_path):
    with locked(tmp_path) as lock:
        lock.me["pid"] += 1  # as it is to a forked child, whose own number is another
        lock.release()
        lock.me["pid"] -= 1
        assert lock.path.exists()


def test_a_folder_deleted_meanwhile_is_no_reason_to_fail(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with locked(folder) as lock:
        lock.path.unlink()
        folder.rmdir()
        lock.beat()
