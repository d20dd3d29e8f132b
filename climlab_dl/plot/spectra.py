"""Power spectra: of a volume beside linear theory, and those that draws of a posterior stand for."""

from collections.abc import Callable, Iterable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from climlab_dl.cosmology import spectrum
from climlab_dl.cosmology.linear import Cosmology, growth, linear_power
from climlab_dl.plot import pictures
from climlab_dl.plot.brushing import POWER, Brush

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from climlab_dl.cosmology.volumes import Volume

Array = NDArray[np.float64]
# h/Mpc, from the largest waves of a small box to where the power is no longer linear; and for how many draws.
K = np.geomspace(0.01, 1.0, 25)
DRAWS = 600


def unfixed(names: Iterable[str]) -> str:
    """Say why parameters of these names fix no spectrum, for which matter, amplitude and slope are needed."""
    there = set(names)
    if unknown := Cosmology.unknown(there):
        return f"linear theory does not know {', '.join(unknown)}"
    lacking = Cosmology.lacking(there)
    return f"linear theory needs {', '.join(lacking)}" if lacking else ""


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
    if truth and not unfixed(truth):
        layers.append(hv.Curve((K, of(truth) / middle), k, power).opts(color="#111111", line_dash="dashed"))
    ends = np.quantile(np.concatenate(list(brush.spectra.values())), [0.03, 0.97], axis=0)
    ticks = [(at, f"{at:g}") for at in (0.01, 0.1, 1)]
    return hv.Overlay(layers).opts(
        ylim=(float(ends[0].min()), float(ends[1].max())), logx=True, xticks=ticks, show_legend=False, shared_axes=False
    )


def absent(names: Iterable[str]) -> Any:
    """Say in the panel's place why there is none."""
    import holoviews as hv

    said = escape(f"No power spectra here: {unfixed(names)}.")
    return hv.Div(f"<span style='font:11px sans-serif'>{said}</span>")


def power(volume: "Volume", *, path: str | Path | None = None) -> "Figure":
    """Draw P(k) of a volume at each redshift, and dashed what linear theory says of its parameters.

    Where it does not tell its redshifts, or physical parameters that linear theory knows, the legend says that there is
    no theory beside it.

    Parameters
    ----------
    volume
        With its box; whole, or P(k) leaks at the lowest wavenumbers.
    path
        Where to write it, if anywhere.

    Returns
    -------
    Figure
        Shot noise is taken out; linear theory has the transfer function of Eisenstein & Hu 1998.

    Raises
    ------
    ValueError
        If the volume does not tell its box.
    """
    from matplotlib.figure import Figure

    if volume.box_size_mpc_h is None:
        raise ValueError(
            f"{volume.source.name} does not tell its box, which P(k) needs; give it: "
            "dataclasses.replace(volume, box_size_mpc_h=128.0)"
        )
    theory, why = _theory(volume)
    figure = Figure(figsize=(6.5, 4.2), layout="constrained")
    axes = figure.subplots()
    channels = volume.counts.shape[-1]
    labels = [f"channel {n}" for n in range(channels)] if volume.redshifts is None else _named(volume.redshifts)
    for number, name in enumerate(labels):
        table = spectrum.power(volume.counts[..., number], volume.box_size_mpc_h)
        axes.plot(table["k"], table["P"], color=f"C{number}", label=name)
        if theory is not None:
            axes.plot(table["k"], theory(table["k"].to_numpy(), number), color=f"C{number}", ls="--")
    axes.set(xscale="log", yscale="log", xlabel="k (h/Mpc)", ylabel="P(k) (Mpc/h)³")
    ticks = [tick for tick in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2) if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    legend = axes.legend(frameon=False, title=why or "dashed: linear theory")
    legend.get_title().set_fontsize("small")
    axes.grid(alpha=0.3)
    return pictures.written(figure, path)


def _theory(volume: "Volume") -> tuple[Callable[[Array, int], Array] | None, str]:
    """Linear theory's P of wavenumbers and a channel's number; or None, and why."""
    if volume.physical is None or not volume.names:
        return None, "no lines of linear theory: parameters unknown"
    if volume.redshifts is None:
        return None, "no lines of linear theory: redshifts unknown"
    if lacking := unfixed(volume.names):
        return None, f"no lines: {lacking}"
    cosmology = Cosmology.from_named(volume.parameters)
    grown = growth(1 / (1 + volume.redshifts), cosmology.Omega_m).D
    return lambda k, number: grown[number] ** 2 * linear_power(k, cosmology), ""


def _named(redshifts: Array) -> list[str]:
    return [f"z = {shift:g}" for shift in redshifts]
