"""From a trained CosmoFlow to calibrated posteriors of the parameters of one universe.

    fitted = posterior.fit("runs/cosmoflow")          # on universes that the network never trained on
    draws = posterior.draw(fitted, volume, n=10_000)  # a table: Omega_m, sigma_8, n_s

The same seed gives the same draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from climlab_dl import cards
from climlab_dl.cosmology import spectrum, volumes
from climlab_dl.cosmology.volumes import Volume
from climlab_dl.inference.densities import FlowLikelihood, Likelihood, LinearLikelihood, log_posterior, require_enough
from climlab_dl.inference.sharing import warn_of_others
from climlab_dl.inference.summaries import Summaries

Array = NDArray[np.float64]
Method = Literal["auto", "flow", "linear"]

# Below so many calibration universes a spline flow learns the universes by heart and its posteriors are too narrow.
FEWEST_FOR_FLOW = 200
# To take the mean of: its own error is then a twentieth of the posterior's spread.
MEAN_DRAWS = 500


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """What is known of the parameters once a volume has been seen.

    Attributes
    ----------
    summaries
        The trained network, frozen.
    low, high
        Ends of the flat prior, in physical units.
    likelihood
        Of the network's estimates given the parameters.
    method
        Which likelihood it is and how many universes it was fitted on, in words.
    """

    summaries: Summaries
    low: Array
    high: Array
    likelihood: Likelihood = field(repr=False)
    method: str

    def _repr_html_(self) -> str:
        prior = [f"{name} {low:g} to {high:g}" for name, (low, high) in self.prior.items()]
        return cards.card({"networks": self.summaries.sources, "method": self.method, "prior": prior}, "Posterior")

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters."""
        return self.summaries.names

    @property
    def prior(self) -> dict[str, tuple[float, float]]:
        """Ends of the flat prior by parameter."""
        ends = zip(self.low.tolist(), self.high.tolist(), strict=True)
        return dict(zip(self.names, ends, strict=True))

    def summary(self, volume: Volume) -> Array:
        """Estimates of the network in units of the prior."""
        return self.to_unit(self.summaries(volume))

    def to_unit(self, physical: Array) -> Array:
        """Physical values to units of the prior, -1 to 1."""
        return volumes.to_unit(physical, self.low, self.high)

    def to_physical(self, unit: Array) -> Array:
        """Units of the prior to physical values."""
        return volumes.to_physical(unit, self.low, self.high)


def fit(
    run: str | Path | Sequence[str | Path] | Summaries,
    calibration: volumes.Source | None = None,
    *,
    method: Method = "auto",
    prior: Mapping[str, tuple[float, float]] | None = None,
    symmetries: int = 8,
    refit: bool = False,
    seed: int = 0,
) -> Posterior:
    """Learn how the network's estimates scatter around the truth.

    Parameters
    ----------
    run
        A run's folder, a checkpoint, or a loaded network; several folders or checkpoints make an ensemble.
    calibration
        Universes that the network has not trained on; the run's own calibration split if None.
    method
        ``"linear"``: estimates linear in the parameters with Gaussian scatter of unknown size, for few universes.
        ``"flow"``: a conditional spline flow on top, for any shape of scatter, from 200 universes. ``"auto"`` chooses
        by their number; ``Posterior.method`` says which it was.
    prior
        Low and high end of the flat prior that the universes were drawn from, by parameter and in its unit; if None,
        from the files' ``unitPar`` and ``physPar``.
    symmetries
        Over how many of the cube's 48 symmetries the network's estimates are averaged.
    refit
        Fit the network's last layer anew to the universes that it was trained on (``Summaries.refitted``), one pass
        over them.
    seed
        Of the flow's training.

    Raises
    ------
    ValueError
        If there is no run, or there are no calibration universes, or too few, or they do not tell their parameters or
        lie outside the prior, or the prior lacks a parameter or holds nothing.
    TypeError
        If a run or the calibration universes are none of these.
    """
    if method not in ("auto", "flow", "linear"):
        raise ValueError(f"method = {method!r} is not known; choose auto, flow or linear")
    if isinstance(run, Summaries):
        network = run
    else:
        paths = list(run) if isinstance(run, Sequence) and not isinstance(run, str) else [run]
        if not paths:
            raise ValueError("run is empty: give a run's folder or a checkpoint, or several for an ensemble")
        network = Summaries.load(*paths, symmetries=symmetries)
    for name, (low, high) in (prior or {}).items():
        if not -np.inf < low < high < np.inf:
            raise ValueError(f"prior[{name!r}] = ({low}, {high}); give two numbers, the low end first")
    if prior is not None and (absent := [name for name in network.names if name not in prior]):
        unknown = [name for name in prior if name not in network.names]
        other = f", and {', '.join(unknown)} is no parameter of the network" if unknown else ""
        raise ValueError(f"prior has no {', '.join(absent)}{other}; give both ends of {', '.join(network.names)}")
    if refit:
        network = network.refitted(network.universes()["training"])
    if calibration is None:
        calibration = network.universes()["calibration"]
        if not calibration:
            raise ValueError(
                f"{network.source} was trained with no calibration split; train with Universes(calibration=0.2), or "
                "pass calibration= universes that it has not seen (on its own training data it is too sure)"
            )
    estimates, physical, unit = network.of(calibration, prior)
    require_enough(len(unit), len(network.names), estimates.shape[1])
    if prior is None:
        low, high = volumes.scaling(unit, physical, network.names)
    else:
        low, high = np.array([prior[name] for name in network.names], dtype=np.float64).T
    summaries = volumes.to_unit(estimates, low, high)
    use_flow = method == "flow" or (method == "auto" and len(unit) >= FEWEST_FOR_FLOW)
    likelihood = FlowLikelihood.fit(summaries, unit, seed) if use_flow else LinearLikelihood.fit(summaries, unit)
    words = "spline flow likelihood" if use_flow else "linear likelihood with Student-t scatter"
    method_used = f"{words}, from {len(unit)} universes, times the flat prior"
    return Posterior(summaries=network, low=low, high=high, likelihood=likelihood, method=method_used)


def draw(posterior: Posterior, volume: volumes.Source, n: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """Draw from the posterior of one universe, or of several that share their parameters.

    A warning in the log says so where the files of several tell that their parameters differ, or the network's
    estimates do by more than chance allows (p < 0.001), where the network was trained on one, where cells, box or mean
    count of a volume are not like the training's, and what is assumed where its file does not tell.

    Parameters
    ----------
    posterior
        From :func:`fit`.
    volume
        A volume, or the file of one; or several with independent phases, whose likelihoods are multiplied.
    n
        Number of draws.
    seed
        The same seed gives the same draws.

    Returns
    -------
    pd.DataFrame
        A row a draw, a column a parameter (Omega_m, sigma_8 and n_s have no unit, H_0 is in km/s/Mpc);
        ``attrs["prior"]`` holds the prior's ends and ``attrs["method"]`` how it was fitted.

    Raises
    ------
    ValueError
        If a volume holds what cannot be counts, such as a density contrast, or lacks redshifts of the training.
    """
    if n < 1:
        raise ValueError(f"n = {n} draws cannot be made; ask for at least one")
    unit = posterior.likelihood.draw(_summaries(posterior, volume), n, seed)
    draws = pd.DataFrame(posterior.to_physical(unit), columns=list(posterior.names))
    draws.attrs = {"prior": posterior.prior, "method": posterior.method}
    return draws


def log_prob(posterior: Posterior, volume: volumes.Source, parameters: pd.DataFrame) -> Array:
    """Log-density of parameters given a volume, or several that share them.

    Parameters
    ----------
    posterior, volume
        As for :func:`draw`.
    parameters
        A row a point, in physical units; a column for each of ``posterior.names``.

    Returns
    -------
    ndarray
        For each row, the natural logarithm of the normalised density per unit of the parameters; -inf outside the
        prior.
    """
    unit = posterior.to_unit(parameters[list(posterior.names)].to_numpy(dtype=np.float64))
    jacobian = np.log(2 / (posterior.high - posterior.low)).sum()
    return log_posterior(posterior.likelihood, _summaries(posterior, volume), unit) + jacobian


def intervals(draws: pd.DataFrame, levels: tuple[float, ...] = (0.68, 0.95)) -> pd.DataFrame:
    """Median, mean, standard deviation and central credible intervals of each parameter, a row each.

    Parameters
    ----------
    draws
        From :func:`draw`: a column a parameter, whose units the table keeps.
    levels
        Of the intervals, as shares: 0.68 gives the columns "68% low" and "68% high".
    """
    table = pd.DataFrame({"median": draws.median(), "mean": draws.mean(), "std": draws.std()})
    for level in levels:
        ends = draws.quantile([(1 - level) / 2, (1 + level) / 2])
        table[f"{level:.0%} low"], table[f"{level:.0%} high"] = ends.iloc[0], ends.iloc[1]
    return table.rename_axis("parameter")


def held_out(posterior: Posterior) -> list[Volume]:
    """Read the universes that neither the network nor the posterior has seen.

    Raises
    ------
    ValueError
        If the training held none out.
    """
    files = posterior.summaries.universes()["held_out"]
    if not files:
        raise ValueError(
            f"{posterior.summaries.source} was trained with no universes held out; train with Universes(held_out=0.2), "
            "or read others with volumes.read"
        )
    return list(volumes.open(files))


def accuracy(posterior: Posterior) -> pd.DataFrame:
    """Errors on the held-out universes, beside those of classical summaries and of who has seen nothing.

    Returns
    -------
    pd.DataFrame
        Root-mean-square error in physical units by method ("posterior mean", "network, raw", "ridge ln P", "ridge ln P
        + PDF", "prior") and parameter. The network and the ridges learnt from the same training universes and
        redshifts, whose mean the prior predicts; the posterior mean is what the posterior makes of the raw network.

    Raises
    ------
    ValueError
        If the training held no universes out.
    """
    files = posterior.summaries.universes()
    estimates, physical, _ = posterior.summaries.of(files["held_out"], posterior.prior)
    units = posterior.to_unit(estimates)
    means = [posterior.likelihood.draw(one[None], MEAN_DRAWS, seed).mean(0) for seed, one in enumerate(units)]
    found = {"posterior mean": posterior.to_physical(np.array(means)), "network, raw": estimates}
    errors = {method: np.sqrt(np.mean((each - physical) ** 2, axis=0)) for method, each in found.items()}
    network = pd.DataFrame.from_dict(errors, orient="index", columns=list(posterior.names))
    seen = [map(posterior.summaries.at, volumes.open(files[part])) for part in ("training", "held_out")]
    others = spectrum.baselines(*seen)[list(posterior.names)]
    table = pd.concat([network, others.loc[["ridge ln P", "ridge ln P + PDF", "prior"]]])
    return table.rename_axis("root mean square error")


def _summaries(posterior: Posterior, volume: volumes.Source) -> Array:
    sources, told, found = [], [], []
    for one in volumes.open(volume):
        posterior.summaries.warn(one)
        sources.append(one.source)
        told.append(one.physical)
        found.append(posterior.summary(one))
    if not found:
        raise ValueError("there is no volume to draw the posterior of; give one, its file, or several")
    posterior.summaries.warn_of_learnt(sources)
    summaries = np.array(found)
    warn_of_others(sources, told, summaries, posterior.likelihood, posterior.names)
    return summaries
