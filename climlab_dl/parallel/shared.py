"""Memory that all ranks of one host see, in which they add up buffers instead of sending them.

Over loopback gloo copies each gradient through sockets, which takes five times as long as MPI's shared memory does.
"""

import mmap
import os

import torch
from torch import Tensor

from climlab_dl.parallel import ranks

_ALIGNED = 64  # bytes
_PIECE = 2**18  # numbers that are added up at a time, and stay in a core's cache


def allocate(like: list[Tensor]) -> list[list[Tensor]] | None:
    """Give each rank zeros like some flat tensors, where all ranks see them; all ranks call this with the same sizes.

    Returns
    -------
    list of list of Tensor, or None
        For each tensor those of all ranks, by rank. None if the ranks are on several hosts, or cannot open each other's
        memory (containers of their own).
    """
    if ranks.size() == 1 or ranks.world().nodes > 1 or not hasattr(os, "memfd_create"):
        return None
    if any(tensor.device.type != "cpu" for tensor in like):
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


def add_up(buffers: list[list[Tensor]], name: str) -> None:
    """Leave in each rank's buffer the sum over ranks, added in their order; every rank calls this.

    Parameters
    ----------
    buffers
        Of all ranks, by rank, as :func:`allocate` gave them.
    name
        Of the collective, should a rank not come.
    """
    me, size = ranks.rank(), ranks.size()
    shares = [[buffer.tensor_split(size) for buffer in everyone] for everyone in buffers]
    ranks.barrier(name)  # All buffers are filled.
    for everyone in shares:
        pieces_of = [of[me].split(_PIECE) for of in everyone]
        for mine, pieces in zip(pieces_of[me], zip(*pieces_of, strict=True), strict=True):
            total = pieces[0] + pieces[1]
            for piece in pieces[2:]:
                total += piece
            mine.copy_(total)
    ranks.barrier(name)  # All shares are added up.
    for everyone in shares:
        for other in set(range(size)) - {me}:
            everyone[me][other].copy_(everyone[other][other])
    ranks.barrier(name)  # Nobody reads this rank's buffers any more.


def _mapped(path: str, size: int) -> Tensor | None:
    try:
        with open(path, "r+b") as file:
            return torch.frombuffer(mmap.mmap(file.fileno(), size), dtype=torch.uint8)
    except OSError:
        return None
