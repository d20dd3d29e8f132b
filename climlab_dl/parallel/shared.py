"""Memory that all ranks of one host see, in which they average gradients instead of sending them.

Over loopback gloo copies each gradient through sockets, which takes five times as long as MPI's shared memory does.
"""

import mmap
import os

import torch
from torch import Tensor, nn

from climlab_dl.parallel import ranks
from climlab_dl.parallel.routes import Route, finite

_ALIGNED = 64  # bytes
_PIECE = 2**16  # numbers that are added up at a time, and stay in a core's cache


def allocate(like: list[Tensor]) -> list[list[Tensor]] | None:
    """Give each rank zeros like some tensors, flat, where all ranks see them; all ranks call this with the same sizes.

    Returns
    -------
    list of list of Tensor, or None
        For each tensor those of all ranks, by rank. None if the ranks are on several hosts, or cannot open each other's
        memory (containers of their own).
    """
    if ranks.size() == 1 or ranks.world().nodes > 1 or not hasattr(os, "memfd_create"):
        return None
    sizes = [-(-tensor.numel() * tensor.element_size() // _ALIGNED) * _ALIGNED for tensor in like]
    file = os.memfd_create("climlab-dl-gradients")
    os.ftruncate(file, sum(sizes))
    blocks = []
    try:
        for process, number in ranks.gather(torch.tensor([os.getpid(), file]), "shared memory").tolist():
            blocks.append(_mapped(f"/proc/{process}/fd/{number}", sum(sizes)))
        missing = ranks.sum(torch.tensor(float(None in blocks)), "opening shared memory")
    finally:
        os.close(file)  # by now each rank has it open, or has said that it cannot
    if missing:
        return None
    cut = [block.split(sizes) for block in blocks if block is not None]
    return [
        [parts[place][: tensor.numel() * tensor.element_size()].view(tensor.dtype) for parts in cut]
        for place, tensor in enumerate(like)
    ]


def needed(parameters: list[nn.Parameter], like: torch.dtype | None) -> list[Tensor]:
    """Describe the memory of :class:`Shared`: each parameter's gradient, and a mark for one that is not finite."""
    shapes = [torch.empty_like(parameter, dtype=like, device="meta") for parameter in parameters]
    return [*shapes, torch.empty(1, dtype=torch.uint8, device="meta")]


class Shared(Route):
    """Gradients of the ranks of one host.

    Each parameter has an owner. All others put its gradient, divided by the number of ranks, where the owner sees it.
    He adds up, in their order and his own last, and writes the mean in place of all of theirs and his own. So of what a
    rank owns nothing is copied, and what others own is read and written once more while it is in the owner's cache.
    Memory that is not written to takes none: together the ranks have each gradient once a rank, as without sharing.

    Parameters
    ----------
    parameters
        Whose gradients.
    memory
        From :func:`allocate`, as :func:`needed` describes it.
    """

    def __init__(self, parameters: list[nn.Parameter], memory: list[list[Tensor]]) -> None:
        super().__init__(parameters)
        *self._memory, self._faults = memory
        me, self._share = ranks.rank(), 1 / ranks.size()
        self._others = [rank for rank in range(ranks.size()) if rank != me]
        owners = _owners([parameter.numel() for parameter in parameters], ranks.size())
        self._owned = [number for number, owner in enumerate(owners) if owner == me]
        self._views = {
            number: self._memory[number][me].as_strided(parameter.shape, parameter.stride())
            for number, parameter in enumerate(parameters)
            if owners[number] != me
        }

    def begin(self) -> None:
        """Forget the step before."""
        super().begin()
        self._faults[ranks.rank()].zero_()

    def send(self) -> None:
        """Add up what this rank owns, once all have put theirs."""
        super().send()
        ranks.barrier("gradients")  # All gradients are where their owners see them.
        for number in self._owned:
            self._add_up(number)
        ranks.barrier("gradients")  # All means are in place.
        for number, view in self._views.items():
            if self.gradients[number].dtype != view.dtype:
                self.gradients[number].copy_(view)

    def finite(self) -> bool:
        """Whether all that this rank has sent is finite."""
        return not self._faults[ranks.rank()]

    def _taken(self, number: int, gradient: Tensor) -> Tensor:
        view = self._views.get(number)
        if view is None:
            return gradient
        torch.mul(gradient, self._share, out=view)
        return view if view.dtype == gradient.dtype else gradient

    def _add_up(self, number: int) -> None:
        gradient, memory = self.gradients[number], self._memory[number]
        own = gradient.as_strided((gradient.numel(),), (1,)).split(_PIECE)
        theirs = zip(*(memory[rank].split(_PIECE) for rank in self._others), strict=True)
        for mine, others in zip(own, theirs, strict=True):
            first, *rest = others
            torch.add(first, mine, alpha=self._share, out=mine)
            for other in rest:
                mine.add_(other)
            if first.dtype != mine.dtype:
                mine.copy_(first.copy_(mine))  # The others get it in that type: so does this rank.
            if not finite(mine):
                self._blame(others)
            for other in others:
                other.copy_(mine)

    def _blame(self, others: tuple[Tensor, ...]) -> None:
        """Mark the ranks whose part of a mean is not finite."""
        found = [rank for rank, other in zip(self._others, others, strict=True) if not finite(other)]
        for rank in found or [ranks.rank()]:
            self._faults[rank].fill_(1)


def _owners(sizes: list[int], count: int) -> list[int]:
    """Share numbers out among ranks, the largest first, each to the rank that has least."""
    owners, loads = [0] * len(sizes), [0] * count
    for number in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
        owners[number] = loads.index(min(loads))
        loads[owners[number]] += sizes[number]
    return owners


def _mapped(path: str, size: int) -> Tensor | None:
    try:
        with open(path, "r+b") as file:
            return torch.frombuffer(mmap.mmap(file.fileno(), size), dtype=torch.uint8)
    except OSError:
        return None
