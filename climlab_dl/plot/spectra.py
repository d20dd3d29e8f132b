"""Linear power spectra that draws of a posterior stand for."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from climlab_dl.cosmology.linear import Cosmology, linear_power
from climlab_dl.plot.brushing import POWER, Brush

Array = NDArray[np.float64]
# h/Mpc, from the largest waves of a small box to where the power is no longer linear; and for how many draws.
K = np.geomspace(0.01, 1.0, 25)
DRAWS = 600


def known(table: pd.DataFrame) -> bool:
    """Whether a table's parameters fix a spectrum: matter, amplitude and slope."""
    return {"Omega_m", "sigma_8"} <= set(table.columns) and bool({"n_s", "N_spec"} & set(table.columns))


def of_draws(table: pd.DataFrame) -> Array:
    """P(k) today at :data:`K` of the first :data:`DRAWS` rows, in (Mpc/h)^3 (draws, wavenumbers)."""
    return np.array([of(row) for row in table.head(DRAWS).to_dict("records")])


def of(parameters: Mapping[str, float]) -> Array:
    """P(k) today at :data:`K` of one universe, in (Mpc/h)^3, with the transfer function of Eisenstein & Hu 1998."""
    return linear_power(K, Cosmology.from_named(dict(parameters)))


def panel(brush: Brush, truth: Mapping[str, float] | None, middle: Array) -> Any:
    """68% of the brush's spectra, and the true one, over ``middle``; the page moves them to what is selected.

    Between draws a spectrum changes by percents and along k a thousandfold: hence the ratio.
    """
    import holoviews as hv

    k, power = hv.Dimension("k", unit="h/Mpc"), hv.Dimension(POWER, label="linear P(k) / median")
    layers: list[Any] = []
    for run, values in brush.spectra.items():
        low, half, high = np.quantile(values, [0.16, 0.5, 0.84], axis=0)
        band = hv.Area((K, low, high), kdims=[k], vdims=[power, "top"], label=run)
        look = {"color": brush.colors[run], "alpha": 0.3, "line_alpha": 0}
        layers.append(band.opts(**look, hooks=[brush.spectrum(run, "band")]))
        line = hv.Curve((K, half), k, power, label=run)
        layers.append(line.opts(color=brush.colors[run], line_width=1.5, hooks=[brush.spectrum(run, "middle")]))
    if truth and known(pd.DataFrame([truth])):
        layers.append(hv.Curve((K, of(truth) / middle), k, power).opts(color="#111111", line_dash="dashed"))
    ends = np.quantile(np.concatenate(list(brush.spectra.values())), [0.03, 0.97], axis=0)
    ticks = [(at, f"{at:g}") for at in (0.01, 0.1, 1)]
    return hv.Overlay(layers).opts(
        ylim=(float(ends[0].min()), float(ends[1].max())), logx=True, xticks=ticks, show_legend=False, shared_axes=False
    )
