"""What is said before ranks are given work."""

import logging

import pytest

from climlab_dl.parallel.cluster import preflight
from climlab_dl.parallel.cluster.preflight import Report
from climlab_dl.parallel.cores import cores
from climlab_dl.words import counted


def report(rank: int, size: int = 2, total: int = 3, **versions: str) -> Report:
    known = {"torch": "1"} | versions
    return Report(rank=rank, size=size, total=total, host="h", pid=rank, mpi="MPICH", versions=known)


def test_a_world_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"see worlds of \[1\].*Keep one MPI"):
        preflight.check_reports([report(0, size=1, total=1), report(0, size=1, total=1)], 2)


def test_a_wrong_sum_and_differing_versions_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"ranks got \{1: 4\}"):
        preflight.check_reports([report(0), report(1, total=4)], 2)
    with pytest.raises(RuntimeError, match=r"rank 0 has torch 1, other ranks have \{1: '2'\}"):
        preflight.check_reports([report(0), report(1, torch="2")], 2)
    preflight.check_reports([report(0), report(1)], 2)


def test_a_gpu_to_each_rank_is_fine_and_so_is_none() -> None:
    preflight.check_gpus({0: ("a", ()), 1: ("a", ())})
    # All ranks of a host see all its GPUs, or, as Slurm binds them, each sees its own; GPUs may be left over.
    preflight.check_gpus({0: ("a", ("A", "B")), 1: ("a", ("A", "B")), 2: ("b", ("C", "D")), 3: ("b", ("C", "D"))})
    preflight.check_gpus({0: ("a", ("A",)), 1: ("a", ("B",))})
    preflight.check_gpus({0: ("a", ("A", "B", "C")), 1: ("b", ("D", "E", "F"))})


def test_ranks_that_would_share_a_gpu_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"ranks 0 and 2 would share GPU A of a, which has 2 .* at most 2 ranks"):
        preflight.check_gpus(dict.fromkeys(range(3), ("a", ("A", "B"))))
    # The second host has one for its two, though there are enough in all.
    everywhere = {0: ("a", ("A", "B", "C")), 1: ("a", ("A", "B", "C")), 2: ("b", ("D",)), 3: ("b", ("D",))}
    with pytest.raises(RuntimeError, match=r"ranks 2 and 3 would share GPU D of b, which has 1 .* most 1 rank there"):
        preflight.check_gpus(everywhere)


def test_ranks_of_which_some_have_a_gpu_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"ranks \[1\] on b see no GPU and the other ranks do"):
        preflight.check_gpus({0: ("a", ("A",)), 1: ("b", ())})


def test_ranks_are_shared_evenly_by_hosts_or_refused() -> None:
    assert preflight.check_share(6, 3) == 2
    with pytest.raises(ValueError, match="ranks=5 cannot be shared evenly by 2 hosts; 6 ranks can"):
        preflight.check_share(5, 2)
    with pytest.raises(ValueError, match="ranks=0 must be at least 1"):
        preflight.check_share(0, 1)


def test_more_threads_than_cores_and_too_little_memory_are_said(caplog: pytest.LogCaptureFixture) -> None:
    here = cores()
    with caplog.at_level(logging.WARNING):
        preflight.check_room(1, here)
        assert not caplog.messages
        preflight.check_room(1, here + 1)
    shared = counted(here, "core")
    assert f"1 rank x {here + 1} threads share {shared};" in caplog.messages[0]
    with pytest.raises(MemoryError, match=r"1000000 ranks would take .* start at most \d+, or close"):
        preflight.check_room(10**6, 1)
