"""Fields seen sharply: how far one stands from the threshold of a rule, in steps that a network can tell.

What decides in a rule may be a hundredth of a field's spread over the globe: 0.1 K of a warm core where temperature
spreads by 12 K, 21 kg/m2 of vapour or 22. In bfloat16, with 256 steps to a power of two, such a difference is lost in
the first layer. A hyperbolic tangent spends the whole range of a channel on it.
"""

from dataclasses import dataclass

import numpy as np
import xarray as xr


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """How a field is seen.

    Attributes
    ----------
    of : str
        The field.
    threshold : float
        In its unit: what becomes 0.
    width : float
        In its unit, too: what becomes tanh(1) = 0.76 beyond the threshold.
    """

    of: str
    threshold: float
    width: float

    def __call__(self, field: xr.DataArray) -> xr.DataArray:
        """Give tanh of the departure from the threshold over the width."""
        departure = (field - np.float32(self.threshold)) / np.float32(self.width)
        return xr.apply_ufunc(np.tanh, departure, dask="allowed")


CONTRASTS = {
    "TMQEXCESS1": Contrast(of="TMQDAMPED", threshold=21.0, width=1.0),
    "TMQEXCESS5": Contrast(of="TMQDAMPED", threshold=21.0, width=5.0),
    "PSLRISE40": Contrast(of="PSLRISE", threshold=100.0, width=40.0),
    "PSLRISE200": Contrast(of="PSLRISE", threshold=100.0, width=200.0),
    "WARMCORE008": Contrast(of="WARMCORE", threshold=0.1, width=0.08),
    "WARMCORE04": Contrast(of="WARMCORE", threshold=0.1, width=0.4),
}
"""Contrasts by name; thresholds and fields are those of the default rules (`rules.Rivers.kurth`, `Cyclones.kurth`)."""
