"""Fields seen sharply: how far one stands from a threshold or above its surroundings, in steps that a network can tell.

What decides in a rule may be a hundredth of a field's spread over the globe: 0.1 K of a warm core where temperature
spreads by 12 K, 21 kg/m2 of vapour or 22. In bfloat16, with 256 steps to a power of two, such a difference is lost in
the first layer. A hyperbolic tangent spends the whole range of a channel on it.
"""

from dataclasses import dataclass

import numpy as np

from climlab_dl.climate.mesh import Mesh

WINDOW = 9.0
"""Degrees north to south and west to east over which the surroundings are averaged."""


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """How a field, or the mean of some, is seen.

    Attributes
    ----------
    of : tuple of str
        The fields.
    width : float
        In their unit: what becomes tanh(1) = 0.76.
    threshold : float, optional
        What becomes 0; by default the mean of the surroundings.
    """

    of: tuple[str, ...]
    width: float
    threshold: float | None = None

    def __call__(self, mesh: Mesh, *fields: np.ndarray) -> np.ndarray:
        """Give tanh of the departure over the width, from the fields (lat, lon)."""
        mean = sum(fields[1:], fields[0]) / np.float32(len(fields))
        level = surroundings(mean, mesh) if self.threshold is None else np.float32(self.threshold)
        return np.tanh((mean - level) / np.float32(self.width))


CONTRASTS = {
    "TMQEXCESS1": Contrast(of=("TMQDAMPED",), width=1.0, threshold=21.0),
    "TMQEXCESS5": Contrast(of=("TMQDAMPED",), width=5.0, threshold=21.0),
    "PSLDIP1": Contrast(of=("PSL",), width=100.0),
    "PSLDIP5": Contrast(of=("PSL",), width=500.0),
    "WARMCORE02": Contrast(of=("T200", "T500"), width=0.2),
    "WARMCORE1": Contrast(of=("T200", "T500"), width=1.0),
}
"""Contrasts by name; thresholds and fields are those of the default rules (`rules.Rivers.kurth`, `Cyclones.kurth`)."""


def surroundings(field: np.ndarray, mesh: Mesh) -> np.ndarray:
    """Mean over what is known in a box of `WINDOW` degrees around each cell; over the seam, never over a pole."""
    known = np.isfinite(field)
    if known.all():
        return _boxed(field, mesh)
    share = _boxed(known.astype(np.float64), mesh)
    with np.errstate(invalid="ignore"):
        return (_boxed(np.where(known, field, 0.0), mesh) / np.where(share > 1e-9, share, np.nan)).astype(field.dtype)


def _boxed(field: np.ndarray, mesh: Mesh) -> np.ndarray:
    from scipy.ndimage import uniform_filter1d

    rows, columns = (2 * max(1, round(WINDOW / 2 / step - 0.5)) + 1 for step in (mesh.lat_step, mesh.lon_step))
    tall = uniform_filter1d(field, rows, axis=0, mode="nearest")
    return uniform_filter1d(tall, columns, axis=1, mode="wrap" if mesh.periodic else "nearest")
