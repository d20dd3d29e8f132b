"""Ranks from a cell: started whole or not at all, given work, and gone without a trace."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import cloudpickle
import psutil
import pytest

from climlab_dl.parallel import cluster
from climlab_dl.parallel.cluster import processes
from climlab_dl.parallel.cluster.engines import Engines
from climlab_dl.parallel.cores import cores

pytestmark = pytest.mark.mpi

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Doubled:
    """A class that no rank can import."""

    def __init__(self, value: int) -> None:
        self.value = 2 * value


def rank_and_threads() -> tuple[int, str]:
    from mpi4py import MPI

    return MPI.COMM_WORLD.rank, os.environ["OMP_NUM_THREADS"]


def halve_even(number: int) -> float:
    if number % 2:
        raise ArithmeticError(f"{number} is odd")
    return number / 2


def test_engines_are_ranks_in_order_and_share_the_cores(engines: Engines) -> None:
    threads = str(max(1, cores() // 2))
    assert engines.call(rank_and_threads) == [(0, threads), (1, threads)]


def test_map_keeps_the_order_of_items_and_carries_the_notebooks_own_classes(engines: Engines) -> None:
    results = engines.map(Doubled, range(7))
    assert [result.value for result in results] == [0, 2, 4, 6, 8, 10, 12]


def test_map_over_nothing_is_nothing(engines: Engines) -> None:
    assert engines.map(halve_even, []) == []


def test_map_raises_what_the_function_raised_with_rank_item_and_traceback(engines: Engines) -> None:
    with pytest.raises(ArithmeticError, match="3 is odd") as caught:
        engines.map(halve_even, [2, 4, 3, 6])
    notes = "\n".join(caught.value.__notes__)
    assert "Raised on rank" in notes
    assert "Item 2 of 4: 3" in notes
    assert "in halve_even" in notes
    assert engines.map(halve_even, [8]) == [4]


def test_an_exception_that_cannot_travel_is_told_all_the_same(engines: Engines) -> None:
    def fail() -> None:
        error = LookupError("held")
        error.lock = __import__("threading").Lock()  # type: ignore[attr-defined]
        raise error

    with pytest.raises(RuntimeError, match="LookupError: held"):
        engines.call(fail)


@pytest.mark.slow
def test_a_rank_that_waits_for_one_that_failed_is_freed(engines: Engines) -> None:
    def meet() -> None:
        from mpi4py import MPI

        if MPI.COMM_WORLD.rank == 1:
            raise KeyError("lost")
        MPI.COMM_WORLD.barrier()

    with pytest.raises(KeyError, match="lost"):
        engines.call(meet)
    assert engines.map(halve_even, [2]) == [1]


def test_a_rank_that_is_killed_is_named_and_the_next_call_has_all_ranks_again(engines: Engines) -> None:
    def die() -> None:
        from mpi4py import MPI

        if MPI.COMM_WORLD.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    with pytest.raises(ChildProcessError, match="rank 1 died: killed"):
        engines.call(die)
    assert [rank for rank, _ in engines.call(rank_and_threads)] == [0, 1]


def test_ranks_and_controller_of_one_host_listen_on_loopback_only(engines: Engines) -> None:
    listening: dict[str, set[tuple[str, int]]] = {"launcher": set(), "others": set()}
    for process in processes.marks()[engines.id]:
        whose = "launcher" if Path(process.exe()).name.startswith("mpiexec") else "others"
        found = process.net_connections("inet")
        listening[whose] |= {(each.laddr.ip, each.laddr.port) for each in found if each.status == psutil.CONN_LISTEN}
    # All processes inherit the port that MPICH's launcher has for its own on other hosts: it cannot be told not to.
    ours = listening["others"] - listening["launcher"]
    assert len(ours) > 8
    assert {address for address, _ in ours} == {"127.0.0.1"}


def test_closing_leaves_no_process_and_no_file() -> None:
    engines = cluster.start(ranks=1)
    mark = engines.id
    folder = Path(mark)
    row = cluster.list().loc[mark]
    assert row["ranks"] == 1
    assert row["processes"] > 3
    assert row["kernel"] == os.getpid()
    assert row["state"] == "idle"
    assert not row["orphan"]
    assert mark not in cluster.cleanup()
    assert folder.stat().st_mode & 0o777 == 0o700
    engines.close()
    engines.close()
    assert mark not in processes.marks()
    assert not folder.exists()
    with pytest.raises(RuntimeError, match=r"closed; start new ones with cluster\.start"):
        engines.map(halve_even, [2])


def test_a_start_that_fails_shows_the_log_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # An interpreter flag that there is not: every rank fails before it can register.
    monkeypatch.setattr("climlab_dl.parallel.cluster.launch._ENGINE", ("--no-such-flag=1",))
    with pytest.raises(RuntimeError, match=r"(?s)waited for .*log ends:.*unrecognized arguments: --no-such-flag"):
        cluster.start(ranks=1)
    assert list(tmp_path.iterdir()) == []
    assert not [mark for mark in processes.marks() if mark.startswith(str(tmp_path))]


def test_a_missing_mpiexec_is_said_before_anything_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="pip install mpich"):
        cluster.start(ranks=1)
    assert list(tmp_path.iterdir()) == []


def test_no_ranks_and_too_little_memory_are_said_before_anything_is_started() -> None:
    with pytest.raises(ValueError, match="ranks=0 must be at least 1"):
        cluster.start(ranks=0)
    with pytest.raises(MemoryError, match="start at most"):
        cluster.start(ranks=10**6)


def start_elsewhere(script: str, home: Path) -> tuple[subprocess.Popen, str]:
    """Run a script in a process of its own, which prints its cluster's id, and give both."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    kernel = subprocess.Popen(command, env=os.environ | {"HOME": str(home)}, stdout=subprocess.PIPE, text=True)
    assert kernel.stdout is not None
    return kernel, kernel.stdout.readline().strip()


def assert_gone(mark: str) -> None:
    """Wait until no process and no record of a cluster is left."""
    deadline = time.monotonic() + 30
    while (mark in processes.marks() or mark in cluster.list().index) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert mark not in processes.marks()
    assert mark not in cluster.list().index


IDLE = """
    import time
    from climlab_dl.parallel import cluster
    engines = cluster.start(ranks=1)
    print(engines.id, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_ranks_end_when_their_kernel_is_killed_and_the_users_ipython_is_left_alone(tmp_path: Path) -> None:
    kernel, mark = start_elsewhere(IDLE, tmp_path)
    assert processes.marks()[mark]
    kernel.kill()
    kernel.communicate()
    assert_gone(mark)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_cleanup_ends_what_kernel_and_guard_left_behind_and_only_that(tmp_path: Path, engines: Engines) -> None:
    kernel, mark = start_elsewhere(IDLE, tmp_path)
    children = psutil.Process(kernel.pid).children()
    guard = next(child for child in children if "cluster.guard" in " ".join(child.cmdline()))
    guard.kill()
    kernel.kill()
    kernel.communicate()
    assert cluster.list().loc[mark, "orphan"]
    assert processes.marks()[mark]
    assert mark in cluster.cleanup()
    assert_gone(mark)
    assert engines.map(halve_even, [2]) == [1]


@pytest.mark.slow
def test_processes_whose_folder_was_swept_are_left_alone_while_their_kernel_runs(tmp_path: Path) -> None:
    kernel, mark = start_elsewhere(IDLE, tmp_path)
    shutil.rmtree(mark)
    assert mark not in cluster.cleanup()
    assert processes.marks()[mark]
    kernel.kill()
    kernel.communicate()
    assert_gone(mark)


@pytest.mark.slow
def test_a_detached_training_goes_on_without_its_kernel_and_is_found_again(tmp_path: Path) -> None:
    script = f"""
        import sys, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import points
        from climlab_dl.parallel import cluster
        engines = cluster.start(ranks=2)
        training = engines.train(points.run(steps=2000, seconds=0.05), {str(tmp_path / "run")!r}, detach=True)
        while len(training.progress()) < 2:
            time.sleep(0.1)
        print(engines.id, flush=True)
        time.sleep(600)
    """
    kernel, mark = start_elsewhere(script, tmp_path)
    kernel.kill()
    kernel.communicate()
    training = cluster.attach(tmp_path / "run")
    before = training.status()["step"]
    row = cluster.list().loc[mark]
    assert (row["training"], row["detached"], row["kernel_runs"]) == (str(tmp_path / "run"), True, False)
    assert mark not in cluster.cleanup()
    time.sleep(1.5)
    status = training.stop().status()
    assert status["state"] == "stopped"
    assert status["step"] > before + 2
    assert_gone(mark)


def test_a_process_number_that_was_given_out_again_is_not_alive() -> None:
    this = psutil.Process()
    assert processes.alive(this.pid)
    assert processes.alive(this.pid, this.create_time())
    assert not processes.alive(this.pid, this.create_time() - 100)
