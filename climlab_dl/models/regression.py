"""What networks have at their end that find numbers instead of classes: standardised features, bounded targets."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Standardise(nn.Module):
    """Less the mean and over the spread of what was seen in training; the same in training and afterwards.

    Batch normalisation would subtract the batch's own mean, which says much of what the batch's universes are like.
    """

    def __init__(self, features: int, memory: int = 50):
        super().__init__()
        self.memory = memory
        self.mean: Tensor
        self.square: Tensor
        self.batches: Tensor
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("square", torch.ones(features))
        self.register_buffer("batches", torch.zeros(()))

    def forward(self, features: Float[Tensor, "batch features"]) -> Float[Tensor, "batch features"]:
        """Standardise by the mean over the last ``memory`` batches or so."""
        if self.training:
            with torch.no_grad():
                self.batches += 1
                weight = (1 / self.batches).clamp_min(1 / self.memory)
                self.mean.lerp_(features.mean(0), weight)
                self.square.lerp_(features.square().mean(0), weight)
        spread = (self.square - self.mean.square()).clamp_min(1e-8).sqrt()
        return (features - self.mean) / spread


class Bound(nn.Module):
    """Scaled tanh."""

    def __init__(self, limit: float):
        super().__init__()
        self.limit = limit

    def forward(self, targets: Tensor) -> Tensor:
        """Keep targets within plus or minus the limit."""
        return self.limit * targets.tanh()
