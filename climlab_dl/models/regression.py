"""What networks have at their end that find numbers instead of classes: standardised features, bounded targets."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Standardise(nn.Module):
    """Less the mean and over the spread of what was seen in training; the same in training and afterwards.

    Batch normalisation would subtract the batch's own mean, which says much of what the batch's universes are like. The
    spread is that within batches, and besides how far the mean of a batch lies from that of those before it: while
    weights change fast, features drift by many times what tells two universes apart, and would come out as huge.
    """

    def __init__(self, features: int, memory: int = 50, drift_memory: int = 10):
        super().__init__()
        self.memory, self.drift_memory = memory, drift_memory
        self.mean: Tensor
        self.variance: Tensor
        self.drift: Tensor
        self.batches: Tensor
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("variance", torch.ones(features))
        self.register_buffer("drift", torch.zeros(features))
        self.register_buffer("batches", torch.zeros(()))

    def forward(self, features: Float[Tensor, "batch features"]) -> Float[Tensor, "batch features"]:
        """Standardise by what the last batches were like: ``memory`` for the spread, ``drift_memory`` for the mean."""
        if self.training and len(features) > 1:
            with torch.no_grad():
                self.batches += 1
                weight, weight_of_mean = (
                    (1 / self.batches).clamp_min(1 / memory) for memory in (self.memory, self.drift_memory)
                )
                moved = torch.where(self.batches > 1, features.mean(0) - self.mean, 0.0)
                self.mean.lerp_(features.mean(0), weight_of_mean)
                self.drift.lerp_(moved.square(), weight_of_mean)
                self.variance.lerp_(features.var(0), weight)
        return (features - self.mean) / (self.variance + self.drift).clamp_min(1e-12).sqrt()


class Bound(nn.Module):
    """Scaled tanh."""

    def __init__(self, limit: float):
        super().__init__()
        self.limit = limit

    def forward(self, targets: Tensor) -> Tensor:
        """Keep targets within plus or minus the limit."""
        return self.limit * targets.tanh()
