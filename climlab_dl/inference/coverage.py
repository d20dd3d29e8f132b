"""Whether draws mean what they say: ranks, coverage and TARP of posteriors of universes whose truth is known."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from climlab_dl.cosmology import volumes
from climlab_dl.words import counted

Array = NDArray[np.float64]
LEVELS = (0.5, 0.68, 0.9, 0.95)
# Of fewer universes the band of the ranks, 0.242 wide on either side, holds even posteriors of a third of the right
# width: at 1.57 spreads below the truth, normal ones have 0.300 of their draws where 0.058 should be.
FEWEST = 30


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """How truths lie within their posteriors.

    Few universes contradict little: with fewer than 30 (`few`), posteriors three times too narrow can pass.

    Attributes
    ----------
    names
        Of the parameters.
    truth
        (universes, parameters), in units of the prior.
    draws
        (universes, draws, parameters), in units of the prior.
    seed
        Of TARP's reference points.
    prior
        Ends of the flat prior in physical units, where known.
    """

    names: tuple[str, ...]
    truth: Array
    draws: Array
    seed: int = 0
    prior: Mapping[str, tuple[float, float]] | None = None

    def __repr__(self) -> str:
        verdict = "nothing speaks against the posteriors" if self.ok else "the posteriors are not calibrated"
        few = ", but the universes are too few to contradict much" if self.few and self.ok else ""
        p = ", ".join(f"{name} {value:.2g}" for name, value in self.p_values().items())
        universes = counted(len(self.truth), "universe")
        return f"<Calibration on {universes}: {verdict}{few}; p {p}; {self._tarp_verdict}>"

    @property
    def ranks(self) -> Array:
        """Share of the draws below the truth (universes, parameters): uniform if calibrated (Talts et al. 2018)."""
        below = (self.draws < self.truth[:, None]).sum(1) + 0.5
        return below / (self.draws.shape[1] + 1)

    def p_values(self) -> pd.Series:
        """Kolmogorov-Smirnov probability of ranks at least this uneven, for each parameter."""
        from scipy.stats import kstest

        return pd.Series([kstest(ranks, "uniform").pvalue for ranks in self.ranks.T], index=list(self.names), name="p")

    def rank_band(self, levels: Array) -> tuple[Array, Array]:
        """Between which shares the whole distribution of calibrated ranks stays, 95 times of 100."""
        return uniform_band(levels, len(self.truth))

    def coverage(self, levels: tuple[float, ...] = LEVELS) -> pd.DataFrame:
        """Share of the universes whose truth is in the central interval of each level.

        Returns
        -------
        pd.DataFrame
            A row a level; columns are the parameters, and ``low`` and ``high``: between them 95% of calibrated
            posteriors would lie, by the binomial distribution.
        """
        inside = [np.mean(np.abs(self.ranks - 0.5) < level / 2, axis=0) for level in levels]
        table = pd.DataFrame(inside, index=pd.Index(levels, name="level"), columns=list(self.names))
        table["low"], table["high"] = binomial_band(np.asarray(levels), len(self.truth))
        return table

    def tarp(self) -> pd.DataFrame:
        """Joint coverage of all parameters by distance from random points.

        Returns
        -------
        pd.DataFrame
            ``level`` of credibility, ``coverage`` expected to equal it, and its 95% ``low`` and ``high``.

        References
        ----------
        Lemos et al. 2023, Sampling-based accuracy testing of posterior estimators, algorithm 2; references are drawn
        from the prior.
        """
        # A stream of its own: references that follow the truths, because both were drawn from one seed, prove nothing.
        own = np.random.SeedSequence(self.seed, spawn_key=(0x7A29,))
        reference = np.random.default_rng(own).uniform(-1, 1, self.truth.shape)
        from_truth = np.linalg.norm(self.truth - reference, axis=1)
        from_draws = np.linalg.norm(self.draws - reference[:, None], axis=2)
        credibility = np.mean(from_draws < from_truth[:, None], axis=1)
        levels = np.linspace(0, 1, 51)
        coverage = np.searchsorted(np.sort(credibility), levels, side="right") / len(credibility)
        low, high = uniform_band(levels, len(credibility))
        return pd.DataFrame({"level": levels, "coverage": coverage, "low": low, "high": high})

    @property
    def _tarp_verdict(self) -> str:
        return "TARP inside its band" if self.tarp_ok else "TARP outside its band"

    @property
    def tarp_ok(self) -> bool:
        """Whether TARP's whole curve is within the band that holds 95% of calibrated ones."""
        table = self.tarp()
        return bool(((table["coverage"] >= table["low"]) & (table["coverage"] <= table["high"])).all())

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the posteriors: each p above 0.05 over their number, TARP in its band.

        That is no praise where there are but few universes to speak (`few`).
        """
        return bool((self.p_values() > 0.05 / len(self.names)).all()) and self.tarp_ok

    @property
    def few(self) -> bool:
        """Whether there are too few universes for the tests to find anything but the grossest faults."""
        return len(self.truth) < FEWEST

    def in_physical(self, unit: Array) -> Array:
        """Convert from units of the prior (..., parameters) to physical ones; as they are if the prior is not known."""
        if self.prior is None:
            return unit
        low, high = np.array([self.prior[name] for name in self.names]).T
        return volumes.to_physical(unit, low, high)

    def errors(self) -> pd.DataFrame:
        """Errors of the posterior means, beside the posteriors' spread and the prior's.

        Returns
        -------
        pd.DataFrame
            A row a parameter; ``rmse``, ``bias`` (mean less truth), ``posterior std`` and ``prior std``, all in units
            of the prior: its half-width is 1, so that a flat prior's own spread is 0.577.
        """
        means = self.draws.mean(1)
        table = pd.DataFrame(index=pd.Index(self.names, name="parameter"))
        table["rmse"] = np.sqrt(np.mean((means - self.truth) ** 2, axis=0))
        table["bias"] = np.mean(means - self.truth, axis=0)
        table["posterior std"] = np.sqrt(np.mean(self.draws.var(1), axis=0))
        table["prior std"] = 1 / np.sqrt(3)
        return table

    def table(self) -> pd.DataFrame:
        """Errors, p-values and coverage.

        Returns
        -------
        pd.DataFrame
            A row a parameter: the columns of `errors`, in half-widths of the prior; ``p`` of `p_values`; and the shares
            of universes whose truth the central 68% and 95% intervals hold.
        """
        table = self.errors().rename_axis(columns="errors in half-widths of the prior")
        table["p"] = self.p_values()
        for level, row in self.coverage((0.68, 0.95)).iterrows():
            table[f"covered by {level:.0%}"] = row[list(self.names)]
        return table


def warn_of_few(checked: Calibration) -> Calibration:
    """Give a calibration back, and warn where its universes say nothing against it and are too few to say much."""
    if checked.few and checked.ok:
        warnings.warn(
            f"{counted(len(checked.truth), 'universe')} of known parameters can hardly tell whether posteriors are "
            f"calibrated: even three times too narrow ones may pass; give at least {FEWEST}",
            stacklevel=3,
        )
    return checked


def binomial_band(levels: Array, universes: int, share: float = 0.95) -> tuple[Array, Array]:
    """Between which shares of the universes a calibrated coverage lies at each level."""
    from scipy.stats import binom

    return binom.ppf((1 - share) / 2, universes, levels) / universes, binom.ppf(
        (1 + share) / 2, universes, levels
    ) / universes


def uniform_band(levels: Array, universes: int, share: float = 0.95) -> tuple[Array, Array]:
    """Band around the diagonal within which a whole empirical distribution of a uniform variable stays."""
    from scipy.stats import kstwo

    width = kstwo.ppf(share, universes)
    return np.clip(levels - width, 0, 1), np.clip(levels + width, 0, 1)
