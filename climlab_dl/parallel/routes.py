"""How a step's gradients get from rank to rank: not at all, or through the network in buckets.

Ranks of one host have a shorter way, :mod:`climlab_dl.parallel.shared`.
"""

import torch
import torch.distributed as dist
from torch import Tensor, nn

from climlab_dl.parallel import ranks
from climlab_dl.parallel.nodes import Nodes


class Route:
    """The gradients of one step on their way; those of a rank that is alone stay where the backward pass has left them.

    Parameters
    ----------
    parameters
        Whose gradients; numbers below are places in this list.
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self.gradients: dict[int, Tensor] = {}
        self._sums: list[Tensor] = []

    def begin(self) -> None:
        """Forget the step before. Where there is no gradient, the backward pass adds to none and zeroes none."""
        self.gradients, self._sums = {}, []
        for parameter in self.parameters:
            parameter.grad = None

    def arrived(self, number: int) -> None:
        """Take over a gradient that is complete on this rank; zeros, if no backward pass has reached its parameter."""
        parameter = self.parameters[number]
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        if not _alike(gradient, parameter):
            # As autograd leaves it; optimisers of one pass go through both as they lie.
            gradient = torch.empty_like(parameter).copy_(gradient)
        parameter.grad = self.gradients[number] = self._taken(number, gradient)

    def send(self) -> None:
        """Take over the gradients that have not arrived, the last first as backward passes do: then all is sent."""
        for number in reversed(range(len(self.parameters))):
            if number not in self.gradients:
                self.arrived(number)

    def finite(self) -> bool:
        """Whether all that this rank has sent is finite."""
        return bool(torch.stack(self._sums).isfinite().all()) or all(map(finite, self.gradients.values()))

    def cross(self) -> None:
        """Get gradients on their way across nodes, if need be by waiting for those within them."""

    def complete(self) -> list[Tensor]:
        """Wait for the means over ranks, in the order of the parameters."""
        return [self.gradients[number] for number in range(len(self.parameters))]

    def close(self) -> None:
        """Wait for what is still on its way."""

    def _taken(self, number: int, gradient: Tensor) -> Tensor:
        """Send a gradient; returns where its mean is going to be."""
        self._sums.append(gradient.sum())  # while it is in the cache
        return gradient


def finite(values: Tensor) -> bool:
    """Whether all numbers are finite: their sum tells in a quarter of the time, unless it overflows."""
    return bool(values.sum().isfinite()) or bool(values.isfinite().all())


def _alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one shape lie in memory alike."""
    strides = zip(one.shape, one.stride(), other.stride(), strict=True)
    return all(mine == theirs for length, mine, theirs in strides if length > 1)


class _Bucket:
    """A flat buffer for the gradients of some parameters, and its way through the ranks."""

    def __init__(self, parameters: list[nn.Parameter], *, multiple: int, like: torch.dtype | None) -> None:
        self.parameters = parameters
        length = sum(parameter.numel() for parameter in parameters)
        self.flat = parameters[0].new_zeros(-(-length // multiple) * multiple)
        self.sent = self.flat if like is None else torch.zeros_like(self.flat, dtype=like)
        self.views, start = list[Tensor](), 0
        for parameter in parameters:
            # The parameter's own strides: channels-last weights get channels-last gradients.
            self.views.append(self.flat.as_strided(parameter.shape, parameter.stride(), start))
            start += parameter.numel()
        self.missing = 0
        self.work: dist.Work | None = None
        self.travels = False
        self.crosses = False  # between nodes

    def wait(self) -> None:
        if self.work is not None:
            with ranks.collective("gradients"):
                self.work.wait()
            self.work = None


class Buckets(Route):
    """Gradients that travel in a few flat buffers, each as soon as it is full, while the backward pass still runs.

    The layout of buckets depends on the parameters alone. So the order of additions is the same on every step of every
    run, and a resumed training repeats an uninterrupted one bit by bit.

    Parameters
    ----------
    parameters
        Whose gradients.
    size
        Bytes from which a bucket is sent.
    like
        Type to travel in; None for their own.
    nodes
        To go by way of; None for one sum over all.
    group
        Of all ranks, if there is one of its own for gradients.
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        *,
        size: int,
        like: torch.dtype | None,
        nodes: Nodes | None,
        group: dist.ProcessGroup | None,
    ) -> None:
        super().__init__(parameters)
        self._nodes, self._group = nodes, group
        multiple = 1 if nodes is None else nodes.here
        self._buckets = [_Bucket(each, multiple=multiple, like=like) for each in _grouped(parameters, size)]
        places = {
            parameter: (bucket, view)
            for bucket in self._buckets
            for parameter, view in zip(bucket.parameters, bucket.views, strict=True)
        }
        self._places = [places[parameter] for parameter in parameters]
        self._launched = 0
        self._finite = torch.ones((), dtype=torch.bool, device=parameters[0].device)

    def begin(self) -> None:
        """Forget the step before."""
        super().begin()
        self._launched = 0
        self._finite.fill_(True)
        for bucket in self._buckets:
            bucket.missing = len(bucket.parameters)

    def finite(self) -> bool:
        """Whether all that this rank has sent is finite."""
        return bool(self._finite)

    def cross(self) -> None:
        """Get gradients on their way across nodes."""
        self._cross(self._buckets, wait=True)

    def complete(self) -> list[Tensor]:
        """Wait for the means over ranks."""
        nodes, buckets = self._nodes, [bucket for bucket in self._buckets if bucket.travels]
        self._cross(buckets, wait=True)
        for bucket in buckets:
            bucket.wait()
            if nodes is not None:
                bucket.crosses = False
                with ranks.collective("gradients within the node"):
                    shard = nodes.shard(bucket.sent).clone()
                    bucket.work = dist.all_gather_single(bucket.sent, shard, group=nodes.within, async_op=True)
        for bucket in buckets:
            bucket.wait()
            if bucket.sent is not bucket.flat:
                bucket.flat.copy_(bucket.sent)
            bucket.travels = False
        return super().complete()

    def close(self) -> None:
        """Wait for what is still on its way."""
        for bucket in self._buckets:
            bucket.wait()

    def _taken(self, number: int, gradient: Tensor) -> Tensor:
        bucket, view = self._places[number]
        torch.mul(gradient, 1 / ranks.size(), out=view)
        bucket.missing -= 1
        # In the order of the buckets, which is the same on all ranks, whatever the order of arrival.
        while self._launched < len(self._buckets) and not self._buckets[self._launched].missing:
            self._launch(self._buckets[self._launched])
        return view

    def _launch(self, bucket: _Bucket) -> None:
        self._launched += 1
        bucket.travels = True
        if bucket.sent is not bucket.flat:
            bucket.sent.copy_(bucket.flat)
        low, high = torch.aminmax(bucket.sent)  # NaN propagates
        self._finite &= torch.isfinite(low) & torch.isfinite(high)
        with ranks.collective("gradients"):
            if self._nodes is None:
                bucket.work = dist.all_reduce(bucket.sent, group=self._group, async_op=True)
            else:
                shard = self._nodes.shard(bucket.sent)
                bucket.work = dist.reduce_scatter_single(shard, bucket.sent, group=self._nodes.within, async_op=True)
        self._cross(self._buckets[: self._launched], wait=False)

    def _cross(self, buckets: list[_Bucket], *, wait: bool) -> None:
        """Send across nodes what has been added up within them, in the order of the buckets.

        Without waiting, those that are ready by now: when that is differs between ranks, but not the order. The last
        leg has to wait for all, because the ranks of a node would begin it at different buckets.
        """
        if self._nodes is None:
            return
        for bucket in buckets:
            if bucket.crosses:
                continue
            if bucket.work is None or not (wait or bucket.work.is_completed()):
                return
            bucket.wait()
            with ranks.collective("gradients across nodes"):
                shard = self._nodes.shard(bucket.sent)
                bucket.work = dist.all_reduce(shard, group=self._nodes.across, async_op=True)
            bucket.crosses = True


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
