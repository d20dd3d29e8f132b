"""The benchmark of exchanges runs, as a toy; what it counts agrees with other counts."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.slow
@pytest.mark.mpi
def test_exchanges_are_measured_in_turn_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from climlab_dl.models.deeplab import DeepLab

    monkeypatch.syspath_prepend(BENCHMARKS)
    import on_ranks  # pyright: ignore[reportMissingImports]
    import ranks  # pyright: ignore[reportMissingImports]

    assert DeepLab.mlperf() == on_ranks.NETWORK
    command = ["ranks.py", "weak", "all_reduce", "--toy", "--rounds", "1", "--folder", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    ranks.main()
    assert "goal 0.92" in capsys.readouterr().out
    found = json.loads((tmp_path / "ranks.json").read_text())
    assert found["all_reduce"]["bytes"] == 4 * sum(each.numel() for each in DeepLab.small().build(16, 3).parameters())
    for case in found.values():
        assert all(0 < arm["least"] <= arm["seconds"] for arm in case["arms"].values())
    told = (tmp_path / "ranks.md").read_text()
    assert "averaged and looked through for NaN in shared memory" in told
    assert "16 x 32 x 48" in told


def test_latency_and_bandwidth_come_back_from_the_times_that_follow_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from climlab_dl.performance.collectives import Machine, Network, all_reduce

    monkeypatch.syspath_prepend(BENCHMARKS)
    import ranks  # pyright: ignore[reportMissingImports]

    network = Network(latency=2e-4, bandwidth=4e7)
    machine = Machine(name="two", across=network, within=network)
    small, large = (all_reduce(machine, size, 2, "ring") for size in (0, 28e6))
    found = ranks.network_of(small, large, 28e6)
    assert (found.latency, found.bandwidth) == (pytest.approx(2e-4), pytest.approx(4e7))
