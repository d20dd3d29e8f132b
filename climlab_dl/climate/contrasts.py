"""Fields seen sharply: how far one stands from the threshold of a rule, in steps that a network can tell.

What decides in a rule may be a hundredth of a field's spread over the globe: 0.1 K of a warm core where temperature
spreads by 12 K, 21 kg/m2 of vapour or 22. In bfloat16, with 256 steps to a power of two, such a difference is lost in
the first layer. A hyperbolic tangent spends the whole range of a channel on it.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from climlab_dl.climate.extrema import least_rise_everywhere
from climlab_dl.climate.mesh import Mesh

REACH = 5.0
"""Degrees around a cell within which a field has to rise or fall."""


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """How a field, or the mean of some, is seen.

    Attributes
    ----------
    of : tuple of str
        The fields.
    threshold : float
        In their unit: what becomes 0.
    width : float
        In their unit, too: what becomes tanh(1) = 0.76 beyond the threshold.
    asks : {"level", "rise", "fall"}
        For the field itself, or for how much it rises, or falls, within `REACH` of each cell along that one of eight
        rays on which it does so least; over the seam, never over a pole.
    """

    of: tuple[str, ...]
    threshold: float
    width: float
    asks: Literal["level", "rise", "fall"] = "level"

    def __call__(self, mesh: Mesh, *fields: np.ndarray) -> np.ndarray:
        """Give tanh of the departure from the threshold over the width, from the fields (lat, lon)."""
        seen = sum(fields[1:], fields[0]) / np.float32(len(fields))
        if self.asks != "level":
            seen = least_rise_everywhere(seen if self.asks == "rise" else -seen, mesh, REACH)
        return np.tanh((seen - np.float32(self.threshold)) / np.float32(self.width))


CONTRASTS = {
    "TMQEXCESS1": Contrast(of=("TMQDAMPED",), threshold=21.0, width=1.0),
    "TMQEXCESS5": Contrast(of=("TMQDAMPED",), threshold=21.0, width=5.0),
    "PSLRISE40": Contrast(of=("PSL",), threshold=100.0, width=40.0, asks="rise"),
    "PSLRISE200": Contrast(of=("PSL",), threshold=100.0, width=200.0, asks="rise"),
    "WARMCORE008": Contrast(of=("T200", "T500"), threshold=0.1, width=0.08, asks="fall"),
    "WARMCORE04": Contrast(of=("T200", "T500"), threshold=0.1, width=0.4, asks="fall"),
}
"""Contrasts by name; thresholds and fields are those of the default rules (`rules.Rivers.kurth`, `Cyclones.kurth`)."""
