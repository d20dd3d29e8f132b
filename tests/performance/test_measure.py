"""Seconds by turns, rates and ratios by hand, and memory that was really held."""

import mmap

import pytest
import torch

from climlab_dl.performance import measure as module
from climlab_dl.performance.measure import Ratio, Work, alternate, measure, peak_memory, ratio


class Clock:
    """A clock that only work moves: the wall runs three times as fast as the core."""

    def __init__(self) -> None:
        self.cpu = 0.0

    def process_time(self) -> float:
        return self.cpu

    def perf_counter(self) -> float:
        return 3 * self.cpu

    def work(self, seconds: float):
        def call() -> None:
            self.cpu += seconds

        return call


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_works_take_turns_and_the_first_round_is_not_counted():
    said = []
    timings = alternate({"a": lambda: said.append("a"), "b": lambda: said.append("b")}, 2)
    assert "".join(said) == "ababab"
    assert {name: len(timing.cpu) for name, timing in timings.items()} == {"a": 2, "b": 2}


def test_a_round_is_compared_with_its_neighbour_in_time():
    # 1/2, 6/3 and 3/3: the machine was slow for both in the second round, which cancels.
    assert ratio([1, 6, 3], [2, 3, 3]) == Ratio(median=1.0, low=0.5, high=2.0)


def test_rates_and_the_share_of_the_ceiling_follow_from_the_seconds(clock):
    # Two samples of 100 operations in 2 s: 1 s a sample, 100 a second. The ceiling does 400 in 1 s: a quarter of it.
    work = Work(call=clock.work(2.0), samples=2, flops=100.0, bytes=10.0)
    found = measure("case", work, rounds=3, ceilings={"bound": Work(call=clock.work(1.0), flops=400.0)})
    assert (found.cpu, found.wall, found.samples) == (1.0, 3.0, 6)
    assert (found.flops_per_second, found.bytes_per_second) == (100.0, 10.0)
    assert found.of_ceilings == {"bound": Ratio(median=0.25, low=0.25, high=0.25)}


def test_what_waits_is_rated_by_the_wall(clock):
    # 30 bytes in 1 s of a core are 3 s by the wall, where both are compared: 10 bytes/s of the ceiling's 40 / 1.5.
    bound = Work(call=clock.work(0.5), bytes=40.0)
    found = measure("case", Work(call=clock.work(1.0), bytes=30.0, clock="wall"), rounds=1, ceilings={"copy": bound})
    assert found.bytes_per_second == pytest.approx(10.0)
    assert found.of_ceilings["copy"].median == pytest.approx(10 / (40 / 1.5))


def test_without_counts_there_are_seconds_alone(clock):
    found = measure("case", Work(call=clock.work(1.0)), rounds=1)
    assert (found.flops_per_second, found.bytes_per_second, found.of_ceilings) == (None, None, {})


@pytest.mark.skipif(torch.cuda.is_available(), reason="where there is a GPU its memory is told")
def test_the_peak_is_what_was_held_at_worst():
    # From the system itself: a process that keeps what it has freed may have as much at hand.
    with peak_memory() as peak, mmap.mmap(-1, 2**26) as held:
        for _ in range(64):
            held.write(bytes(2**20))
    if peak.bytes is None:
        pytest.skip("this system does not tell")
    assert 2**26 * 0.95 < peak.bytes < 2**26 * 1.2


def test_no_rounds_are_refused():
    with pytest.raises(ValueError, match="rounds=0: choose 1 or more"):
        alternate({}, 0)
