"""Conditional densities of parameters given summaries, both in units of the prior (-1 to 1).

Two ways, for many calibration universes and for few. Both know the flat prior's edges exactly: the flow by working with
the logit of the place between them, the linear likelihood by multiplying with it.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Density(Protocol):
    """What a posterior needs: draws and log-probabilities of parameters in (-1, 1), given one summary."""

    def draw(self, summary: Array, n: int, seed: int) -> Array:
        """Draws (n, parameters)."""
        ...

    def log_prob(self, summary: Array, unit: Array) -> Array:
        """Log-probability per unit of prior volume of each row of ``unit``; -inf outside the prior."""
        ...


@dataclass(frozen=True, kw_only=True)
class LinearLikelihood:
    """Summaries that are linear in the parameters, with Gaussian scatter of which a few universes tell the size.

    The likelihood of a summary is a multivariate t: scatter and coefficients are integrated over with their
    Jeffreys prior, so that with few calibration universes the posterior is as much wider as it has to be. It is
    multiplied by the flat prior.

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
        freedom = universes - parameters - 1 - summaries.shape[1] + 1
        if freedom < 3:
            raise ValueError(
                f"{universes} calibration universes are too few for {parameters} parameters and {summaries.shape[1]} "
                f"summaries; give at least {parameters + summaries.shape[1] + 3}"
            )
        design = np.column_stack([np.ones(universes), unit])
        coefficients = np.linalg.lstsq(design, summaries, rcond=None)[0].astype(np.float64)
        residual = summaries - design @ coefficients
        # The coefficients' own uncertainty widens the scatter by x' (X'X)^-1 x, on average over the design p / n.
        widened = 1 + design.shape[1] / universes
        return cls(coefficients=coefficients, scatter=residual.T @ residual * widened / freedom, freedom=freedom)

    def draw(self, summary: Array, n: int, seed: int) -> Array:
        """Draws (n, parameters), each the end of its own Gibbs chain."""
        from scipy.special import ndtr, ndtri

        rng = np.random.default_rng(seed)
        slope, weight = self.coefficients[1:].T, np.linalg.inv(self.scatter)
        offset = summary - self.coefficients[0]
        precision, target = slope.T @ weight @ slope, slope.T @ weight @ offset
        unit = rng.uniform(-1, 1, (n, len(precision)))
        for _ in range(_SWEEPS):
            miss = offset - unit @ slope.T
            distance = np.einsum("ni,ij,nj->n", miss, weight, miss)
            # A t is a Gaussian whose precision is itself drawn: given the miss, from a gamma distribution.
            scale = rng.gamma((self.freedom + len(weight)) / 2, 2 / (self.freedom + distance))
            for i in range(len(precision)):
                others = unit @ precision[i] - unit[:, i] * precision[i, i]
                middle = (target[i] - others) / precision[i, i]
                width = 1 / np.sqrt(scale * precision[i, i])
                # Mirrored so that the tail that is left is the lower one, where the distribution function is exact.
                side = np.where(middle > 0, 1.0, -1.0)
                low, high = ndtr((-1 - side * middle) / width), ndtr((1 - side * middle) / width)
                place = ndtri(low + rng.uniform(size=n) * (high - low))
                unit[:, i] = np.clip(side * (side * middle + width * place), -1, 1)
        return unit

    def log_prob(self, summary: Array, unit: Array) -> Array:
        """Log-probability, normalised over the prior by quasi-random integration."""
        from scipy.special import logsumexp
        from scipy.stats import qmc

        parameters = unit.shape[1]
        points = 2 * qmc.Sobol(parameters, rng=0).random_base2(16) - 1
        evidence = logsumexp(self._likelihood(summary, points)) - np.log(len(points))
        inside = np.all(np.abs(unit) <= 1, axis=1)
        volume = parameters * np.log(2)
        return np.where(inside, self._likelihood(summary, unit) - evidence - volume, -np.inf)

    def _likelihood(self, summary: Array, unit: Array) -> Array:
        miss = summary - self.coefficients[0] - unit @ self.coefficients[1:]
        distance = np.einsum("ni,ij,nj->n", miss, np.linalg.inv(self.scatter), miss)
        return -(self.freedom + len(summary)) / 2 * np.log1p(distance / self.freedom)


_SWEEPS = 60
_LOGISTIC_STD = np.pi / np.sqrt(3)  # of the logit of a uniform variable


@dataclass(frozen=True, kw_only=True, eq=False)
class Flow:
    """Conditional neural spline flow over the logit of the place within the prior.

    References
    ----------
    Durkan et al. 2019, Neural Spline Flows, sec. 3 (as in the package zuko).
    """

    flow: torch.nn.Module
    centre: Array
    scale: Array
    validation_loss: float

    @classmethod
    def fit(cls, summaries: Array, unit: Array, seed: int = 0, *, epochs: int = 400, patience: int = 30) -> "Flow":
        """Maximise the likelihood on four fifths of the universes, stopping where the last fifth is likeliest."""
        centre, scale = summaries.mean(0), summaries.std(0)
        context = torch.as_tensor((summaries - centre) / scale, dtype=torch.float32)
        places = torch.as_tensor(_logit(unit), dtype=torch.float32)
        order = torch.randperm(len(unit), generator=torch.Generator().manual_seed(seed))
        held, used = order[: len(unit) // 5], order[len(unit) // 5 :]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            flow = build_flow(unit.shape[1], summaries.shape[1])
            optimizer = torch.optim.AdamW(flow.parameters(), lr=3e-3, weight_decay=1e-3)
            best, kept, since = np.inf, flow.state_dict(), 0
            for _ in range(epochs):
                for batch in used[torch.randperm(len(used))].split(64):
                    loss = -flow(context[batch]).log_prob(places[batch]).mean()
                    optimizer.zero_grad()
                    loss.backward()
                    torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
                    optimizer.step()
                with torch.no_grad():
                    score = -flow(context[held]).log_prob(places[held]).mean().item()
                since += 1
                if score < best:
                    best, since = score, 0
                    kept = {name: value.clone() for name, value in flow.state_dict().items()}
                if since >= patience:
                    break
        flow.load_state_dict(kept)
        return cls(flow=flow.eval(), centre=centre, scale=scale, validation_loss=best)

    def draw(self, summary: Array, n: int, seed: int) -> Array:
        """Draws (n, parameters)."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            places = self.flow(self._context(summary)).sample((n,)).double().numpy()
        return np.tanh(places * _LOGISTIC_STD / 2)

    def log_prob(self, summary: Array, unit: Array) -> Array:
        """Log-probability, with the logit's Jacobian."""
        inside = np.all(np.abs(unit) < 1, axis=1)
        safe = np.where(inside[:, None], unit, 0.0)
        places = torch.as_tensor(_logit(safe), dtype=torch.float32)
        with torch.no_grad():
            base = self.flow(self._context(summary)).log_prob(places).double().numpy()
        jacobian = np.log(2 / (_LOGISTIC_STD * (1 - safe**2))).sum(1)
        return np.where(inside, base + jacobian, -np.inf)

    def _context(self, summary: Array) -> torch.Tensor:
        return torch.as_tensor((summary - self.centre) / self.scale, dtype=torch.float32)


def build_flow(parameters: int, summaries: int) -> torch.nn.Module:
    """Three spline transforms: enough for a unimodal posterior, few enough for hundreds of universes."""
    from zuko.flows import NSF

    return NSF(parameters, summaries, transforms=3, bins=8, hidden_features=(32, 32))


def _logit(unit: Array) -> Array:
    """Place in (-1, 1) to the real line, with unit variance over the prior."""
    edge = 1 - 1e-6
    return 2 * np.arctanh(np.clip(unit, -edge, edge)) / _LOGISTIC_STD
