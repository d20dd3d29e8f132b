"""An archive of snapshots with masks as training data.

Where a field has a gap the network sees the field's mean, and the pixel counts neither for statistics nor loss.
"""

import logging
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import xarray as xr
from dask import config  # pyright: ignore[reportPrivateImportUsage]

from climlab_dl.climate import archive, heuristics
from climlab_dl.climate.fields import CAM5, CLASSES, UNLABELLED
from climlab_dl.parallel import ranks
from climlab_dl.parallel.staging import Plan, Staged, stage
from climlab_dl.training.batches import Prepared, Samples, check_shares, split
from climlab_dl.training.metrics import Segmentation
from climlab_dl.training.statistics import Statistics, merged
from climlab_dl.training.variation import Variation

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ClimateArchive:
    """Snapshots with masks, split in time: the last share is held out.

    Neighbouring snapshots look alike, so a shuffled split would let the network remember instead of recognise.

    Parameters
    ----------
    source
        What :func:`climlab_dl.climate.archive.open` takes, with a variable ``mask``.
    channels
        Names of the fields that the network sees, in order.
    held_out
        Share of the times that is held out.
    roll
        Roll each snapshot by a random longitude at each epoch: the sphere has no first meridian.
    mirror
        Swap the hemispheres of every other snapshot at random, with the sign of northward winds: what is alike on both
        is learnt from both. A rule that looks at the sign of winds marks other cells of a mirrored storm: let
        ``moisture`` mark them anew.
    moisture
        At each epoch, turn water vapour (TMQ) round the globe by itself and multiply it by other smooth random
        factors, the logarithm of which spreads by this; then label the snapshot anew by rule. Regions join, part, grow
        and shrink, and no other field tells where they were, so that the rule is learnt instead of the regions. For
        archives that `heuristics.label` has labelled by its default rules; 0 is off.
    memory_gigabytes
        Archives up to this size are read once and kept, normalised, in each rank's memory; larger ones are read
        snapshot by snapshot.
    workers
        Processes per rank that read ahead, for archives that are not kept in memory.
    stage_to
        Folder on each node's own disk to which the training snapshots are staged first, normalised
        (:mod:`climlab_dl.parallel.staging`); for archives on a shared file system that do not fit in memory.
    stage_share
        Share of them that each node draws and trains on; below 1 the ranks of a node shuffle their own.
    stage_as
        ``"float32"`` or ``"float16"``.
    statistics
        DeepCAM's ``stats.h5`` to normalise with; by default the training snapshots' own, by one pass over them.
    """

    source: str | Path | tuple[str, ...]
    channels: tuple[str, ...] = CAM5
    held_out: float = 1 / 3
    roll: bool = True
    mirror: bool = False
    moisture: float = 0.0
    memory_gigabytes: float = 4.0
    workers: int = 2
    stage_to: str | None = None
    stage_share: float = 1.0
    stage_as: Literal["float32", "float16"] = "float32"
    statistics: str | None = None

    def __post_init__(self) -> None:
        check_shares(held_out=self.held_out)
        if self.moisture < 0:
            raise ValueError(f"moisture={self.moisture!r}: choose 0 (off) or a small spread, such as 0.15")
        if not self.channels:
            raise ValueError("channels=(): name at least one field, such as 'TMQ'")

    def held_out_snapshots(self) -> xr.Dataset:
        """Open the held-out part of the archive, with its masks."""
        snapshots = archive.open(_sources(self.source))
        return snapshots.isel(time=slice(*_bounds(self._split(snapshots)[1])))

    def prepare(self, seed: int, known: dict[str, Any] | None = None) -> Prepared:
        """Open the archive, split it and find its statistics; every rank calls this.

        Parameters
        ----------
        seed
            Of the augmentation.
        known
            The statistics of a checkpoint, which spare the pass over the archive.

        Raises
        ------
        ValueError
            If the archive has no masks, too few times, or lacks a channel or some of its values.
        """
        with ranks.together("opening the archive"):
            reader = _Snapshots(self)
            training, held_out = self._split(reader.snapshots)
        if known is not None:
            statistics = Statistics.from_facts(known)
        else:
            with ranks.together("statistics of the archive"):
                share = reader.statistics(training[ranks.rank() :: ranks.size()])
            statistics = share.over_ranks()
            if self.statistics is not None:
                published = Statistics.load_deepcam(self.statistics, self.channels, CAM5)
                statistics = published.with_class_counts(statistics.class_counts)
        reader.normalise(statistics)
        with ranks.together("variation of the snapshots"):
            vary = self._variation(reader)
        samples, group = Samples(reader, training, augment=vary, seed=seed), None
        if self.stage_to is not None:
            staged = self._staged(reader, training, seed)
            samples = Samples(staged, staged.numbers, augment=vary, seed=seed)
            here = ranks.world()
            group = (here.local_rank, here.local_size) if self.stage_share < 1 else None
        return Prepared(
            training=samples,
            group=group,
            held_out=Samples(reader, held_out),
            channels=self.channels,
            targets=CLASSES,
            statistics=statistics,
            facts={**statistics.facts(), "classes": list(CLASSES), **reader.grid},
            metrics=lambda: Segmentation(CLASSES),
            workers=0 if reader.in_memory else self.workers,
        )

    def _staged(self, reader: "_Snapshots", training: range, seed: int) -> "_StagedSnapshots":
        fields, mask = reader.read(training[0])
        scales = np.concatenate([reader.mean, reader.std]).tobytes()
        plan = Plan(
            source=f"{self.source}, {', '.join(self.channels)}, normalised by {zlib.crc32(scales):08x}",
            count=len(training), shape=fields.shape, target_shape=mask.shape, target_dtype=str(mask.dtype),
            dtype=self.stage_as, share=self.stage_share, nodes=ranks.world().nodes, seed=seed,
        )  # fmt: skip
        staged, facts = stage(lambda number: reader.read(training[number]), plan, str(self.stage_to))
        logger.info("staged to %s: %s", staged.folder, facts)
        return _StagedSnapshots(staged, reader, training)

    def _variation(self, reader: "_Snapshots") -> Variation:
        snapshots = reader.snapshots
        vary = Variation(
            channels=self.channels, mean=reader.mean, std=reader.std, lat=snapshots.lat.values,
            lon=snapshots.lon.values, roll=self.roll, mirror=self.mirror, moisture=self.moisture,
        )  # fmt: skip
        first = snapshots.isel(time=0)
        if self.moisture and not _by_default_rules(first):
            raise ValueError(
                f"moisture={self.moisture!r} labels anew by heuristics.label's default rules, but the masks of "
                f"{self.source} are not by them (see its first snapshot); label it by them, or choose moisture=0"
            )
        return vary

    def _split(self, snapshots: xr.Dataset) -> list[range]:
        return split(snapshots.sizes["time"], self.held_out, what="snapshots")


class _Snapshots:
    """Reads snapshots, from memory or, opened anew in each process, from the archive."""

    def __init__(self, data: ClimateArchive) -> None:
        channels = data.channels
        self.source, self.channels = data.source, channels
        self._opened: xr.Dataset | None = None
        self._fields: np.ndarray | None = None
        self._masks: np.ndarray | None = None
        shape = self.snapshots[channels[0]].shape
        self.in_memory = (
            data.stage_to is None and 4 * len(channels) * np.prod(shape, dtype=float) <= data.memory_gigabytes * 2**30
        )
        self.mean, self.std = Statistics.empty(channels).scale(2)
        if self.in_memory:
            self._fields, self._masks = self._load(range(shape[0]))

    def __getstate__(self) -> dict[str, Any]:
        # A handle to HDF5 must not be shared between processes.
        return {**self.__dict__, "_opened": None}

    @property
    def snapshots(self) -> xr.Dataset:
        """The archive, opened on first use in this process."""
        if self._opened is None:
            opened = archive.open(_sources(self.source))
            if "mask" not in opened:
                raise ValueError(
                    f"the archive {self.source} has no masks to learn from; label it and save it with them: "
                    "archive.save(fields.assign(mask=heuristics.label(fields)), folder)"
                )
            self._opened = archive.require(opened, self.channels)
        return self._opened

    def statistics(self, indices: range) -> Statistics:
        """Merge the statistics of some snapshots, one after the other."""
        parts = [Statistics.empty(self.channels, len(CLASSES))]
        for index in indices:
            fields, mask = self._raw(index)
            parts.append(Statistics.of(fields, self.channels, mask, len(CLASSES)))
        return merged(parts)

    def normalise(self, statistics: Statistics) -> None:
        """From now on give (field - mean) / std."""
        self.mean, self.std = statistics.scale(2)
        if self._fields is not None:
            self._fields -= self.mean
            self._fields /= self.std
            self._fields[np.isnan(self._fields)] = 0

    def read(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return one snapshot and its mask."""
        fields, mask = self._raw(index)
        return fields if self.in_memory else np.nan_to_num((fields - self.mean) / self.std), mask

    def _raw(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        if self._fields is not None and self._masks is not None:
            return self._fields[index], self._masks[index]
        fields, masks = self._load(range(index, index + 1))
        return fields[0], masks[0]

    def describe(self, index: int) -> str:
        """Say the time and the archive."""
        return f"{self.times[index]} of {self.source}"

    @property
    def grid(self) -> dict[str, torch.Tensor]:
        """Latitudes and longitudes that the network is trained on."""
        return {name: torch.from_numpy(self.snapshots[name].values.astype(np.float64)) for name in ("lat", "lon")}

    @property
    def times(self) -> list[str]:
        """Times of the snapshots as text."""
        return [str(time)[:16] for time in self.snapshots.time.values]

    def _load(self, indices: range) -> tuple[np.ndarray, np.ndarray]:
        part = self.snapshots.isel(time=slice(*_bounds(indices)))
        # In this thread: a Dask cluster that the process may belong to would only copy the arrays around.
        with config.set(scheduler="synchronous"):
            part = part[[*self.channels, "mask"]].load()
        fields = np.stack([part[name].values for name in self.channels], axis=1).astype(np.float32, copy=False)
        masks = part["mask"].values
        fields[~np.isfinite(fields)] = np.nan
        gaps = np.isnan(fields)
        for time, name in np.argwhere(gaps.all(axis=(2, 3))):
            raise ValueError(
                f"{self.channels[name]} at {self.times[indices[time]]} in {self.source} has no value at all; leave "
                "the snapshot or the field out"
            )
        return fields, np.where(gaps.any(axis=1), UNLABELLED, masks.astype(np.int64))


class _StagedSnapshots:
    """Reads snapshots from this node's disk."""

    def __init__(self, staged: Staged, reader: _Snapshots, training: range) -> None:
        self.staged, self.reader, self.training = staged, reader, training
        self.numbers: list[int] = staged.held.tolist()

    def read(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Return one snapshot and its mask."""
        return self.staged.read(index)

    def describe(self, index: int) -> str:
        """Say the time and the archive."""
        return self.reader.describe(self.training[index])


def _sources(source: str | Path | tuple[str, ...]) -> Any:
    return list(source) if isinstance(source, tuple) else source


def _by_default_rules(snapshot: xr.Dataset) -> bool:
    """Whether the rules mark what the mask does, but for a few cells where values were rounded when saved."""
    ours, theirs = heuristics.label(snapshot).values, snapshot["mask"].values
    return bool((ours != theirs).sum() <= 0.05 * ((ours > 0) | (theirs > 0)).sum())


def _bounds(indices: range) -> tuple[int, int]:
    return indices.start, indices.stop


__all__ = ["ClimateArchive"]
