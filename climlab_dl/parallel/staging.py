"""Staging: each sample is read once from the shared file system, and each node keeps its part on its own disk.

Every rank reads and converts a disjoint share and sends each sample to the nodes that are to hold it (Kurth et al.
2018, sec. V-A1), where it lands in one memory-mapped file. Each sample's checksum is kept, so that a staging that was
killed goes on where it was, and a damaged sample is fetched again.
"""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from climlab_dl.parallel import ranks
from climlab_dl.parallel.staged import Plan, Staged

logger = logging.getLogger(__name__)
Read = Callable[[int], tuple[np.ndarray, np.ndarray]]
_ATTEMPTS, _PAUSE = 3, 0.5


def stage(
    read: Read, plan: Plan, folder: Path | str, *, ranks_per_node: int | None = None
) -> tuple[Staged, dict[str, float]]:
    """Bring each node its samples; every rank calls this.

    Parameters
    ----------
    read
        Gives a sample's normalised values, channels first, and its target; called once for each sample, by one rank.
    plan
        Which samples, how, and where.
    folder
        On the node's own disk; each node uses its own folder within.
    ranks_per_node
        Layout of the nodes; by default the hosts that the ranks run on.

    Returns
    -------
    Staged
        This node's samples.
    dict
        ``read`` and ``received``: what this rank has read and received, in samples; ``seconds``.

    Raises
    ------
    OSError
        If a node's disk is too small, or a sample cannot be read in three attempts; on all ranks.
    """
    here, began = ranks.world(), time.monotonic()
    node = here.node if ranks_per_node is None else here.rank // ranks_per_node
    leads = here.local_rank == 0 if ranks_per_node is None else here.rank % ranks_per_node == 0
    own = Path(folder) / f"node-{node:04d}"
    with ranks.together("reserving space on the nodes"):
        if leads:
            damaged = Staged.create(own, plan, node).forget_damaged()
            if damaged:
                logger.warning(
                    "%d staged samples in %s do not match their checksums; fetching them again", damaged, own
                )
    with ranks.together("opening the staged samples"):
        staged = Staged(own)
    lacking = _Lacking(plan, node, staged if leads else None)
    read_count = received = 0
    for share in _rounds(lacking.numbers(), here.size):
        mine, sample = share[here.rank], np.zeros(0, dtype=np.uint8)
        with ranks.together("reading samples to stage"):
            if mine is not None:
                sample, read_count = _packed(_persistent(read, mine), plan), read_count + 1
        received += _deliver(share, sample, lacking, staged, plan)
    ranks.barrier("staging")
    return staged, {"read": read_count, "received": received, "seconds": time.monotonic() - began}


class _Lacking:
    """Which node lacks which sample, a bit for each; the same on all ranks.

    Parameters
    ----------
    plan
        What each node is to hold.
    node
        This rank's.
    staged
        What is there already, on the rank that leads the node; None on the others.
    """

    def __init__(self, plan: Plan, node: int, staged: Staged | None) -> None:
        here = np.zeros(plan.count, dtype=np.uint8)
        if staged is not None:
            here[[number for number in staged.held if int(number) not in staged]] = 1
        bits, leaders = np.packbits(here), torch.zeros(plan.nodes, dtype=torch.int64)
        table = torch.zeros((plan.nodes, len(bits)), dtype=torch.uint8)
        if staged is not None:
            table[node], leaders[node] = torch.from_numpy(bits), ranks.rank()
        self._table = ranks.largest(table, "what is staged already").numpy()
        self._leaders = ranks.largest(leaders, "who leads the nodes").numpy()
        self._here, self._count = here, plan.count

    def numbers(self) -> list[int]:
        """List the samples that some node lacks, rising."""
        anywhere = np.unpackbits(np.bitwise_or.reduce(self._table, axis=0), count=self._count)
        return np.flatnonzero(anywhere).tolist()

    def leaders(self, number: int) -> list[int]:
        """List the ranks that lead the nodes which lack a sample."""
        bit = 0x80 >> number % 8
        return self._leaders[self._table[:, number // 8] & bit > 0].tolist()

    def here(self, number: int) -> bool:
        """Whether it is this rank that a sample has to be sent to."""
        return bool(self._here[number])


def _rounds(numbers: list[int], size: int) -> Iterator[list[int | None]]:
    """Deal samples out: one each to every rank, round by round."""
    for start in range(0, len(numbers), size):
        share: list[int | None] = [*numbers[start : start + size]]
        yield share + [None] * (size - len(share))


def _persistent(read: Read, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Read a sample, again if a busy file system fails at first."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return read(number)
        except OSError as error:
            logger.warning(
                "reading sample %d failed (%s); attempt %d of %d follows", number, error, attempt + 1, _ATTEMPTS
            )
            time.sleep(_PAUSE * attempt)
    return read(number)


def _packed(sample: tuple[np.ndarray, np.ndarray], plan: Plan) -> np.ndarray:
    values, target = sample
    as_bytes = [np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in (values.astype(plan.dtype), target)]
    return np.concatenate(as_bytes)


def _deliver(share: list[int | None], sample: np.ndarray, lacking: _Lacking, staged: Staged, plan: Plan) -> int:
    """Send this rank's sample to the nodes that lack it, and keep what comes for this node."""
    me, outgoing, incoming = ranks.rank(), [], []
    with ranks.collective("exchange of samples"):
        mine = share[me]
        if mine is not None:
            for destination in lacking.leaders(mine):
                if destination == me:
                    staged.put(mine, sample)
                else:
                    outgoing.append(dist.isend(torch.from_numpy(sample), destination))
        for source, number in enumerate(share):
            if number is not None and source != me and lacking.here(number):
                buffer = torch.empty(plan.sample_bytes, dtype=torch.uint8)
                incoming.append((number, buffer, dist.irecv(buffer, source)))
        for number, buffer, work in incoming:
            work.wait()
            staged.put(number, buffer.numpy())
        for work in outgoing:
            work.wait()
    return len(incoming)
