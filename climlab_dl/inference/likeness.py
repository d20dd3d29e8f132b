"""Whether a volume is like those that a network was trained on: a network answers whatever it is shown."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from climlab_dl.cosmology.volumes import Volume
from climlab_dl.words import counted

# Matter is conserved, so that whole simulations have one mean count and sub-volumes means around it; other particle
# numbers, voxels or units differ by whole factors. A quarter beyond what was seen is neither.
FACTOR = 1.25


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a checkpoint knows of the volumes of its training; nothing, where it is older than this question.

    Attributes
    ----------
    redshifts
        In the order of the network's channels.
    box_size_mpc_h
        Side of the cubes.
    mean_counts
        Lowest and highest mean count per cell of a universe, at each redshift.
    cells
        On each side of the cubes.
    by_value
        Whether the training itself took its redshifts by their values, wherever they lay in the files.
    """

    redshifts: tuple[float, ...] | None = None
    box_size_mpc_h: float | None = None
    mean_counts: tuple[tuple[float, float], ...] = ()
    cells: int | None = None
    by_value: bool = False

    @classmethod
    def of(cls, facts: Mapping[str, Any], chosen: Iterable[float] | None = None) -> "Training":
        """Read what a checkpoint's ``statistics`` tell, of a training that took the ``chosen`` redshifts, if any."""
        redshifts = facts.get("redshifts", chosen)
        ends = zip(facts.get("lowest_mean_count", ()), facts.get("highest_mean_count", ()), strict=True)
        return cls(
            redshifts=None if redshifts is None else tuple(redshifts),
            box_size_mpc_h=facts.get("box_size_mpc_h"),
            mean_counts=tuple(ends),
            cells=facts.get("cells_a_side"),
            by_value=chosen is not None,
        )

    def ordered(self, volume: Volume, channels: int) -> Volume:
        """Take the redshifts of the training, in its order, by their values, where both tell them.

        Parameters
        ----------
        volume
            That a network is to be asked of.
        channels
            How many redshifts the network takes.

        Raises
        ------
        ValueError
            If the volume lacks one of them, or has another number and does not tell which they are.
        """
        told, there = volume.redshifts, volume.counts.shape[-1]
        has, trained_on = f"{volume.source} has {counted(there, 'redshift')}", f"the network was trained on {channels}"
        if self.redshifts is not None:
            trained_on += f" ({_listed(self.redshifts)})"
            if told is not None and len(told) == there:
                if lacking := [z for z in self.redshifts if not np.isclose(z, told).any()]:
                    raise ValueError(
                        f"{has} ({_listed(told)}), {trained_on}: give the counts at {_listed(lacking)} as well, or "
                        f"train a network on what is there, with Universes(redshifts={tuple(told.tolist())})"
                    )
                same = len(told) == len(self.redshifts) and np.allclose(told, self.redshifts)
                return volume if same else volume.at(self.redshifts)
        if there != channels:
            remedy = f"give the counts at all {channels}, or train a network on volumes like this"
            if there > channels:
                chosen = f"dataclasses.replace(volume, counts=volume.counts[..., {list(range(channels))}])"
                remedy = f"choose {channels} of them in Python, such as {chosen}"
            raise ValueError(f"{has}, {trained_on}: {remedy}")
        return volume

    def differences(self, volume: Volume, ordered: Volume) -> Iterator[str]:
        """Name what the network has not seen, found and expected, in a volume and in what is taken of it."""
        cells = volume.counts.shape[0]
        if self.cells is not None and cells != self.cells:
            yield f"{cells} cells a side, where the training's had {self.cells}"
        box = volume.box_size_mpc_h
        if box is not None and self.box_size_mpc_h is not None and not np.isclose(box, self.box_size_mpc_h, rtol=0.01):
            yield f"a box of {box:g} Mpc/h, where the training's were {self.box_size_mpc_h:g}"
        means = ordered.counts.mean((0, 1, 2), dtype=np.float64)
        if len(means) != len(self.mean_counts):
            return
        for mean, (low, high) in zip(means, self.mean_counts, strict=True):
            if not low / FACTOR <= mean <= high * FACTOR:
                yield f"{mean:.3g} particles per cell on average, where the training's had {_span(low, high)}"
                return

    def readings(self, volume: Volume, ordered: Volume) -> Iterator[str]:
        """Say how a volume is read: which of its redshifts, and what its file does not tell but the training does."""
        told, taken = volume.redshifts, ordered.redshifts
        if self.redshifts is not None and told is None:
            channels = counted(volume.counts.shape[-1], "channel")
            yield f"its file tells no redshifts ({channels} taken for {_listed(self.redshifts)}, in this order)"
        elif told is not None and taken is not None and taken is not told and not self.by_value:
            yield f"of its redshifts {_listed(told)} are taken {_listed(taken)}, in the order of the training"
        if self.box_size_mpc_h is not None and volume.box_size_mpc_h is None:
            yield f"its file tells no box (taken for the training's, {self.box_size_mpc_h:g} Mpc/h)"


def _listed(redshifts: Iterable[float]) -> str:
    return ", ".join(f"{z:g}" for z in redshifts)


def _span(low: float, high: float) -> str:
    ends = f"{low:.3g}", f"{high:.3g}"
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)
