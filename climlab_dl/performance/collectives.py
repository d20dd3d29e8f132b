"""How long all ranks of a machine take to add up their buffers, by the way that these take.

A message of n bytes takes ``latency + n / bandwidth`` (the alpha-beta model: Hockney 1994; for collectives Thakur,
Rabenseifner & Gropp 2005). Times are in seconds, sizes in bytes, rates in bytes per second.
"""

from dataclasses import dataclass
from math import ceil, log2
from typing import Literal

Route = Literal["ring", "tree", "hierarchical"]


@dataclass(frozen=True, kw_only=True)
class Network:
    """What carries messages.

    Parameters
    ----------
    latency
        Seconds that a message takes however short it is.
    bandwidth
        Bytes per second, each way.
    """

    latency: float
    bandwidth: float

    def __post_init__(self) -> None:
        if self.latency < 0:
            raise ValueError(f"latency={self.latency!r}: choose seconds from 0")
        if not self.bandwidth > 0:
            raise ValueError(f"bandwidth={self.bandwidth!r}: choose bytes per second above 0")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Nodes of some ranks each.

    Parameters
    ----------
    name
        For tables.
    across
        The network between nodes; the bandwidth is that of a node, which its ranks share.
    within
        What joins the ranks of a node; the bandwidth is that of a rank.
    ranks_per_node
        How many ranks a node has.
    spread
        Standard deviation of the time of a node's step, as a share of the step.
    """

    name: str
    across: Network
    within: Network
    ranks_per_node: int = 1
    spread: float = 0.0

    def __post_init__(self) -> None:
        if self.ranks_per_node < 1:
            raise ValueError(f"ranks_per_node={self.ranks_per_node!r}: choose a whole number from 1")
        if not 0 <= self.spread < 1:
            raise ValueError(f"spread={self.spread!r}: choose a share of the step, from 0 to below 1")

    def nodes(self, ranks: int) -> int:
        """Nodes that so many ranks fill."""
        return ceil(ranks / self.ranks_per_node)


def all_reduce(machine: Machine, size: float, ranks: int, route: Route = "hierarchical") -> float:
    """Time in which all ranks have the sum of as many buffers.

    Parameters
    ----------
    machine
        On which.
    size
        Bytes of a buffer.
    ranks
        How many; the nodes are full.
    route
        As in :class:`Technique`.

    Returns
    -------
    float
        Seconds; 0 for one rank.
    """
    if ranks == 1:
        return 0.0
    nodes, here = machine.nodes(ranks), min(ranks, machine.ranks_per_node)
    across, within = machine.across, machine.within
    if nodes == 1:
        return _tree(within, size, here) if route == "tree" else _ring(within, size, here)
    if route == "ring":
        # All links carry at once, so each of the steps takes as long as on the slowest.
        slowest = min(across.bandwidth, within.bandwidth)
        return _ring(Network(latency=max(across.latency, within.latency), bandwidth=slowest), size, ranks)
    if route == "tree":
        # The far halves go first, while they are largest: all ranks of a node send at once through its one exit.
        shared = Network(latency=across.latency, bandwidth=across.bandwidth / here)
        return _tree(shared, size, nodes) + _tree(within, size / nodes, here)
    # Each rank takes a part of the buffer across; together they fill the node's exit.
    shared = Network(latency=across.latency, bandwidth=across.bandwidth / here)
    return _ring(within, size, here) + _tree(shared, size / here, nodes)


def _ring(network: Network, size: float, ranks: int) -> float:
    """Reduce-scatter and all-gather in a ring: each rank sends ``ranks - 1`` pieces in each."""
    return 2 * (ranks - 1) * (network.latency + size / ranks / network.bandwidth)


def _tree(network: Network, size: float, ranks: int) -> float:
    """Recursive halving, then doubling: as many bytes as a ring, in as many messages as the tree is deep."""
    return 2 * log2(ranks) * network.latency + 2 * (ranks - 1) / ranks * size / network.bandwidth
