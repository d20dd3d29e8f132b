"""How a snapshot is varied from epoch to epoch, with its mask, so that a network cannot learn an archive by heart."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy import ndimage

from climlab_dl.climate import derived, heuristics
from climlab_dl.climate.fields import FIELDS
from climlab_dl.climate.rules import Cyclones, Rivers

# How far apart, in degrees, the random factors on water vapour are as good as independent: from the width of a moist
# band, so that its edge frays, to several times a river's length.
PATCHES = (6.0, 40.0)


class Variation:
    """Rolls, mirrors and moistens normalised snapshots; see `ClimateArchive` for what each means.

    Parameters
    ----------
    channels
        Names of the fields.
    mean, std
        Of the channels, by which they are normalised.
    lat, lon
        Of the grid.
    roll, mirror, moisture
        As for `ClimateArchive`.

    Raises
    ------
    ValueError
        If ``moisture`` is asked for and the rules need fields that are no channels.
    """

    def __init__(
        self, *, channels: Sequence[str], mean: np.ndarray, std: np.ndarray, lat: np.ndarray, lon: np.ndarray,
        roll: bool, mirror: bool, moisture: float,
    ) -> None:  # fmt: skip
        self.channels, self.mean, self.std, self.lat, self.lon = tuple(channels), mean, std, lat, lon
        self.roll, self.mirror, self.moisture = roll, mirror, moisture
        # What turns round when north and south change places: winds and transports to the north, and vorticity.
        turns = [any(part in _standard_name(name) for part in ("northward", "vorticity")) for name in channels]
        self.sign = np.where(turns, -1, 1).astype(np.float32)[:, None, None]
        needed = {*Cyclones.kurth().needed(channels), *Rivers.kurth().needed(channels)} if moisture else set()
        self.ruling = sorted(needed)
        self.moist = [(number, name) for number, name in enumerate(channels) if derived.follows(name, {"TMQ"})]
        if lacking := needed - set(channels):
            raise ValueError(
                f"moisture={moisture!r} needs the fields that the rules look at among the channels; add "
                f"{', '.join(sorted(lacking))}, or choose moisture=0"
            )

    def __call__(
        self, fields: np.ndarray, mask: np.ndarray, random: np.random.Generator, out: np.ndarray
    ) -> np.ndarray:
        """Write fields (channel, lat, lon), varied, to ``out``, and give the mask (lat, lon) that goes with them."""
        mirrored = self.mirror and random.random() < 0.5
        if mirrored:
            # The mean northward wind is as good as zero beside its spread, so the sign may change after normalising.
            fields, mask = fields[:, ::-1] * self.sign, mask[::-1]
        if self.moisture:
            fields = self._moistened(fields, random)
            mask = self._labelled(fields)
        shift = int(random.integers(mask.shape[-1])) if self.roll else 0
        out[..., shift:] = fields[..., : fields.shape[-1] - shift]
        out[..., :shift] = fields[..., fields.shape[-1] - shift :]
        return np.roll(mask, shift, axis=-1)

    def _moistened(self, fields: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Turn the water vapour round the globe, apart from all else, and multiply it by smooth random factors."""
        number = self.channels.index("TMQ")
        vapour = np.roll(fields[number] * self.std[number] + self.mean[number], int(random.integers(len(self.lon))), -1)
        spacing = np.abs(np.diff(self.lat)).mean(), np.abs(np.diff(self.lon)).mean()
        noise = random.standard_normal(vapour.shape)
        edges: Any = ("nearest", "wrap")  # scipy's stubs know one for both axes only
        patch = random.uniform(*PATCHES)
        smooth = ndimage.gaussian_filter(noise, [patch / step for step in spacing], mode=edges)
        vapour *= np.exp(self.moisture * smooth / smooth.std())
        moist = xr.Dataset({"TMQ": (("lat", "lon"), vapour)}, {"lat": self.lat, "lon": self.lon})
        moist = derived.require(moist, [name for _, name in self.moist])
        fields = fields.copy()
        for number, name in self.moist:
            fields[number] = (moist[name].values - self.mean[number]) / self.std[number]
        return fields

    def _labelled(self, fields: np.ndarray) -> np.ndarray:
        places = [self.channels.index(name) for name in self.ruling]
        physical = fields[places] * self.std[places] + self.mean[places]
        named = {name: (("lat", "lon"), field) for name, field in zip(self.ruling, physical, strict=True)}
        mask = heuristics.label(xr.Dataset(named, coords={"lat": self.lat, "lon": self.lon}))
        return mask.values


def _standard_name(channel: str) -> str:
    return FIELDS[channel].standard_name if channel in FIELDS else ""
