"""The model of a step on many ranks: known answers, and what must hold whatever the machine."""

from dataclasses import replace
from math import inf, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.performance.collectives import Machine, Network
from climlab_dl.performance.scaling import Source, Step, Technique, Workload, largest_of, step, sweep

FAST = Network(latency=1e-6, bandwidth=100e9)
SLOW = Network(latency=10e-6, bandwidth=10e9)
NODES = Machine(name="nodes of 4", across=SLOW, within=FAST, ranks_per_node=4)
SINGLE = Machine(name="nodes of 1", across=SLOW, within=FAST)
TRAINING = Workload(name="training", seconds=0.5, gradient_bytes=100e6)
ROUTES = ("ring", "tree", "hierarchical")

machines = st.builds(
    lambda ranks, latency, bandwidth, faster, spread: Machine(
        name="any", ranks_per_node=ranks, spread=spread,
        across=Network(latency=latency, bandwidth=bandwidth),
        within=Network(latency=latency / faster, bandwidth=bandwidth * faster),
    ),
    st.integers(1, 16), st.floats(1e-7, 1e-3), st.floats(1e6, 1e12), st.floats(1, 50), st.floats(0, 0.3),
)  # fmt: skip
techniques = st.builds(
    Technique,
    route=st.sampled_from(ROUTES),
    compression=st.sampled_from((0.5, 1.0)),
    lag=st.sampled_from((0, 1)),
    bucket_bytes=st.floats(1e5, 1e9),
)
counts = st.integers(1, 4000)


def taken(machine: Machine, technique: Technique, ranks: int, source: Source | None = None) -> Step:
    return step(machine, TRAINING, technique, source or Source(), ranks)


@given(machines, techniques)
def test_one_rank_waits_for_nobody(machine: Machine, technique: Technique) -> None:
    alone = taken(machine, technique, 1, Source(delay=0.1))
    assert alone.efficiency == 1
    assert alone.exchange == 0


@given(machines, techniques, counts, st.floats(1, 100))
def test_no_latency_does_any_good(machine: Machine, technique: Technique, ranks: int, times: float) -> None:
    later = replace(machine.across, latency=machine.across.latency * times)
    worse = taken(replace(machine, across=later), technique, ranks)
    assert worse.efficiency <= taken(machine, technique, ranks).efficiency * (1 + 1e-12)


@given(machines, techniques, counts, st.floats(1, 100))
def test_no_bandwidth_does_any_harm(machine: Machine, technique: Technique, ranks: int, times: float) -> None:
    wider = replace(machine.across, bandwidth=machine.across.bandwidth * times)
    better = taken(replace(machine, across=wider), technique, ranks)
    assert better.efficiency >= taken(machine, technique, ranks).efficiency * (1 - 1e-12)


@given(machines, techniques, st.integers(1, 200))
def test_more_nodes_are_no_more_efficient(machine: Machine, technique: Technique, nodes: int) -> None:
    few, many = (taken(machine, technique, machine.ranks_per_node * count) for count in (nodes, nodes + 1))
    assert many.efficiency <= few.efficiency * (1 + 1e-12)


@given(machines, techniques, counts)
def test_a_lag_and_half_precision_never_show_more_of_the_exchange(
    machine: Machine, technique: Technique, ranks: int
) -> None:
    shown = taken(machine, replace(technique, lag=0), ranks).exposed
    assert taken(machine, replace(technique, lag=1), ranks).exposed <= shown + 1e-12
    one = replace(technique, compression=1.0, bucket_bytes=inf)
    assert taken(machine, replace(one, compression=0.5), ranks).exposed <= taken(machine, one, ranks).exposed


def test_buckets_hide_all_but_the_last_behind_a_long_backward_pass() -> None:
    # 100 MB in 4 buckets over 8 nodes: each 60 us + 43.75 MB / 10 GB/s = 4.435 ms, and 250 ms of backward pass to hide
    # three of them; in one bucket, 17.56 ms. The agreement adds 2 log2(8) x 10 us.
    pieces, whole = (
        taken(SINGLE, Technique(route="tree", bucket_bytes=size), 8).exposed for size in (25e6, 100e6)
    )  # fmt: skip
    assert pieces == pytest.approx(4.435e-3 + 60e-6)
    assert whole == pytest.approx(17.56e-3 + 60e-6)


def test_a_lagged_exchange_shows_only_beyond_a_whole_step() -> None:
    silent = Network(latency=0, bandwidth=0.25e9)
    slow = Machine(name="slow", across=silent, within=silent)
    # 2 x 1/2 x 100 MB / 0.25 GB/s = 0.4 s of a step of 0.5 s; over a quarter of the bandwidth 1.6 s.
    assert taken(slow, Technique(route="ring", lag=1), 2).exposed == 0
    slower = replace(slow, across=replace(silent, bandwidth=0.0625e9))
    assert taken(slower, Technique(route="ring", lag=1), 2).exposed == pytest.approx(1.6 - 0.5, rel=1e-4)


@pytest.mark.parametrize("count", [2, 10, 1000])
def test_the_slowest_of_many_is_as_late_as_draws_say(count: int) -> None:
    draws = np.random.default_rng(0).standard_normal((4000, count)).max(axis=1)
    # The mean of 4,000 maxima is known to 0.02; Blom's formula is good to 5 %.
    assert largest_of(count) == pytest.approx(draws.mean(), rel=0.05, abs=0.03)


@pytest.mark.parametrize("count", [2, 10, 1000])
def test_the_latest_of_many_reads_is_as_late_as_draws_say(count: int) -> None:
    draws = np.random.default_rng(0).exponential(0.1, (4000, count)).max(axis=1)
    assert Source(delay=0.1).late(count) + 0.1 == pytest.approx(draws.mean(), rel=0.02)


def test_a_shared_file_system_feeds_so_many_ranks_and_no_more() -> None:
    # A sample of 50 MB each half second is 100 MB/s for a rank: 10 GB/s last for a hundred ranks.
    hungry = replace(TRAINING, sample_bytes=50e6)
    quiet = Machine(name="quiet", across=FAST, within=FAST)
    technique, shared = Technique(lag=1), Source(total_rate=10e9)
    assert step(quiet, hungry, technique, shared, 99).input == 0
    assert step(quiet, hungry, technique, shared, 200).seconds == pytest.approx(1.0)
    assert step(quiet, hungry, technique, shared, 200).efficiency == pytest.approx(0.5)


def test_the_agreement_costs_a_message_up_and_down_the_tree() -> None:
    nothing = replace(TRAINING, gradient_bytes=0)
    assert step(SINGLE, nothing, Technique(lag=1), Source(), 64).exposed == pytest.approx(2 * log2(64) * 10e-6)


def test_the_parts_of_a_step_add_up() -> None:
    techniques = {route: (Technique(route=route), Source(total_rate=1e9, delay=0.01)) for route in ROUTES}
    table = sweep(NODES, replace(TRAINING, sample_bytes=1e6, samples=2), techniques, [1, 4, 4000])
    columns = ("exposed", "straggling", "input", "seconds", "ranks", "samples_per_s")
    exposed, straggling, waiting, seconds, ranks, rate = (table[name].to_numpy() for name in columns)
    assert np.allclose(exposed + straggling + waiting + TRAINING.seconds, seconds)
    assert np.allclose(rate, 2 * ranks / seconds)
    assert waiting.max() > 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: replace(TRAINING, seconds=0), "seconds=0: choose the seconds of a step"),
        (lambda: replace(TRAINING, gradient_bytes=-1), "gradient_bytes and sample_bytes are sizes"),
        (lambda: replace(Technique(), route="star"), "route='star': choose 'ring', 'tree' or 'hierarchical'"),
        (lambda: Technique(compression=2), "compression=2: choose above 0 to 1"),
        (lambda: replace(Technique(), lag=2), "lag=2: choose 0 or 1"),
        (lambda: Technique(bucket_bytes=0), "bucket_bytes=0: choose a size above 0"),
        (lambda: taken(NODES, Technique(), 0), "ranks=0: choose a whole number from 1"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(wrong: object, says: str) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match=says):
        wrong()
