"""How ranks lie on nodes, and the groups in which they exchange by way of them."""

import torch
from torch import Tensor

from climlab_dl.parallel import ranks


class Nodes:
    """The ranks of this rank's node, and those of all nodes that have its place there.

    Groups of others are not made: on thousands of nodes that would take longer than a training.

    Parameters
    ----------
    ranks_per_node
        Layout; by default the hosts that the ranks run on.
    """

    def __init__(self, ranks_per_node: int | None) -> None:
        if ranks_per_node is None:
            here = ranks.world()
            nodes = ranks.gather(torch.tensor(here.node), "layout of nodes")
        else:
            nodes = torch.arange(ranks.size()) // ranks_per_node
        sizes = nodes.bincount()
        if (sizes != sizes[0]).any():
            raise ValueError(
                f"the hierarchical route needs as many ranks on each node, found {sizes.tolist()}; "
                "start as many on each, or use route='flat'"
            )
        layout = nodes.argsort(stable=True).reshape(len(sizes), -1)  # (node, place)
        node, self._place = (layout == ranks.rank()).nonzero()[0].tolist()
        self.here = layout.shape[1]
        self.within, self.across = (ranks.group(members.tolist()) for members in (layout[node], layout[:, self._place]))

    def shard(self, values: Tensor) -> Tensor:
        """Part of a buffer that this rank takes across nodes."""
        return values.chunk(self.here)[self._place]
