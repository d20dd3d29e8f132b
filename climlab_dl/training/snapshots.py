"""Snapshots of an archive with their masks, normalised, as a training reads them.

Where a field has a gap the network sees the field's mean, and the pixel counts neither for statistics nor loss.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
import xarray as xr
from dask.local import get_sync

from climlab_dl.climate import archive, derived
from climlab_dl.climate.fields import CLASSES, UNLABELLED
from climlab_dl.climate.labels import MASK
from climlab_dl.climate.straight import Straight
from climlab_dl.parallel.staged import Staged
from climlab_dl.training.statistics import Statistics, merged


class Snapshots:
    """Reads snapshots, from memory or from the archive.

    Parameters
    ----------
    source
        What :func:`climlab_dl.climate.archive.open` takes.
    channels
        Names of the fields, in order.
    memory_gigabytes
        Archives up to this size are read at once and kept in memory.
    names
        What variables are called here, as for :func:`climlab_dl.climate.archive.open`.

    Raises
    ------
    ValueError
        If the archive has no masks, lacks a channel, or a kept snapshot holds what cannot be.
    OSError
        If a file cannot be read.
    """

    def __init__(
        self,
        source: str | Path | Sequence[str | Path],
        channels: Sequence[str],
        memory_gigabytes: float,
        names: Mapping[str, str | None] | None = None,
    ):
        self.source, self.channels = source, tuple(channels)
        self.snapshots = _opened(source, self.channels, names)
        self.shape = (len(self.channels), *self.snapshots[self.channels[0]].shape[1:])
        self.mean, self.std = Statistics.empty(self.channels).scale(2)
        self._fields = Straight.of(self.snapshots, self.channels)
        self._masks = Straight.of(self.snapshots, (MASK,))
        count = self.snapshots.sizes["time"]
        self._kept: tuple[np.ndarray, np.ndarray] | None = None
        if 4.0 * count * np.prod(self.shape, dtype=float) <= memory_gigabytes * 2**30:
            fields = np.empty((count, *self.shape), np.float32)
            self._kept = fields, np.stack([self._raw(number, one) for number, one in enumerate(fields)])

    @property
    def in_memory(self) -> bool:
        """Whether all snapshots are kept in memory."""
        return self._kept is not None

    @property
    def grid(self) -> dict[str, torch.Tensor]:
        """Latitudes and longitudes of the snapshots."""
        return {name: torch.from_numpy(self.snapshots[name].values.astype(np.float64)) for name in ("lat", "lon")}

    def statistics(self, indices: range) -> Statistics:
        """Merge the statistics of some snapshots, one after the other, before they are normalised."""
        parts, fields = [Statistics.empty(self.channels, len(CLASSES))], np.empty(self.shape, np.float32)
        for index in indices:
            if self._kept is not None:
                fields, mask = self._kept[0][index], self._kept[1][index]
            else:
                mask = self._raw(index, fields)
            parts.append(Statistics.of(fields, self.channels, mask, len(CLASSES)))
        return merged(parts)

    def normalise(self, statistics: Statistics) -> None:
        """From now on give (field - mean) / std."""
        self.mean, self.std = statistics.scale(2)
        for fields, mask in () if self._kept is None else zip(*self._kept, strict=True):
            self._normalise(fields, mask)

    def read(self, index: int, out: np.ndarray) -> np.ndarray:
        """Write one snapshot to an array (channel, lat, lon), and return its mask."""
        if self._kept is not None:
            out[...] = self._kept[0][index]
            return self._kept[1][index]
        mask = self._raw(index, out)
        self._normalise(out, mask)
        return mask

    def labelled(self, indices: range) -> bool:
        """Whether any pixel of some snapshots counts; of most archives the first of them tells."""
        fields = np.empty(self.shape, np.float32)
        return any((self.read(index, fields) != UNLABELLED).any() for index in indices)

    def describe(self, index: int) -> str:
        """Say the time and the archive."""
        return f"{time_of(self.snapshots, index)} of {self.source}"

    def _normalise(self, fields: np.ndarray, mask: np.ndarray) -> None:
        for field, mean, std in zip(fields, self.mean[:, 0, 0], self.std[:, 0, 0], strict=True):
            np.subtract(field, mean, out=field)
            np.divide(field, std, out=field)
        if (mask == UNLABELLED).any():  # gaps are among these
            fields[np.isnan(fields)] = 0

    def _raw(self, index: int, out: np.ndarray) -> np.ndarray:
        """Write the fields to an array, in SI units and NaN where they have gaps, and return the mask."""
        if self._fields is not None and self._masks is not None:
            mask = np.empty((1, *self.shape[1:]), np.int8)
            gaps, _ = self._fields.read(index, out), self._masks.read(index, mask)
            mask = mask[0]
        else:
            # In this thread: a Dask cluster that the process may belong to would only copy the arrays around.
            snapshot = self.snapshots[[*self.channels, MASK]].isel(time=index).load(scheduler=get_sync)
            for field, name in zip(out, self.channels, strict=True):
                field[...] = snapshot[name].values
            out[np.isinf(out)] = np.nan
            gaps, mask = bool(np.isnan(out.min())), snapshot[MASK].values
        if gaps:
            missing = np.isnan(out)
            for number in np.flatnonzero(missing.all(axis=(1, 2))):
                raise ValueError(
                    f"{self.channels[number]} at {time_of(self.snapshots, index)} in {self.source} has no value at "
                    "all; leave the snapshot or the field out"
                )
            mask = np.where(missing.any(axis=0), UNLABELLED, mask).astype(np.int8)
        return mask


class StagedSnapshots:
    """Reads snapshots from this node's disk.

    Parameters
    ----------
    staged
        What is there.
    snapshots
        What it was staged from.
    training
        Which of them, by number of the staged sample.
    """

    def __init__(self, staged: Staged, snapshots: Snapshots, training: range) -> None:
        self.staged, self.snapshots, self.training = staged, snapshots, training
        self.shape = snapshots.shape

    @property
    def numbers(self) -> list[int]:
        """Numbers of the samples that this node holds."""
        return self.staged.held.tolist()

    def read(self, index: int, out: np.ndarray) -> np.ndarray:
        """Write one snapshot to an array (channel, lat, lon), and return its mask."""
        return self.staged.read(index, out)

    def describe(self, index: int) -> str:
        """Say the time and the archive."""
        return self.snapshots.describe(self.training[index])


def time_of(snapshots: xr.Dataset, index: int) -> str:
    """Say the time of a snapshot, to the minute, alike in all calendars."""
    return str(snapshots["time"].values[index])[:16].replace(" ", "T")


def _opened(
    source: str | Path | Sequence[str | Path], channels: Sequence[str], names: Mapping[str, str | None] | None
) -> xr.Dataset:
    opened = archive.open(source, names=names)
    if MASK not in opened:
        raise ValueError(
            f"the archive {source} has no masks to learn from; label it and save it with them: "
            "archive.save(fields.assign(mask=heuristics.label(fields)), folder)"
        )
    try:
        return archive.require(opened, channels)
    except ValueError as lacks:
        there = tuple(name for name in channels if derived.follows(name, set(map(str, opened))))
        if not there:
            raise
        raise ValueError(f"{lacks} Or train without it: ClimateArchive(channels={there}).") from lacks
