"""Losses: descriptions that become functions of (prediction, target) once the training data's statistics are known.

All take float32 predictions, whatever the network computes in. A softmax is applied here and nowhere else. Pixels that
nobody labelled (``fields.UNLABELLED``) cost nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from climlab_dl.climate.fields import UNLABELLED
from climlab_dl.training.statistics import Statistics

Loss = Callable[[Tensor, Tensor], Tensor]


def _class_weights(weighting: str, statistics: Statistics) -> Tensor:
    frequencies = np.maximum(statistics.class_frequencies, 1e-6)
    weights = {
        "none": np.ones_like(frequencies),
        "inverse": 1 / frequencies,
        "inverse_sqrt": frequencies**-0.5,
        "mlperf": frequencies**-0.125,
    }[weighting]
    # The published weights: Kurth's sum to one, MLPerf's and unit weights are used as they are.
    if weighting in ("inverse", "inverse_sqrt"):
        weights = weights / weights.sum()
    return torch.tensor(weights, dtype=torch.float32)


@dataclass(frozen=True, kw_only=True)
class WeightedCrossEntropy:
    """Cross-entropy with a weight per class, averaged over pixels and not over weights.

    Parameters
    ----------
    weighting
        From the class frequencies f of the training data: ``"inverse_sqrt"`` f^-1/2 summing to one (Kurth et al.
        2018, sec. V-B1), ``"inverse"`` 1/f summing to one (unstable in half precision, says the same section),
        ``"mlperf"`` f^-1/8 (MLPerf HPC DeepCAM reference), ``"none"``.
    scale
        Factor on the loss; Kurth et al. used 0.1 in half precision.
    """

    weighting: Literal["inverse_sqrt", "inverse", "mlperf", "none"] = "inverse_sqrt"
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.weighting not in ("inverse_sqrt", "inverse", "mlperf", "none"):
            raise ValueError(f"weighting={self.weighting!r}: choose 'inverse_sqrt', 'inverse', 'mlperf' or 'none'")
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale={self.scale!r}: choose a positive factor, 1 is usual")

    def prepare(self, statistics: Statistics) -> Loss:
        """Return the loss for data with these class frequencies."""
        weights = _class_weights(self.weighting, statistics)
        return lambda logits, mask: self.scale * weighted_cross_entropy(logits, mask, weights.to(logits.device))


@dataclass(frozen=True, kw_only=True)
class Focal:
    """Cross-entropy that fades for pixels already classified well (Lin et al. 2017, eq. 5).

    Parameters
    ----------
    gamma
        Exponent of (1 - probability of the true class); 0 gives :class:`WeightedCrossEntropy`.
    weighting
        As for :class:`WeightedCrossEntropy`.
    """

    gamma: float = 2.0
    weighting: Literal["inverse_sqrt", "inverse", "mlperf", "none"] = "none"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < math.inf:
            raise ValueError(f"gamma={self.gamma!r}: choose 0 or more, 2 is usual")
        WeightedCrossEntropy(weighting=self.weighting)

    def prepare(self, statistics: Statistics) -> Loss:
        """Return the loss for data with these class frequencies."""
        weights = _class_weights(self.weighting, statistics)
        return lambda logits, mask: focal(logits, mask, weights.to(logits.device), self.gamma)


@dataclass(frozen=True, kw_only=True)
class SoftJaccard:
    """One minus the mean over classes of a differentiable IoU, plus a share of cross-entropy.

    The IoU is that of a rank's batch, so two ranks with batches of 4 are close to one with 8, but not equal to it.

    Parameters
    ----------
    cross_entropy
        Share of the weighted cross-entropy, which has a gradient where the IoU's vanishes.
    weighting
        Of the cross-entropy, as for :class:`WeightedCrossEntropy`.
    """

    cross_entropy: float = 0.5
    weighting: Literal["inverse_sqrt", "inverse", "mlperf", "none"] = "mlperf"

    def __post_init__(self) -> None:
        if not 0 <= self.cross_entropy <= 1:
            raise ValueError(f"cross_entropy={self.cross_entropy!r}: choose a share from 0 to 1")
        WeightedCrossEntropy(weighting=self.weighting)

    def prepare(self, statistics: Statistics) -> Loss:
        """Return the loss for data with these class frequencies."""
        weights = _class_weights(self.weighting, statistics)
        share = self.cross_entropy

        def loss(logits: Tensor, mask: Tensor) -> Tensor:
            entropy = weighted_cross_entropy(logits, mask, weights.to(logits.device))
            return share * entropy + (1 - share) * soft_jaccard(logits, mask)

        return loss


@dataclass(frozen=True, kw_only=True)
class L1:
    """Mean absolute error of the parameters (Mathuriya et al. 2018)."""

    def prepare(self, statistics: Statistics) -> Loss:
        """Return the loss, for which the data's statistics do not matter."""
        del statistics
        return F.l1_loss


@dataclass(frozen=True, kw_only=True)
class MSE:
    """Mean squared error of the parameters (MLPerf HPC CosmoFlow reference)."""

    def prepare(self, statistics: Statistics) -> Loss:
        """Return the loss, for which the data's statistics do not matter."""
        del statistics
        return F.mse_loss


@dataclass(frozen=True, kw_only=True)
class GaussianNLL:
    """Negative log likelihood of a Gaussian per parameter: the network predicts means, then log variances."""

    outputs_per_target = 2

    def prepare(self, statistics: Statistics) -> Loss:
        """Return the loss, for which the data's statistics do not matter."""
        del statistics
        return gaussian_nll


def weighted_cross_entropy(
    logits: Float[Tensor, "batch classes lat lon"],
    mask: Int[Tensor, "batch lat lon"],
    class_weights: Float[Tensor, " classes"],
) -> Float[Tensor, ""]:
    """Mean over pixels of -w[mask] log softmax(logits)[mask].

    PyTorch's own weighted mean divides by the sum of weights; the papers divide by the number of pixels.
    """
    total = F.cross_entropy(logits, mask, weight=class_weights, reduction="sum", ignore_index=UNLABELLED)
    return total / mask.numel()


def focal(
    logits: Float[Tensor, "batch classes lat lon"],
    mask: Int[Tensor, "batch lat lon"],
    class_weights: Float[Tensor, " classes"],
    gamma: float,
) -> Float[Tensor, ""]:
    """Mean over pixels of -w[mask] (1 - p)^gamma log p, with p the probability of the true class."""
    log_p = -F.cross_entropy(logits, mask, reduction="none", ignore_index=UNLABELLED)
    # expm1 keeps 1 - p exact where p is close to one; the floor keeps the power's gradient finite at zero.
    missing = (-torch.expm1(log_p)).clamp_min(1e-12)
    return (-class_weights[mask.clamp_min(0)] * missing**gamma * log_p).mean()


def soft_jaccard(
    logits: Float[Tensor, "batch classes lat lon"], mask: Int[Tensor, "batch lat lon"]
) -> Float[Tensor, ""]:
    """One minus the mean over classes of sum(p t) / sum(p + t - p t) over all pixels of the batch.

    ``p`` are probabilities, ``t`` the mask as one-hot. A class that is neither predicted nor there counts 1.
    """
    known = (mask != UNLABELLED).flatten(1).unsqueeze(1)
    p = torch.softmax(logits, dim=1).flatten(2) * known
    t = F.one_hot(mask.flatten(1).clamp_min(0), logits.shape[1]).movedim(2, 1).to(p.dtype) * known
    both = (p * t).sum(dim=(0, 2))
    either = (p + t).sum(dim=(0, 2)) - both
    return 1 - ((both + 1e-6) / (either + 1e-6)).mean()


def gaussian_nll(
    prediction: Float[Tensor, "batch twice_targets"], target: Float[Tensor, "batch targets"]
) -> Float[Tensor, ""]:
    """Mean of ((target - mean)^2 / variance + log variance) / 2; the constant log(2 pi) / 2 is left out."""
    mean, log_variance = prediction.chunk(2, dim=1)
    # Bounded so that an early outlier cannot blow up the gradient: a standard deviation of e^-7 .. e^7.
    log_variance = log_variance.clamp(-14.0, 14.0)
    return 0.5 * ((target - mean).square() * torch.exp(-log_variance) + log_variance).mean()
