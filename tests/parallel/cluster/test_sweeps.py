"""Runs side by side on shares of the ranks."""

import time
from pathlib import Path
from types import ModuleType

import pytest

from climlab_dl.parallel import cluster
from climlab_dl.parallel.cluster.processes import marks
from climlab_dl.plot import live

pytestmark = pytest.mark.mpi


@pytest.mark.slow
def test_runs_take_turns_and_one_that_is_stopped_or_fails_leaves_the_others_alone(
    points: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {
        "long": points.run(steps=5000, seconds=0.02),
        "broken": points.run(steps=4, unreadable=True),
        "short": points.run(steps=6),
        "unwanted": points.run(steps=5000),
    }
    with cluster.sweep(runs, tmp_path, ranks=2, at_once=2) as sweep:
        sweep.stop("unwanted")
        assert sweep.table().loc["unwanted", "state"] == "left out"
        with pytest.raises(KeyError, match="no run 'other' in this sweep"):
            sweep.stop("other")
        deadline = time.monotonic() + 120
        while sweep.table().loc["short", "state"] != "finished":
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert sweep.active()
        sweep.stop("long")
        with pytest.raises(OSError, match="damaged"):
            live.watch(sweep)
        table = sweep.table()
    assert list(table["state"]) == ["stopped", "failed", "finished", "left out"]
    assert list(table["data.seconds"].dropna()) == [0.02, 0.0, 0.0]
    assert "stopped" in capsys.readouterr().out
    assert not {engines.id for engines in sweep.engines} & set(marks())


def test_a_sweep_without_runs_or_with_less_than_a_rank_each_is_refused(points: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs at least one run"):
        cluster.sweep({}, tmp_path)
    with pytest.raises(ValueError, match="at_once=3 runs on ranks=2 ranks"):
        cluster.sweep({"a": points.run()}, tmp_path, ranks=2, at_once=3)
