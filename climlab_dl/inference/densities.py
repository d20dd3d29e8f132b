"""Likelihoods of a network's estimates, learnt from universes of known parameters, and draws from the posterior.

A likelihood times the flat prior is the posterior: the prior's edges are exact whatever was learnt, and several volumes
of the same parameters combine by multiplying their likelihoods. Parameters are in units of the prior, -1 to 1.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from climlab_dl.words import counted

Array = NDArray[np.float64]

_SWEEPS = 40
# Draws of the linear likelihood from which each draw of the flow's is chosen.
_PROPOSALS = 3


def fewest_universes(parameters: int, summaries: int) -> int:
    """How many universes fix a likelihood: with 3 degrees of freedom its t distribution has a variance."""
    return parameters + summaries + 3


def require_enough(universes: int, parameters: int, summaries: int) -> None:
    """Refuse fewer calibration universes than fix a likelihood.

    Raises
    ------
    ValueError
        Saying how many there are, and how many are needed.
    """
    if universes < (needed := fewest_universes(parameters, summaries)):
        raise ValueError(
            f"too few calibration universes for {counted(parameters, 'parameter')} and "
            f"{counted(summaries, 'summary', 'summaries')}: found {universes}; give at least {needed}"
        )


class Likelihood(Protocol):
    """What a posterior needs of a likelihood."""

    def log_likelihood(self, summary: Array, unit: Array) -> Array:
        """Log-likelihood of one summary for each row of parameters (rows, parameters)."""
        ...

    def draw(self, summaries: Array, n: int, seed: int) -> Array:
        """Draws (n, parameters) from the posterior of volumes (volumes, summaries) of the same parameters."""
        ...

    def agreement(self, summaries: Array) -> float:
        """Probability that volumes (volumes, summaries) of the same parameters lie at least as far apart; 1 of one."""
        ...

    def distances(self, summaries: Array) -> Array:
        """How far each volume lies from the mean of the others, over the scatter of this difference (two or more)."""
        ...


@dataclass(frozen=True, kw_only=True)
class LinearLikelihood:
    """Summaries that are linear in the parameters, with Gaussian scatter of which a few universes tell the size.

    The likelihood of a summary is a multivariate t: scatter and coefficients are integrated over with their
    Jeffreys prior, so that with few calibration universes the posterior is as much wider as it has to be.

    References
    ----------
    Gelman et al., Bayesian Data Analysis (3rd ed.), sec. 14.2 and 15.5, for the predictive distribution of a
    multivariate regression; Geweke 1991 for drawing from a truncated one by Gibbs steps.
    """

    coefficients: Array  # (1 + parameters, summaries), intercept first
    scatter: Array  # (summaries, summaries): the t distribution's scale matrix
    freedom: int

    @classmethod
    def fit(cls, summaries: Array, unit: Array) -> "LinearLikelihood":
        """Regress summaries on parameters (each: universes, columns)."""
        universes, parameters = unit.shape
        freedom = universes - parameters - summaries.shape[1]
        require_enough(universes, parameters, summaries.shape[1])
        design = np.column_stack([np.ones(universes), unit])
        coefficients = np.linalg.lstsq(design, summaries, rcond=None)[0].astype(np.float64)
        residual = summaries - design @ coefficients
        # The coefficients' own uncertainty widens the scatter by x' (X'X)^-1 x, on average over the design p / n.
        widened = 1 + design.shape[1] / universes
        scatter = np.asarray(residual.T @ residual * widened / freedom, dtype=np.float64)
        return cls(coefficients=coefficients, scatter=scatter, freedom=freedom)

    def predict(self, unit: Array) -> Array:
        """Summaries expected for each row of parameters."""
        return self.coefficients[0] + unit @ self.coefficients[1:]

    def log_likelihood(self, summary: Array, unit: Array) -> Array:
        """Multivariate t, less its constant."""
        miss = summary - self.predict(unit)
        distance = np.einsum("ni,ij,nj->n", miss, np.linalg.inv(self.scatter), miss)
        return -(self.freedom + miss.shape[1]) / 2 * np.log1p(distance / self.freedom)

    def draw(self, summaries: Array, n: int, seed: int) -> Array:
        """Draw by Gibbs steps, each draw the end of its own chain."""
        rng = np.random.default_rng(seed)
        slope, weight = self.coefficients[1:].T, np.linalg.inv(self.scatter)
        offsets = summaries - self.coefficients[0]
        precision, targets = slope.T @ weight @ slope, offsets @ weight @ slope
        unit = rng.uniform(-1, 1, (n, len(precision)))
        for _ in range(_SWEEPS):
            miss = offsets - (unit @ slope.T)[:, None]
            distance = np.einsum("nvi,ij,nvj->nv", miss, weight, miss)
            # A t is a Gaussian whose precision is itself drawn: given the miss, from a gamma distribution.
            scales = rng.gamma((self.freedom + len(weight)) / 2, 2 / (self.freedom + distance))
            scale, target = scales.sum(1), scales @ targets
            for i in range(len(precision)):
                others = scale * (unit @ precision[i] - unit[:, i] * precision[i, i])
                middle = (target[:, i] - others) / (scale * precision[i, i])
                width = 1 / np.sqrt(scale * precision[i, i])
                unit[:, i] = _truncated_normal(middle, width, rng)
        return unit

    def agreement(self, summaries: Array) -> float:
        """F test of the volumes' chi-square around their mean: the scatter is itself an estimate.

        Exact for one summary or two volumes (Hotelling 1931), but for the coefficients' share of the scatter, which the
        volumes have in common; for more it is careful and calls what is improbable less so.
        """
        from scipy.stats import f

        miss = summaries - summaries.mean(0)
        squares = np.einsum("vi,ij,vj->", miss, np.linalg.inv(self.scatter), miss)
        terms = (len(summaries) - 1) * summaries.shape[1]
        return float(f.sf(squares / terms, terms, self.freedom)) if terms else 1.0

    def distances(self, summaries: Array) -> Array:
        """From the mean of the others, which is V / (V - 1) as far as that of all, and itself scatters."""
        wider = np.sqrt(len(summaries) / (len(summaries) - 1))
        return (summaries - summaries.mean(0)) * wider / np.sqrt(np.diag(self.scatter))


@dataclass(frozen=True, kw_only=True, eq=False)
class FlowLikelihood:
    """A conditional neural spline flow for what the linear likelihood leaves over: curvature, skewness, tails.

    References
    ----------
    Papamakarios et al. 2019, Sequential neural likelihood (one round of it); Durkan et al. 2019, Neural spline flows
    (as in the package zuko); draws by sampling-importance-resampling from the linear likelihood's (Rubin 1988).
    """

    linear: LinearLikelihood
    whiten: Array
    flow: torch.nn.Module
    score: float

    @classmethod
    def fit(
        cls, summaries: Array, unit: Array, seed: int = 0, *, epochs: int = 300, patience: int = 25
    ) -> "FlowLikelihood":
        """Maximise the likelihood on four fifths of the universes, stopping where the last fifth is likeliest."""
        linear = LinearLikelihood.fit(summaries, unit)
        whiten = np.asarray(np.linalg.inv(np.linalg.cholesky(linear.scatter)).T, dtype=np.float64)
        rest = torch.as_tensor((summaries - linear.predict(unit)) @ whiten, dtype=torch.float32)
        context = torch.as_tensor(unit, dtype=torch.float32)
        order = torch.randperm(len(unit), generator=torch.Generator().manual_seed(seed))
        held, used = order[: len(unit) // 5], order[len(unit) // 5 :]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            flow = build_flow(summaries.shape[1], unit.shape[1])
            optimizer = torch.optim.AdamW(flow.parameters(), lr=3e-3, weight_decay=1e-2)
            best, kept, since = np.inf, flow.state_dict(), 0
            for _ in range(epochs):
                for batch in used[torch.randperm(len(used))].split(64):
                    loss = -flow(context[batch]).log_prob(rest[batch]).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
                    optimizer.step()
                with torch.no_grad():
                    score = -flow(context[held]).log_prob(rest[held]).mean().item()
                since += 1
                if score < best:
                    best, since = score, 0
                    kept = {name: value.clone() for name, value in flow.state_dict().items()}
                if since >= patience:
                    break
        flow.load_state_dict(kept)
        return cls(linear=linear, whiten=whiten, flow=flow.eval(), score=-best)

    def log_likelihood(self, summary: Array, unit: Array) -> Array:
        """Flow's log-density of the whitened rest, less a constant."""
        rest = torch.as_tensor((summary - self.linear.predict(unit)) @ self.whiten, dtype=torch.float32)
        with torch.no_grad():
            return self.flow(torch.as_tensor(unit, dtype=torch.float32)).log_prob(rest).double().numpy()

    def draw(self, summaries: Array, n: int, seed: int) -> Array:
        """Draw from the linear likelihood's posterior and keep draws in proportion to the ratio of the two."""
        proposals = self.linear.draw(summaries, _PROPOSALS * n, seed)
        ratio = np.zeros(len(proposals))
        for summary in summaries:
            ratio += self.log_likelihood(summary, proposals) - self.linear.log_likelihood(summary, proposals)
        weights = np.exp(ratio - ratio.max())
        # Systematic resampling: each proposal is kept as often as its share says, to within one.
        rng = np.random.default_rng(seed)
        marks = (np.arange(n) + rng.uniform()) / n
        chosen = np.searchsorted(np.cumsum(weights) / weights.sum(), marks)
        return rng.permutation(proposals[np.minimum(chosen, len(proposals) - 1)])

    def agreement(self, summaries: Array) -> float:
        """Of the linear likelihood, whose scatter holds what the flow makes narrower."""
        return self.linear.agreement(summaries)

    def distances(self, summaries: Array) -> Array:
        """Of the linear likelihood."""
        return self.linear.distances(summaries)


def build_flow(summaries: int, parameters: int) -> torch.nn.Module:
    """Two spline transforms: the rest is nearly normal, and hundreds of universes teach no more."""
    from zuko.flows import NSF

    return NSF(summaries, parameters, transforms=2, bins=6, hidden_features=(32, 32))


def log_posterior(likelihood: Likelihood, summaries: Array, unit: Array) -> Array:
    """Log-density per unit of prior volume (in units of -1 to 1) of each row of parameters; -inf outside the prior.

    Normalised by quasi-random integration over the prior, refined where the posterior is.
    """
    from scipy.special import logsumexp
    from scipy.stats import qmc

    def joint(points: Array) -> Array:
        return np.sum([likelihood.log_likelihood(summary, points) for summary in summaries], axis=0)

    draws = likelihood.draw(summaries, 1000, seed=0)
    spread = np.ptp(draws, axis=0)
    low, high = np.maximum(draws.min(0) - spread / 4, -1), np.minimum(draws.max(0) + spread / 4, 1)
    points = low + (high - low) * qmc.Sobol(unit.shape[1], rng=0).random_base2(14)
    evidence = logsumexp(joint(points)) - np.log(len(points)) + np.log(high - low).sum()
    inside = np.all(np.abs(unit) <= 1, axis=1)
    return np.where(inside, joint(unit) - evidence, -np.inf)


def _truncated_normal(middle: Array, width: Array, rng: np.random.Generator) -> Array:
    """Draw from normal distributions cut to (-1, 1), by the inverse of their distribution function."""
    from scipy.special import ndtr, ndtri

    # Mirrored so that the tail that is left is the lower one, where the distribution function is exact.
    side = np.where(middle > 0, 1.0, -1.0)
    low, high = ndtr((-1 - side * middle) / width), ndtr((1 - side * middle) / width)
    place = ndtri(low + rng.uniform(size=len(middle)) * (high - low))
    return np.clip(side * (side * middle + width * place), -1, 1)
