"""Averaging gradients over ranks while the backward pass still runs: flat or hierarchical, compressed, lagged."""

import contextlib
import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from climlab_dl.parallel import ranks, shared
from climlab_dl.parallel.nodes import Nodes
from climlab_dl.parallel.routes import Buckets, Route

_COMPRESSED = {"fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """How ranks average their gradients.

    Parameters
    ----------
    route
        ``"flat"``: one sum over all ranks, which those of one host form in memory that they share.
        ``"hierarchical"``: reduce-scatter in the node, all-reduce across nodes, all-gather in the node (Kurth et al.
        2018, sec. V-A3), so that the network between nodes carries each gradient once for each node.
    compression
        Type that gradients travel in; ``"none"`` is their own. They are divided by the number of ranks first, so
        that the sum cannot overflow where no summand did.
    lag
        1 applies at each step the gradient of the step before, so that its exchange overlaps a whole step (Kurth et
        al. 2018, sec. V-B4). The first step updates nothing; the last gradient waits in the checkpoint.
    bucket_megabytes
        Size from which a bucket is sent.
    ranks_per_node
        Layout for the hierarchical route; by default the hosts that the ranks run on.
    """

    route: Literal["flat", "hierarchical"] = "flat"
    compression: Literal["none", "fp16", "bf16"] = "none"
    lag: Literal[0, 1] = 0
    bucket_megabytes: float = 25.0
    ranks_per_node: int | None = None

    def __post_init__(self) -> None:
        if self.route not in ("flat", "hierarchical"):
            raise ValueError(f"route={self.route!r}: choose 'flat' or 'hierarchical'")
        if self.compression not in ("none", *_COMPRESSED):
            raise ValueError(f"compression={self.compression!r}: choose 'none', 'fp16' or 'bf16'")
        if self.lag not in (0, 1):
            raise ValueError(f"lag={self.lag!r}: choose 0 or 1")
        if not 0 < self.bucket_megabytes < math.inf:
            raise ValueError(f"bucket_megabytes={self.bucket_megabytes!r}: choose a positive size, 25 is usual")
        if self.ranks_per_node is not None and not self.ranks_per_node >= 1:
            raise ValueError(f"ranks_per_node={self.ranks_per_node!r}: choose 1 or more, or None for the hosts' own")

    def start(self, parameters: list[nn.Parameter]) -> "GradientExchange":
        """Take over the gradients of these parameters; every rank calls this."""
        return GradientExchange(self, parameters)


class GradientExchange:
    """The gradients of a network, averaged over ranks.

    A step is ``begin()``, one or more ``backward`` passes with ``last(True)`` before the last of them, ``send()``,
    an agreement among ranks whether all is well, and ``receive()``, after which ``parameter.grad`` holds the average.
    """

    def __init__(self, exchange: Exchange, parameters: list[nn.Parameter]) -> None:
        self.exchange = exchange
        self.parameters = parameters
        self._routes = _routes(exchange, parameters)
        self._turn = 0
        self._lagged: dict[str, float] | None = None  # what receive() was told about the gradient that waits
        self._last = False
        where = {parameter: number for number, parameter in enumerate(parameters)}
        # Collected as garbage they are not: a parameter and its hook hold each other where Python does not see it.
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(lambda ready: self._arrived(where[ready]))
            for parameter in parameters
        ]

    @property
    def _filling(self) -> Route:
        return self._routes[self._turn]

    def begin(self) -> None:
        """Forget the gradients for a new step."""
        self._turn = (self._turn + 1) % len(self._routes)
        self._last = False
        self._filling.begin()

    def last(self, last: bool) -> None:
        """Say whether the next backward pass is the step's last: only then do gradients travel."""
        self._last = last

    def send(self) -> None:
        """Send what the backward pass did not: gradients of parameters it did not reach are zero.

        A rank that failed sends what it has, so that no other rank waits for it.
        """
        self._filling.send()

    def finite(self) -> bool:
        """Whether all that this rank has sent is finite."""
        return self._filling.finite()

    def receive(self, **about: float) -> dict[str, float] | None:
        """Wait for the average, and make it ``parameter.grad``.

        Parameters
        ----------
        **about
            What to remember with the gradient of this step, such as its loss scale.

        Returns
        -------
        dict or None
            What was remembered with the gradient that is now in place; None if there is none yet (lag).
        """
        ready, known = self._filling, about
        if self.exchange.lag:
            self._filling.cross()  # It is across nodes that there is a step's time for.
            ready, known = self._routes[1 - self._turn], self._lagged
            self._lagged = about
        if known is not None:
            for parameter, gradient in zip(self.parameters, ready.complete(), strict=True):
                parameter.grad = gradient
        return known

    def state(self) -> dict:
        """Return the gradient that waits, if any, for a checkpoint: plain tensors in the order of the parameters."""
        if self._lagged is None:
            return {}
        return {"about": dict(self._lagged), "gradients": [each.clone() for each in self._filling.complete()]}

    def restore(self, state: dict) -> None:
        """Put back what :meth:`state` gave."""
        if not state or not self.exchange.lag:
            return
        self._lagged = state["about"]
        values: list[tuple[nn.Parameter, Tensor]] = list(zip(self.parameters, state["gradients"], strict=True))
        self._filling.gradients = {
            number: torch.empty_like(parameter).copy_(value) for number, (parameter, value) in enumerate(values)
        }

    def close(self) -> None:
        """Wait for what is still on its way, so that the ranks can part."""
        with contextlib.suppress(ConnectionError):
            for route in self._routes:
                route.close()
        for hook in self._hooks:
            hook.remove()
        for parameter in self.parameters:
            parameter.grad = None

    def _arrived(self, number: int) -> None:
        if self._last:
            self._filling.arrived(number)


def broadcast_model(model: nn.Module) -> None:
    """Start all ranks from the parameters and buffers of rank 0."""
    for tensor in model.state_dict().values():
        ranks.broadcast(tensor, "initial weights")


def _routes(exchange: Exchange, parameters: list[nn.Parameter]) -> list[Route]:
    """Ways for the gradients of a step, and with a lag for those of the step before."""
    count, like = 1 + exchange.lag, _COMPRESSED.get(exchange.compression)
    if ranks.size() == 1:
        return [Route(parameters) for _ in range(count)]
    nodes, group = None, None
    if exchange.route == "hierarchical":
        nodes = Nodes(exchange.ranks_per_node)
    elif not parameters[0].is_cuda and (memory := shared.allocate(shared.needed(parameters, like) * count)) is not None:
        each = len(memory) // count
        return [shared.Shared(parameters, memory[each * turn : each * (turn + 1)]) for turn in range(count)]
    elif exchange.lag:
        # In the connections of all that the ranks agree on, a lagged gradient would hold the next agreement up.
        group = ranks.group(list(range(ranks.size())))
    size = int(exchange.bucket_megabytes * 2**20)
    return [Buckets(parameters, size=size, like=like, nodes=nodes, group=group) for _ in range(count)]
