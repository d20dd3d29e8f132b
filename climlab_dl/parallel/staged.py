"""The samples that a node keeps on its own disk: one memory-mapped file, and a checksum of each."""

import json
import logging
import os
import shutil
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from climlab_dl.files import write_text

logger = logging.getLogger(__name__)


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
        there = _noted(known)
        if there == json.loads(text):
            return cls(folder)
        if there is not None:
            raise ValueError(
                f"{folder} holds staged samples of other data or settings, or of these data before they changed; "
                "delete it, or stage elsewhere"
            )
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
        write_text(known, text)
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


def _noted(plan: Path) -> Any:
    """Read which samples a folder was made for; None where that cannot be told, and they are nobody's."""
    try:
        return json.loads(plan.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as damage:
        logger.warning("%s is damaged (%s); staging its samples anew", plan, damage)
        return None


def checksum(sample: np.ndarray) -> int:
    """CRC-32 of a sample's bytes, never 0."""
    return zlib.crc32(sample.data) or 1
