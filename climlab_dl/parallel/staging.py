"""Staging: each sample is read once from the shared file system, and each node keeps its part on its own disk.

Every rank reads and converts a disjoint share and sends each sample to the nodes that are to hold it (Kurth et al.
2018, sec. V-A1), where it lands in one memory-mapped file. Each sample's checksum is kept, so that a staging that was
killed goes on where it was, and a damaged sample is fetched again.
"""

import json
import logging
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist

from climlab_dl.files import beside
from climlab_dl.parallel import ranks

logger = logging.getLogger(__name__)
Read = Callable[[int], tuple[np.ndarray, np.ndarray]]
_ATTEMPTS, _PAUSE = 3, 0.5


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which samples go where; the same on every rank.

    Parameters
    ----------
    source
        What identifies the data, so that one staging is not taken for another.
    count
        Samples in all.
    shape
        Of one sample as read, channels first.
    target_shape, target_dtype
        Of its target.
    dtype
        What values are kept as.
    share
        Of the samples that each node holds, drawn at random.
    nodes
        How many nodes there are.
    seed
        Of the draw.
    """

    source: str
    count: int
    shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    target_dtype: str
    dtype: Literal["float32", "float16"] = "float32"
    share: float = 1.0
    nodes: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share={self.share!r}: choose the share of the samples that a node holds, above 0 to 1")
        if self.dtype not in ("float32", "float16"):
            raise ValueError(f"dtype={self.dtype!r}: choose 'float32' or 'float16'")

    def held_by(self, node: int) -> np.ndarray:
        """Numbers of the samples that a node holds, rising."""
        size = int(np.ceil(self.count * self.share))
        return np.sort(np.random.default_rng([self.seed, node]).permutation(self.count)[:size])

    @property
    def value_bytes(self) -> int:
        """Size of the values of one sample."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize

    @property
    def sample_bytes(self) -> int:
        """Size of one sample with its target."""
        return self.value_bytes + int(np.prod(self.target_shape, dtype=int)) * np.dtype(self.target_dtype).itemsize


class Staged:
    """The samples on a node's disk.

    Parameters
    ----------
    folder
        That of :func:`stage`, which already has ``plan.json``.
    """

    def __init__(self, folder: Path) -> None:
        facts = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
        self.node = facts.pop("node")
        facts |= {name: tuple(facts[name]) for name in ("shape", "target_shape")}
        self.folder, self.plan = folder, Plan(**facts)
        self.held = self.plan.held_by(self.node)
        self._slots = {int(number): slot for slot, number in enumerate(self.held)}
        self._samples = np.memmap(folder / "samples", np.uint8, "r+", shape=(len(self.held), self.plan.sample_bytes))
        # The checksum of what is there, 0 where nothing is yet.
        self._checksums = np.memmap(folder / "checksums", np.uint32, "r+", shape=(len(self.held),))

    @classmethod
    def create(cls, folder: Path, plan: Plan, node: int) -> "Staged":
        """Reserve the space for a node's samples, or open what an earlier staging of the same plan has left.

        Raises
        ------
        OSError
            If the disk has not the space, before anything is written.
        ValueError
            If the folder holds samples of another plan.
        """
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**asdict(plan), "node": node})
        known = folder / "plan.json"
        if known.exists():
            if json.loads(known.read_text(encoding="utf-8")) != json.loads(text):
                raise ValueError(
                    f"{folder} holds staged samples of other data or settings; delete it, or stage elsewhere"
                )
            return cls(folder)
        need, free = len(plan.held_by(node)) * plan.sample_bytes, shutil.disk_usage(folder).free
        if need > free:
            raise OSError(
                f"staging to {folder} needs {need / 2**30:.2f} GiB, but {free / 2**30:.2f} GiB are free there: "
                "lower the share of samples per node, keep them as float16, or make room"
            )
        for name, size in (("samples", need), ("checksums", 4 * len(plan.held_by(node)))):
            with (folder / name).open("wb") as file:
                # Blocks now: a memory map of a disk that fills up later kills the process without a word.
                os.posix_fallocate(file.fileno(), 0, size)
        with beside(known) as new:
            new.write_text(text, encoding="utf-8")
        return cls(folder)

    def __contains__(self, number: int) -> bool:
        return number in self._slots and self._checksums[self._slots[number]] != 0

    def put(self, number: int, sample: np.ndarray) -> None:
        """Keep a sample, as bytes, and then its checksum."""
        slot = self._slots[number]
        self._samples[slot] = sample
        self._checksums[slot] = checksum(sample)

    def read(self, number: int, out: np.ndarray) -> np.ndarray:
        """Write a sample's values to a float32 array, channels first, and return its target."""
        sample = self._samples[self._slots[number]]
        values = sample[: self.plan.value_bytes].view(self.plan.dtype).reshape(self.plan.shape)
        # torch widens half precision seven times as fast as numpy.
        torch.from_numpy(out).copy_(torch.from_numpy(values))
        return np.array(sample[self.plan.value_bytes :].view(self.plan.target_dtype).reshape(self.plan.target_shape))

    def forget_damaged(self) -> int:
        """Verify every sample against its checksum; forget, and count, those that do not match."""
        damaged = 0
        for slot in np.flatnonzero(self._checksums):
            if checksum(self._samples[slot]) != self._checksums[slot]:
                self._checksums[slot] = 0
                damaged += 1
        return damaged


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


def checksum(sample: np.ndarray) -> int:
    """CRC-32 of a sample's bytes, never 0."""
    return zlib.crc32(sample.data) or 1


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
