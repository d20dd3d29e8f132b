"""Whether a volume is like those that a network was trained on: a network answers whatever it is shown."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from climlab_dl.cosmology.volumes import Volume

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
    """

    redshifts: tuple[float, ...] | None = None
    box_size_mpc_h: float | None = None
    mean_counts: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "Training":
        """Read what a checkpoint's ``statistics`` tell."""
        redshifts = facts.get("redshifts")
        ends = zip(facts.get("lowest_mean_count", ()), facts.get("highest_mean_count", ()), strict=True)
        return cls(
            redshifts=None if redshifts is None else tuple(redshifts),
            box_size_mpc_h=facts.get("box_size_mpc_h"),
            mean_counts=tuple(ends),
        )

    def ordered(self, volume: Volume) -> Volume:
        """Take the redshifts of the training, in its order, by their values, where both tell them.

        Raises
        ------
        ValueError
            If the volume lacks one of them.
        """
        told = volume.redshifts
        if self.redshifts is None or told is None or len(told) != volume.counts.shape[-1]:
            return volume
        same = len(told) == len(self.redshifts) and np.allclose(told, self.redshifts)
        return volume if same else volume.at(self.redshifts)

    def differences(self, volume: Volume, ordered: Volume) -> Iterator[str]:
        """Name what the network has not seen, found and expected, in a volume and in what is taken of it."""
        told, taken = volume.redshifts, ordered.redshifts
        if told is not None and taken is not None and len(told) == len(taken) and not np.allclose(told, taken):
            shifts = (", ".join(f"{z:g}" for z in each) for each in (told, taken))
            yield "redshifts {}, which are taken in the order of the training, {}".format(*shifts)
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


def _span(low: float, high: float) -> str:
    ends = f"{low:.3g}", f"{high:.3g}"
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)
