"""How a snapshot is varied from epoch to epoch, with its mask, so that a network cannot learn an archive by heart."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy import ndimage

from climlab_dl.climate import derived, heuristics
from climlab_dl.climate.fields import FIELDS
from climlab_dl.climate.rules import Cyclones, Rivers
from climlab_dl.climate.sphere import wraps

# How far apart, in degrees, random factors on water vapour, and displacements, are as good as independent: from the
# width of a moist band, so that its edge frays, to several times a river's length; and from a storm's width.
PATCHES = (6.0, 40.0)
FOLDS = (20.0, 60.0)


class Variation:
    """Rolls, mirrors, warps and moistens normalised snapshots; see `ClimateArchive` for what each means.

    Parameters
    ----------
    channels
        Names of the fields.
    mean, std
        Of the channels, by which they are normalised.
    lat, lon
        Of the grid.
    roll, mirror, warp, moisture, moistened
        As for `ClimateArchive`.

    Raises
    ------
    ValueError
        If ``warp`` or ``moisture`` is asked for and the rules need fields that are no channels, or if what is asked for
        has no meaning on the grid of a region.
    """

    def __init__(
        self, *, channels: Sequence[str], mean: np.ndarray, std: np.ndarray, lat: np.ndarray, lon: np.ndarray,
        roll: bool, mirror: bool, warp: float, moisture: float, moistened: float = 1.0,
    ) -> None:  # fmt: skip
        self.channels, self.mean, self.std, self.lat, self.lon = tuple(channels), mean, std, lat, lon
        self.roll, self.mirror, self.warp, self.moisture, self.moistened = roll, mirror, warp, moisture, moistened
        _refuse_region(lat, lon, warp=warp, moisture=moisture)
        # What turns round when north and south change places: winds and transports to the north, and vorticity.
        turns = [any(part in _standard_name(name) for part in ("northward", "vorticity")) for name in channels]
        self.sign = np.where(turns, -1, 1).astype(np.float32)[:, None, None]
        # What is given; the rest follows from it, or from the grid.
        self.given = [name for name in channels if not derived.follows(name, set(channels) - {name})]
        weather = [name for name in channels if not derived.follows(name, ())]
        self.changed = weather if warp else [name for name in weather if derived.follows(name, {"TMQ"})]
        # What asks for new labels, in words; empty where nothing does.
        self.anew = " and ".join(
            f"{name}={value!r}" for name, value in (("warp", warp), ("moisture", moisture)) if value
        )
        needed = {*Cyclones.kurth().needed(channels), *Rivers.kurth().needed(channels)} if self.anew else set()
        self.ruling = sorted(needed)
        if lacking := needed - set(channels):
            raise ValueError(
                f"{self.anew} needs the fields that the rules look at among the channels; add "
                f"{', '.join(sorted(lacking))}, or choose 0"
            )

    def __call__(
        self, fields: np.ndarray, mask: np.ndarray, random: np.random.Generator, out: np.ndarray
    ) -> np.ndarray:
        """Write fields (channel, lat, lon), varied, to ``out``, and give the mask (lat, lon) that goes with them."""
        mirrored = self.mirror and random.random() < 0.5
        if mirrored:
            # The mean northward wind is as good as zero beside its spread, so the sign may change after normalising.
            fields, mask = fields[:, ::-1] * self.sign, mask[::-1]
        if self.anew:
            fields = self._anew(fields, random)
            mask = self._labelled(fields)
        shift = int(random.integers(mask.shape[-1])) if self.roll else 0
        out[..., shift:] = fields[..., : fields.shape[-1] - shift]
        out[..., :shift] = fields[..., fields.shape[-1] - shift :]
        return np.roll(mask, shift, axis=-1)

    def _anew(self, fields: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Change the fields that are given, and compute from them those that follow."""
        places = [self.channels.index(name) for name in self.given]
        given = fields[places] * self.std[places] + self.mean[places]
        if self.warp:
            given = self._warped(given, random)
        if self.moisture and random.random() < self.moistened:
            wet = self.given.index("TMQ")
            given[wet] = self._moistened(given[wet], random)
        named = {name: (("lat", "lon"), field) for name, field in zip(self.given, given, strict=True)}
        changed = derived.require(xr.Dataset(named, {"lat": self.lat, "lon": self.lon}), self.changed)
        fields = fields.copy()
        for name in self.changed:
            place = self.channels.index(name)
            fields[place] = (changed[name].values - self.mean[place]) / self.std[place]
        return fields

    def _warped(self, given: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Take each value from a place nearby, the same for all fields, so that what is there is bent and stretched."""
        rows, columns = given.shape[1:]
        spread = self.warp * random.random()
        north, east = (spread * self._smooth(random, random.uniform(*FOLDS)) for _ in range(2))
        # As far east in kilometres as north, but near the poles.
        east /= np.maximum(np.cos(np.radians(self.lat)), 0.3)[:, None]
        row = np.clip(np.arange(rows)[:, None] + north / self._steps[0], 0, rows - 1.001)
        column = np.arange(columns) + east / self._steps[1]
        south, west = np.floor(row).astype(int), np.floor(column).astype(int)
        up, right = (row - south).astype(np.float32), (column - west).astype(np.float32)
        west, further = west % columns, (west + 1) % columns
        below = given[:, south, west] * (1 - right) + given[:, south, further] * right
        above = given[:, south + 1, west] * (1 - right) + given[:, south + 1, further] * right
        return below * (1 - up) + above * up

    def _moistened(self, vapour: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Fade between two copies of the water vapour, each turned and mirrored, and multiply by smooth factors."""
        one, other = (self._turned(vapour, random) for _ in range(2))
        # Mostly the one or the other: a blend of everything would be a weather of its own, without fronts.
        share = 1 / (1 + np.exp(-6 * self._smooth(random, random.uniform(*FOLDS))))
        factors = np.exp(self.moisture * self._smooth(random, random.uniform(*PATCHES)))
        return (share * one + (1 - share) * other) * factors

    def _turned(self, field: np.ndarray, random: np.random.Generator) -> np.ndarray:
        north, east = random.choice([-1, 1], 2)
        return np.roll(field, int(random.integers(len(self.lon))), axis=-1)[::north, ::east]

    @property
    def _steps(self) -> tuple[float, float]:
        return float(np.abs(np.diff(self.lat)).mean()), float(np.abs(np.diff(self.lon)).mean())

    def _smooth(self, random: np.random.Generator, patch: float) -> np.ndarray:
        """Draw numbers of unit spread (lat, lon) that change over ``patch`` degrees."""
        edges: Any = ("nearest", "wrap")  # scipy's stubs know one for both axes only
        noise = random.standard_normal((len(self.lat), len(self.lon)))
        smooth = ndimage.gaussian_filter(noise, [patch / step for step in self._steps], mode=edges)
        return (smooth / smooth.std()).astype(np.float32)

    def _labelled(self, fields: np.ndarray) -> np.ndarray:
        places = [self.channels.index(name) for name in self.ruling]
        physical = fields[places] * self.std[places] + self.mean[places]
        named = {name: (("lat", "lon"), field) for name, field in zip(self.ruling, physical, strict=True)}
        mask = heuristics.label(xr.Dataset(named, coords={"lat": self.lat, "lon": self.lon}))
        return mask.values


def hemispheres(lat: np.ndarray) -> bool:
    """Whether latitudes are those of both hemispheres, row for row."""
    # A global grid that was cut by a row, to be divisible, still has both: they differ by one row.
    return bool(np.abs(lat + lat[::-1]).max() <= 1.01 * np.abs(np.diff(lat)).max(initial=0))


def _refuse_region(lat: np.ndarray, lon: np.ndarray, **asked: float) -> None:
    """Refuse what moves values to where the grid has no place for them."""
    possible = {"warp": wraps(lon), "moisture": hemispheres(lat) and wraps(lon)}
    if refused := [f"{name}={value!r}" for name, value in asked.items() if value and not possible[name]]:
        raise ValueError(
            f"{' and '.join(refused)}: latitudes {lat[0]:g}..{lat[-1]:g} and longitudes {lon[0]:g}..{lon[-1]:g} are "
            "those of a region; warp needs the whole circle, moisture both hemispheres, too. Leave it out"
        )


def _standard_name(channel: str) -> str:
    return FIELDS[channel].standard_name if channel in FIELDS else ""
