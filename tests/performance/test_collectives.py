"""The model of a sum over ranks: known answers, and what must hold whatever the machine."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.performance.collectives import Machine, Network, all_reduce

FAST = Network(latency=1e-6, bandwidth=100e9)
SLOW = Network(latency=10e-6, bandwidth=10e9)
NODES = Machine(name="nodes of 4", across=SLOW, within=FAST, ranks_per_node=4)
SINGLE = Machine(name="nodes of 1", across=SLOW, within=FAST)

machines = st.builds(
    lambda ranks, latency, bandwidth, faster: Machine(
        name="any", ranks_per_node=ranks, across=Network(latency=latency, bandwidth=bandwidth),
        within=Network(latency=latency / faster, bandwidth=bandwidth * faster),
    ),
    st.integers(1, 16), st.floats(1e-7, 1e-3), st.floats(1e6, 1e12), st.floats(1, 50),
)  # fmt: skip


def test_a_ring_of_four_nodes_sends_three_quarters_twice_in_six_messages() -> None:
    # 6 x 10 us + 2 x 3/4 x 100 MB / 10 GB/s = 60 us + 15 ms
    assert all_reduce(SINGLE, 100e6, 4, "ring") == pytest.approx(15.06e-3)


def test_a_tree_over_eight_nodes_is_three_deep_each_way() -> None:
    # 2 x 3 x 10 us + 2 x 7/8 x 100 MB / 10 GB/s = 60 us + 17.5 ms
    assert all_reduce(SINGLE, 100e6, 8, "tree") == pytest.approx(17.56e-3)


def test_the_hierarchical_route_takes_each_byte_across_once_for_a_node() -> None:
    # In the node: 2 x 3 x (1 us + 25 MB / 100 GB/s) = 1.506 ms. Across: four ranks with 25 MB each, each with a quarter
    # of 10 GB/s, over 8 nodes: 6 x 10 us + 2 x 7/8 x 25 MB / 2.5 GB/s = 17.56 ms.
    assert all_reduce(NODES, 100e6, 32, "hierarchical") == pytest.approx(19.066e-3)


def test_a_tree_that_knows_no_nodes_takes_each_byte_across_once_for_a_rank() -> None:
    # Across: 60 us + 2 x 7/8 x 100 MB / 2.5 GB/s = 70.06 ms; the rest, an eighth, in the node:
    # 4 x 1 us + 2 x 3/4 x 12.5 MB / 100 GB/s = 0.1915 ms.
    assert all_reduce(NODES, 100e6, 32, "tree") == pytest.approx(70.2515e-3)


@given(machines, st.integers(2, 500), st.floats(1, 1e9))
def test_hierarchical_is_never_slower_than_a_tree_that_knows_no_nodes_by_more_than_the_nodes_own_messages(
    machine: Machine, nodes: int, size: float
) -> None:
    ranks = machine.ranks_per_node * nodes
    messages = 2 * (machine.ranks_per_node - 1) * machine.within.latency
    # For n bytes, r ranks in each of N nodes: 2 n (1 - 1/N) (r - 1) (1/across - 1/(r within)) is saved, not below 0.
    hierarchical, tree = (all_reduce(machine, size, ranks, route) for route in ("hierarchical", "tree"))
    assert hierarchical <= tree + messages + 1e-12


def test_one_ring_is_best_on_few_ranks_of_an_even_network_and_worst_on_many() -> None:
    even = replace(NODES, within=SLOW)
    # On 2 nodes: 2 x 7/8 of the buffer in one ring, against 2 x 3/4 in the node and 2 x 1/2 across.
    assert all_reduce(even, 100e6, 8, "ring") < all_reduce(even, 100e6, 8, "hierarchical")
    assert all_reduce(even, 100e6, 8192, "ring") > 5 * all_reduce(even, 100e6, 8192, "hierarchical")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Network(latency=-1, bandwidth=1), "latency=-1: choose seconds from 0"),
        (lambda: Network(latency=0, bandwidth=0), "bandwidth=0: choose bytes per second above 0"),
        (lambda: replace(NODES, ranks_per_node=0), "ranks_per_node=0: choose a whole number from 1"),
        (lambda: replace(NODES, spread=1.5), "spread=1.5: choose a share"),
    ],
)
def test_machines_that_cannot_be_are_refused_with_what_to_do(wrong: object, says: str) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match=says):
        wrong()
