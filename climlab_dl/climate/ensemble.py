"""Rivers with their uncertainty: an ensemble of thresholds, each of which an expert might have chosen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from climlab_dl.climate.mesh import Mesh
from climlab_dl.climate.river_shapes import AxisShape
from climlab_dl.climate.rivers import HALF_WIDTH, AbovePercentile
from climlab_dl.climate.rules import NO_CENTRES, Rivers


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """Thresholds of TECA's Bayesian detector BARD (O'Brien et al. 2020): percentile, tropical damping, least area.

    BARD ships 1,024 sets drawn from a posterior. Here `members` sets are drawn independently for each parameter:
    half of them below and half above the posterior's median, evenly up to the ends of its range; so range and
    medians are BARD's, the correlations are not.

    Parameters
    ----------
    members
        Number of sets.
    seed
        Of the draws.
    field
        ``"IVT"``, or another measure of vapour.
    percentile
        Least, median and largest percentile of the snapshot.
    half_width
        Degrees of latitude at which the damping leaves one half; likewise.
    area
        Least area in km2; likewise.
    """

    members: int = 64
    seed: int = 0
    field: str = "IVT"
    percentile: tuple[float, float, float] = (80.0, 94.1, 99.0)
    half_width: tuple[float, float, float] = (5.3, 19.3, 25.0)
    area: tuple[float, float, float] = (0.35e6, 1.54e6, 5.0e6)

    def __post_init__(self) -> None:
        if self.members < 1:
            raise ValueError(f"members={self.members} must be at least 1, e.g. 64")
        for name in ("percentile", "half_width", "area"):
            low, middle, high = getattr(self, name)
            if not 0 < low <= middle <= high:
                raise ValueError(f"{name}={getattr(self, name)} must be its least, median and largest value, in order")

    def rules(self) -> list[Rivers]:
        """Return the rules, the same for the same seed."""
        draws = np.random.default_rng(self.seed).uniform(0, 1, size=(3, self.members))
        sets = (
            np.interp(draw, (0.0, 0.5, 1.0), getattr(self, name))
            for draw, name in zip(draws, ("percentile", "half_width", "area"), strict=True)
        )
        return [
            Rivers(
                where=AbovePercentile(field=self.field, percentile=percentile, damping=half_width / HALF_WIDTH),
                shape=AxisShape(area=area),
            )
            for percentile, half_width, area in zip(*sets, strict=True)
        ]

    def share(self, rules: Sequence[Rivers], snapshot: Mapping[str, np.ndarray], mesh: Mesh) -> np.ndarray:
        """Return the share of the rules (lat, lon) that call a cell a river."""
        votes = np.zeros((len(mesh.lat), len(mesh.lon)), dtype=np.float32)
        for rule in rules:
            votes += rule.find(NO_CENTRES, snapshot, mesh)
        return votes / len(rules)
