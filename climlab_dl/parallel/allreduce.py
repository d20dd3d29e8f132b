"""Averaging gradients over ranks while the backward pass still runs: flat or hierarchical, compressed, lagged.

Gradients live in a few flat buffers (buckets) whose layout depends on the parameters alone. So the order of
additions is the same on every step of every run, and a resumed training repeats an uninterrupted one bit by bit.
"""

import contextlib
from dataclasses import dataclass
from typing import Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from climlab_dl.parallel import ranks, shared
from climlab_dl.parallel.nodes import Nodes

_COMPRESSED = {"fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """How ranks average their gradients.

    Parameters
    ----------
    route
        ``"flat"``: one all-reduce over all ranks. ``"hierarchical"``: reduce-scatter in the node, all-reduce across
        nodes, all-gather in the node (Kurth et al. 2018, sec. V-A3), so that the network between nodes carries each
        gradient once for each node.
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
        if not self.bucket_megabytes > 0:
            raise ValueError(f"bucket_megabytes={self.bucket_megabytes!r}: choose a positive size, 25 is usual")

    def start(self, parameters: list[nn.Parameter]) -> "GradientExchange":
        """Take over the gradients of these parameters; every rank calls this."""
        return GradientExchange(self, parameters)


class _Bucket:
    """A flat buffer that is the gradient of some parameters, and its way through the ranks."""

    def __init__(self, parameters: list[nn.Parameter], *, multiple: int, like: torch.dtype | None) -> None:
        self.parameters = parameters
        length = sum(parameter.numel() for parameter in parameters)
        self.flat = parameters[0].new_zeros(-(-length // multiple) * multiple)
        self.sent = self.flat if like is None else torch.zeros_like(self.flat, dtype=like)
        self.views = self._views()
        self.work: dist.Work | None = None
        self.travels = False
        self.crosses = False  # between nodes

    def _views(self) -> list[Tensor]:
        views, start = [], self.flat.storage_offset()
        for parameter in self.parameters:
            # The parameter's own strides: channels-last weights get channels-last gradients.
            views.append(self.flat.as_strided(parameter.shape, parameter.stride(), start))
            start += parameter.numel()
        return views

    def move(self, sent: Tensor) -> None:
        """Keep what is sent in other memory."""
        if self.sent is self.flat:
            self.flat = sent
            self.views = self._views()
        self.sent = sent

    def attach(self) -> None:
        """Make this buffer the parameters' gradient."""
        for parameter, view in zip(self.parameters, self.views, strict=True):
            parameter.grad = view

    def wait(self) -> None:
        if self.work is not None:
            with ranks.collective("gradients"):
                self.work.wait()
            self.work = None


class GradientExchange:
    """The gradients of a network, averaged over ranks.

    A step is ``begin()``, one or more ``backward`` passes with ``last(True)`` before the last of them, ``send()``,
    an agreement among ranks whether all is well, and ``receive()``, after which ``parameter.grad`` holds the average.
    """

    def __init__(self, exchange: Exchange, parameters: list[nn.Parameter]) -> None:
        self.exchange = exchange
        self.parameters = parameters
        hierarchical = exchange.route == "hierarchical" and ranks.size() > 1
        self.nodes = Nodes(exchange.ranks_per_node) if hierarchical else None
        # In the connections of all that the ranks agree on, a lagged gradient would hold the next agreement up.
        apart = exchange.lag and not hierarchical and ranks.size() > 1
        self._everyone = ranks.group(list(range(ranks.size()))) if apart else None
        like = _COMPRESSED.get(exchange.compression)
        groups = _grouped(parameters, int(exchange.bucket_megabytes * 2**20))
        multiple = 1 if self.nodes is None else self.nodes.here
        self._sets = [
            [_Bucket(group, multiple=multiple, like=like) for group in groups] for _ in range(1 + exchange.lag)
        ]
        self._shared = [self._share(buckets) for buckets in self._sets]
        self._turn = 0
        self._lagged: dict[str, float] | None = None  # what receive() was told about the gradient that waits
        self._last, self._launched = False, 0
        self._missing: list[int] = []
        self._finite = torch.ones((), dtype=torch.bool)
        where = {parameter: number for number, group in enumerate(groups) for parameter in group}
        # Collected as garbage they are not: a parameter and its hook hold each other where Python does not see it.
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(lambda ready: self._arrived(where[ready]))
            for parameter in parameters
        ]

    def _share(self, buckets: list[_Bucket]) -> list[list[Tensor]] | None:
        """Move buckets into memory that the ranks share, where there is such."""
        everyones = None if self.nodes is not None else shared.allocate([bucket.sent for bucket in buckets])
        for bucket, everyone in zip(buckets, everyones or (), strict=False):
            bucket.move(everyone[ranks.rank()])
        return everyones

    @property
    def _filling(self) -> list[_Bucket]:
        return self._sets[self._turn]

    def begin(self) -> None:
        """Zero the gradients for a new step."""
        self._turn = (self._turn + 1) % len(self._sets)
        self._last, self._launched = False, 0
        self._missing = [len(bucket.parameters) for bucket in self._filling]
        self._finite = torch.ones((), dtype=torch.bool, device=self._filling[0].flat.device)
        for bucket in self._filling:
            bucket.flat.zero_()
            bucket.attach()

    def last(self, last: bool) -> None:
        """Say whether the next backward pass is the step's last: only then do gradients travel."""
        self._last = last

    def send(self, *, failed: bool = False) -> None:
        """Send what the backward pass did not: gradients of parameters it did not reach are zero.

        A rank that failed sends zeros in place of what is missing, so that no other rank waits for it.
        """
        for bucket in self._filling[self._launched :]:
            if failed:
                bucket.flat.zero_()
            self._launch(bucket)

    def finite(self) -> bool:
        """Whether all that this rank has sent is finite."""
        return bool(self._finite)

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
        if not self.exchange.lag:
            self._complete(self._filling)
            return about
        self._cross(self._filling, wait=True)  # It is across nodes that there is a step's time for.
        ready = self._sets[1 - self._turn]
        self._complete(ready)
        for bucket in ready:
            bucket.attach()
        waiting, self._lagged = self._lagged, about
        return waiting

    def state(self) -> dict:
        """Return the gradient that waits, if any, for a checkpoint: plain tensors in the order of the parameters."""
        if self._lagged is None:
            return {}
        self._complete(self._filling)
        views = {p: view for bucket in self._filling for p, view in zip(bucket.parameters, bucket.views, strict=True)}
        return {"about": dict(self._lagged), "gradients": [views[parameter].clone() for parameter in self.parameters]}

    def restore(self, state: dict) -> None:
        """Put back what :meth:`state` gave."""
        if not state or not self.exchange.lag:
            return
        self._lagged = state["about"]
        values = dict(zip(self.parameters, state["gradients"], strict=True))
        for bucket in self._filling:
            for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
                view.copy_(values[parameter])

    def close(self) -> None:
        """Wait for what is still on its way, so that the ranks can part."""
        with contextlib.suppress(ConnectionError):
            for bucket in (bucket for buckets in self._sets for bucket in buckets):
                bucket.wait()
        for hook in self._hooks:
            hook.remove()
        for parameter in self.parameters:
            parameter.grad = None

    def _arrived(self, number: int) -> None:
        if not self._last:
            return
        self._missing[number] -= 1
        # In the order of the buckets, which is the same on all ranks, whatever the order of arrival.
        while self._launched < len(self._filling) and self._missing[self._launched] == 0:
            self._launch(self._filling[self._launched])

    def _launch(self, bucket: _Bucket) -> None:
        self._launched += 1
        bucket.travels = True
        bucket.flat.div_(ranks.size())
        if bucket.sent is not bucket.flat:
            bucket.sent.copy_(bucket.flat)
        low, high = torch.aminmax(bucket.sent)  # NaN propagates
        self._finite &= torch.isfinite(low) & torch.isfinite(high)
        if ranks.size() == 1 or self._shared[self._turn] is not None:
            return
        with ranks.collective("gradients"):
            if self.nodes is None:
                bucket.work = dist.all_reduce(bucket.sent, group=self._everyone, async_op=True)
            else:
                shard = self.nodes.shard(bucket.sent)
                bucket.work = dist.reduce_scatter_single(shard, bucket.sent, group=self.nodes.within, async_op=True)
        self._cross(self._filling[: self._launched], wait=False)

    def _cross(self, buckets: list[_Bucket], *, wait: bool) -> None:
        """Send across nodes what has been added up within them, in the order of the buckets.

        Without waiting, those that are ready by now: when that is differs between ranks, but not the order. The last
        leg has to wait for all, because the ranks of a node would begin it at different buckets.
        """
        if self.nodes is None:
            return
        for bucket in buckets:
            if bucket.crosses:
                continue
            if bucket.work is None or not (wait or bucket.work.is_completed()):
                return
            bucket.wait()
            with ranks.collective("gradients across nodes"):
                shard = self.nodes.shard(bucket.sent)
                bucket.work = dist.all_reduce(shard, group=self.nodes.across, async_op=True)
            bucket.crosses = True

    def _complete(self, buckets: list[_Bucket]) -> None:
        if self.nodes is not None and buckets[0].work is not None:
            self._cross(buckets, wait=True)
            for bucket in buckets:
                bucket.wait()
                bucket.crosses = False
                with ranks.collective("gradients within the node"):
                    shard = self.nodes.shard(bucket.sent).clone()
                    bucket.work = dist.all_gather_single(bucket.sent, shard, group=self.nodes.within, async_op=True)
        buffers = self._shared[self._sets.index(buckets)]
        if buffers is not None and buckets[0].travels:
            shared.add_up(buffers, "gradients")
        for bucket in buckets:
            bucket.wait()
            if bucket.travels and bucket.sent is not bucket.flat:
                bucket.flat.copy_(bucket.sent)
            bucket.travels = False


def broadcast_model(model: nn.Module) -> None:
    """Start all ranks from the parameters and buffers of rank 0."""
    for tensor in model.state_dict().values():
        ranks.broadcast(tensor, "initial weights")


def _grouped(parameters: list[nn.Parameter], size: int) -> list[list[nn.Parameter]]:
    """Group parameters from the last to the first, which is about the order in which the backward pass reaches them."""
    groups: list[list[nn.Parameter]] = []
    filled = size
    for parameter in reversed(parameters):
        if filled >= size or parameter.dtype != groups[-1][0].dtype:
            groups.append([])
            filled = 0
        groups[-1].append(parameter)
        filled += parameter.numel() * parameter.element_size()
    return groups
