"""What networks have at their end that find numbers instead of classes: standardised features, bounded targets."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Standardise(nn.Module):
    """Less the mean and over the spread of what was seen in training; the same in training and afterwards.

    Batch normalisation would subtract the batch's own mean, which says much of what the batch's universes are like. The
    spread is that within batches: over several batches it would hold the drift of the means while weights change, and
    shrink when they come to rest.
    """

    def __init__(self, features: int, memory: int = 50):
        super().__init__()
        self.memory = memory
        self.mean: Tensor
        self.variance: Tensor
        self.batches: Tensor
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))
        self.register_buffer("batches", torch.zeros(()))

    def forward(self, features: Float[Tensor, "batch features"]) -> Float[Tensor, "batch features"]:
        """Standardise by what the last ``memory`` batches or so were like."""
        if self.training and len(features) > 1:
            with torch.no_grad():
                self.batches += 1
                weight = (1 / self.batches).clamp_min(1 / self.memory)
                self.mean.lerp_(features.mean(0), weight)
                self.variance.lerp_(features.var(0), weight)
        return (features - self.mean) / self.variance.clamp_min(1e-12).sqrt()


class Bound(nn.Module):
    """Scaled tanh."""

    def __init__(self, limit: float):
        super().__init__()
        self.limit = limit

    def forward(self, targets: Tensor) -> Tensor:
        """Keep targets within plus or minus the limit."""
        return self.limit * targets.tanh()
