"""An archive of snapshots with masks as training data."""

import logging
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr

from climlab_dl.climate import archive, heuristics
from climlab_dl.climate.fields import CAM5, CLASSES
from climlab_dl.climate.labels import MASK
from climlab_dl.climate.sphere import wraps
from climlab_dl.files import Stamp
from climlab_dl.parallel import ranks
from climlab_dl.parallel.staged import Plan
from climlab_dl.parallel.staging import stage
from climlab_dl.training.batches import Prepared, Samples, check_reading, shared_statistics
from climlab_dl.training.metrics import Segmentation
from climlab_dl.training.parts import check_shares, same_samples, split, warn_of_few
from climlab_dl.training.snapshots import Snapshots, StagedSnapshots, time_of
from climlab_dl.training.statistics import Statistics
from climlab_dl.training.variation import Variation, hemispheres

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
        Share of the times that is held out; above 0, because the network is measured, and the best kept, by them.
    roll
        Roll each snapshot by a random longitude at each epoch: the sphere has no first meridian. A region has, and is
        left as it is.
    mirror
        Where the grid has both, swap the hemispheres of every other snapshot at random, with the sign of northward
        winds: what is alike on both is learnt from both. A rule that looks at the sign of winds marks other cells of a
        mirrored storm: let ``moisture`` mark them anew.
    warp
        At each epoch, take each value from a place nearby, up to so many degrees away (the spread), the same for all
        fields: storms and bands are bent and stretched. Then label the snapshot anew by rule. For archives that
        `heuristics.label` has labelled by its default rules; 0 is off.
    moisture
        At each epoch, take water vapour (TMQ) from two copies of itself, turned round the globe, mirrored and faded
        into one another, and multiply it by other smooth random factors, the logarithm of which spreads by this;
        then label the snapshot anew, as for ``warp``. Regions join, part, grow and shrink, and no other field tells
        where they were, so that the rule is learnt instead of the regions. 0 is off.
    moistened
        Share of the snapshots, drawn anew at each epoch, whose vapour is varied so. The others keep their own: the
        extent of a cyclone follows the vapour that belongs to it.
    memory_gigabytes
        Archives up to this size are read once and kept, normalised, in each rank's memory; larger ones are read
        snapshot by snapshot. HDF5 and NetCDF 4 without compression are read fastest by far.
    workers
        Threads per rank that read ahead, for archives that are not kept in memory.
    stage_to
        Folder on each node's own disk to which the training snapshots are staged first, normalised
        (:mod:`climlab_dl.parallel.staging`); for archives on a shared file system that do not fit in memory. What is
        there of an archive that has changed since is refused.
    stage_share
        Share of them that each node draws and trains on; below 1 the ranks of a node shuffle their own.
    stage_as
        ``"float32"`` or ``"float16"``.
    statistics
        DeepCAM's ``stats.h5`` to normalise with; by default the training snapshots' own, by one pass over them.
    names
        What variables of the archive are called here, as for :func:`climlab_dl.climate.archive.open`.
    """

    source: str | Path | tuple[str, ...]
    channels: tuple[str, ...] = CAM5
    held_out: float = 1 / 3
    roll: bool = True
    mirror: bool = False
    warp: float = 0.0
    moisture: float = 0.0
    moistened: float = 1.0
    memory_gigabytes: float = 4.0
    workers: int = 2
    stage_to: str | None = None
    stage_share: float = 1.0
    stage_as: Literal["float32", "float16"] = "float32"
    statistics: str | None = None
    names: Mapping[str, str | None] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_shares(held_out=self.held_out)
        check_reading(memory_gigabytes=self.memory_gigabytes, workers=self.workers)
        if not 0 < self.moistened <= 1:
            raise ValueError(f"moistened={self.moistened!r} must be a share above 0 and up to 1; moisture=0 is off")
        if not 0 <= self.warp < math.inf:
            raise ValueError(f"warp={self.warp!r}: choose 0 (off) or some degrees, such as 3")
        if not 0 <= self.moisture < math.inf:
            raise ValueError(f"moisture={self.moisture!r}: choose 0 (off) or a small spread, such as 0.15")
        if not self.channels:
            raise ValueError("channels=(): name at least one field, such as 'TMQ'")
        if isinstance(self.channels, str):
            raise ValueError(f"channels={self.channels!r}: give a tuple of names, such as ({self.channels!r},)")
        if len(set(self.channels)) < len(self.channels):
            raise ValueError(f"channels={self.channels!r}: name each field once")
        if MASK in self.channels:
            raise ValueError(f"channels={self.channels!r}: leave {MASK!r} out, which is what the network is to find")
        if not 0 < self.stage_share <= 1:
            raise ValueError(f"stage_share={self.stage_share!r}: choose the share that a node holds, above 0 to 1")
        if self.stage_as not in ("float32", "float16"):
            raise ValueError(f"stage_as={self.stage_as!r}: choose 'float32' or 'float16'")

    def held_out_snapshots(self, known: dict[str, Any] | None = None) -> xr.Dataset:
        """Open the held-out part of the archive, with its masks.

        Parameters
        ----------
        known
            The statistics of a checkpoint: snapshots other than it began with are refused.

        Raises
        ------
        ValueError
            If they are others.
        """
        snapshots = archive.open(self.source, names=self.names)
        held_out = self._split(snapshots, known)[0]["held_out"]
        return snapshots.isel(time=slice(held_out.start, held_out.stop))

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
        OSError
            If a file cannot be read; on all ranks.
        ValueError
            If the archive has no masks, too few times, lacks a channel or some of its values, or nobody has labelled
            what is trained on or held out; on all ranks.
        """
        with ranks.together("opening the archive"):
            reader = Snapshots(
                self.source, self.channels, 0 if self.stage_to else self.memory_gigabytes, names=self.names
            )
            parts, samples = self._split(reader.snapshots, known)
            training, held_out = parts.values()
        warn_of_few(training, held_out, "snapshot", "masks that a network finds by so few in other weather are")
        statistics = shared_statistics(reader, training, known)
        if known is None and self.statistics is not None:
            published = Statistics.load_deepcam(self.statistics, self.channels, CAM5)
            statistics = published.with_class_counts(statistics.class_counts)
        with ranks.together("looking for labels"):
            _refuse_unlabelled(reader, statistics, held_out)
        reader.normalise(statistics)
        with ranks.together("variation of the snapshots"):
            vary = self._variation(reader)
        trained_on, group = Samples(reader, training, augment=vary, seed=seed), None
        if self.stage_to is not None:
            staged = self._staged(reader, training, seed, statistics.class_counts)
            trained_on = Samples(staged, staged.numbers, augment=vary, seed=seed)
            here = ranks.world()
            group = (here.local_rank, here.local_size) if self.stage_share < 1 else None
        return Prepared(
            training=trained_on,
            group=group,
            held_out=Samples(reader, held_out),
            channels=self.channels,
            targets=CLASSES,
            statistics=statistics,
            facts={**statistics.facts(), "classes": list(CLASSES), **reader.grid, "samples": samples},
            metrics=lambda: Segmentation(CLASSES),
            # To label anew takes longer than to read, and so does not wait either.
            workers=0 if reader.in_memory and not vary.anew else self.workers,
        )

    def _staged(self, reader: Snapshots, training: range, seed: int, class_counts: np.ndarray) -> StagedSnapshots:
        def read(number: int) -> tuple[np.ndarray, np.ndarray]:
            fields = np.empty(reader.shape, np.float32)
            return fields, reader.read(training[number], fields)

        content = ""
        with ranks.together("looking at the files to stage"):
            if ranks.rank() == 0:
                # Of a Zarr store one file's time is known, and labels may be written anew to others: so the counts too.
                files = [Stamp.of(path) for path in archive.paths(self.source)]
                told = repr((files, sorted(self.names.items()), class_counts.tolist()))
                content = f"{zlib.crc32(told.encode()):08x}"
        content = ranks.broadcast_text(content, "what is staged")
        scales = zlib.crc32(np.concatenate([reader.mean, reader.std]).tobytes())
        plan = Plan(
            source=f"{self.source} ({content}), {', '.join(self.channels)}, normalised by {scales:08x}",
            count=len(training), shape=reader.shape, target_shape=reader.shape[1:], target_dtype="int8",
            dtype=self.stage_as, share=self.stage_share, nodes=ranks.world().nodes, seed=seed,
        )  # fmt: skip
        staged, facts = stage(read, plan, str(self.stage_to))
        logger.info("staged to %s: %s", staged.folder, facts)
        return StagedSnapshots(staged, reader, training)

    def _variation(self, reader: Snapshots) -> Variation:
        snapshots, lat, lon = reader.snapshots, reader.snapshots.lat.values, reader.snapshots.lon.values
        if self.mirror and not hemispheres(lat) and ranks.rank() == 0:
            logger.warning("latitudes %g..%g are not those of both hemispheres: none is mirrored", lat[0], lat[-1])
        if not wraps(lon) and ranks.rank() == 0:
            logger.warning(
                "longitudes %g..%g are those of a region: snapshots are not rolled, and a network that wraps them all "
                "the same joins what is far apart; build it with padding='zeros'", lon[0], lon[-1],
            )  # fmt: skip
        vary = Variation(
            channels=self.channels, mean=reader.mean, std=reader.std, lat=lat, lon=lon,
            roll=self.roll and wraps(lon), mirror=self.mirror and hemispheres(lat), warp=self.warp,
            moisture=self.moisture, moistened=self.moistened,
        )  # fmt: skip
        first = snapshots.isel(time=0)
        if vary.anew and not _by_default_rules(first):
            raise ValueError(
                f"{vary.anew} labels anew by heuristics.label's default rules, but the masks of {self.source} are not "
                "by them (see its first snapshot); label it by them, or choose 0"
            )
        return vary

    def _split(self, snapshots: xr.Dataset, known: dict[str, Any] | None) -> tuple[dict[str, range], dict[str, str]]:
        """Which snapshots each part has, and what `same_samples` says of that."""
        training, held_out = split(snapshots.sizes["time"], self.held_out, what="snapshot")
        parts = {"training": training, "held_out": held_out}
        return parts, same_samples(known, self.source, lambda number: time_of(snapshots, number), **parts)


def _refuse_unlabelled(reader: Snapshots, statistics: Statistics, held_out: range) -> None:
    labelled = {
        "trained on": statistics.class_counts.sum() > 0,
        # Asked by one rank for all: it reads snapshots.
        "held out": ranks.rank() > 0 or reader.labelled(held_out),
    }
    for part, known in labelled.items():
        if not known:
            raise ValueError(
                f"nobody has labelled a pixel of the snapshots of {reader.source} that are {part}, but where a field "
                "has a gap; label them, or choose another held_out"
            )


def _by_default_rules(snapshot: xr.Dataset) -> bool:
    """Whether the rules mark what the mask does, but for a few cells where values were rounded when saved."""
    ours, theirs = heuristics.label(snapshot).values, snapshot["mask"].values
    return bool((ours != theirs).sum() <= 0.05 * ((ours > 0) | (theirs > 0)).sum())


__all__ = ["ClimateArchive"]
