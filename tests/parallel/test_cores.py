import os

import pytest

from climlab_dl.parallel.cores import cores
from climlab_dl.training.environment import environment


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not say which cores a process has")
def test_cores_that_were_taken_away_do_not_count():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, [min(before)])
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert cores() == len(before)


def test_where_the_system_does_not_tell_a_process_its_cores_all_count(monkeypatch):
    # As on macOS, where a run's folder is to say where it trains all the same.
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cores() == os.cpu_count()
    assert environment(0)["cores"] == os.cpu_count()
