"""Estimates that somebody else's network made, such as the published ones: whether they are calibrated.

    estimates.as_draws(truth, found, prior=prior)    # a universe's many estimates, taken for its posterior
    estimates.crossed(truth, found, prior=prior)     # posteriors learnt from how other universes were missed

Both give a :class:`climlab_dl.inference.coverage.Calibration`.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from climlab_dl.cosmology import volumes
from climlab_dl.inference.coverage import Calibration, warn_of_few
from climlab_dl.inference.densities import LinearLikelihood
from climlab_dl.words import counted

Array = NDArray[np.float64]
Prior = Mapping[str, tuple[float, float]]


def as_draws(truth: ArrayLike, found: ArrayLike, *, prior: Prior, seed: int = 0) -> Calibration:
    """Take the estimates of a universe's parts for draws of its posterior.

    They would be, if all that the network does not know differed between the parts. What is the same in all parts, such
    as a bias at the prior's edge, makes such posteriors too narrow.

    Parameters
    ----------
    truth, found
        (estimates, parameters) in physical units; rows of one truth are one universe.
    prior
        Ends of the flat prior by parameter, in the columns' order.
    seed
        Of TARP's reference points, and of which estimates are used where universes have different numbers of them.

    Raises
    ------
    ValueError
        If the tables do not fit each other or the prior, or a universe has fewer than 20 estimates.
    """
    universes = _by_universe(truth, found, prior)
    fewest = min(len(each) for _, each in universes)
    if fewest < 20:
        found_only = counted(fewest, "estimate")
        raise ValueError(f"a universe has only {found_only}; as draws at least 20 are needed, see crossed()")
    rng = np.random.default_rng(seed)
    draws = [each[rng.permutation(len(each))[:fewest]] for _, each in universes]
    truths = np.array([one for one, _ in universes])
    return warn_of_few(Calibration(names=tuple(prior), prior=prior, truth=truths, draws=np.stack(draws), seed=seed))


def crossed(
    truth: ArrayLike, found: ArrayLike, *, prior: Prior, folds: int = 7, draws: int = 500, seed: int = 0
) -> Calibration:
    """Draw the posterior of each universe by the linear likelihood of its mean estimate, learnt from the others.

    Parameters
    ----------
    truth, found
        (estimates, parameters) in physical units; rows of one truth are one universe.
    prior
        Ends of the flat prior by parameter, in the columns' order.
    folds
        Parts of the universes; each part's likelihood is learnt from the other parts.
    draws
        Of each universe.
    seed
        Of the parts and of the draws.

    Raises
    ------
    ValueError
        If the tables do not fit each other or the prior, or there are more folds than universes.
    """
    universes = _by_universe(truth, found, prior)
    if not 2 <= folds <= len(universes):
        raise ValueError(
            f"folds = {folds} parts of {counted(len(universes), 'universe')}; choose 2 parts to one for each universe"
        )
    unit, means = (np.array(column) for column in zip(*((one, each.mean(0)) for one, each in universes), strict=True))
    order = np.random.default_rng(seed).permutation(len(unit))
    drawn = np.empty((len(unit), draws, len(prior)))
    for part in np.array_split(order, folds):
        others = np.setdiff1d(order, part)
        likelihood = LinearLikelihood.fit(means[others], unit[others])
        for index in part:
            drawn[index] = likelihood.draw(means[index][None], draws, seed + int(index))
    return warn_of_few(Calibration(names=tuple(prior), prior=prior, truth=unit, draws=drawn, seed=seed))


def _by_universe(truth: ArrayLike, found: ArrayLike, prior: Prior) -> list[tuple[Array, Array]]:
    """Truth (parameters) and estimates (estimates, parameters) of each universe, in units of the prior."""
    low, high = np.array(list(prior.values()), dtype=np.float64).T
    physical, guesses = np.asarray(truth, dtype=np.float64), np.asarray(found, dtype=np.float64)
    if physical.ndim != 2 or physical.shape != guesses.shape or physical.shape[1] != len(prior):
        raise ValueError(
            f"truth {physical.shape} and found {guesses.shape} must both be (estimates, {len(prior)}), a column for "
            f"each of {', '.join(prior)}"
        )
    if (physical < low - 1e-6).any() or (physical > high + 1e-6).any():
        raise ValueError(
            f"true parameters lie outside the prior {dict(prior)}; give the prior that they were drawn from"
        )
    unit, scaled = (volumes.to_unit(values, low, high) for values in (physical, guesses))
    rows, place = np.unique(unit, axis=0, return_inverse=True)
    return [(row, scaled[place.ravel() == number]) for number, row in enumerate(rows)]
