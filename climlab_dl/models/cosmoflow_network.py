"""The network that a description of a CosmoFlow builds: convolutions, what of them goes on, and the dense part."""

from collections import OrderedDict
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn

from climlab_dl.models.convolve import as_read
from climlab_dl.models.regression import Bound, Standardise
from climlab_dl.models.slabs import in_slabs

if TYPE_CHECKING:
    from climlab_dl.models.cosmoflow import CosmoFlow


class CosmoFlowNetwork(nn.Module):
    """The network that `CosmoFlow` describes."""

    def __init__(self, description: "CosmoFlow", channels: int, targets: int):
        super().__init__()
        self.description, self.channels = description, channels
        self.convolutions = nn.Sequential()
        for i, features in enumerate(description.features):
            before = description.features[i - 1] if i else channels
            self.convolutions.append(_convolution(description, i, before, features))
        if description.averaged == "every":
            inputs = sum(description.features)
            self.standardise = Standardise(inputs)
        else:
            cells = 1 if description.size is None else description.remaining(description.size) ** 3
            inputs = cells * description.features[-1]
        self.dense = _dense(description, inputs, targets)
        for module in self.modules():
            if isinstance(module, nn.Conv3d | nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None and description.initial_bias is not None:
                    nn.init.constant_(module.bias, description.initial_bias)

    def forward(self, volumes: Float[Tensor, "batch channels x y z"]) -> Float[Tensor, "batch targets"]:
        """Targets of each volume."""
        features = self.features(volumes)
        return self.dense(self.standardise(features) if self.description.averaged == "every" else features)

    def features(self, volumes: Float[Tensor, "batch channels x y z"]) -> Float[Tensor, "batch features"]:
        """Say what the convolutions find in each volume: what is standardised and goes into the dense part."""
        self.check(volumes)
        volumes = as_read(volumes)
        if self.description.averaged == "every":
            return self.averages(volumes)
        first, others = self.convolutions[0], self.convolutions[1:]
        features = others(in_slabs(first, volumes) if self.description.recompute else first(volumes))
        if self.description.size is None:
            return features.mean((2, 3, 4))
        # Cells first, features last: the order in the published networks' dense kernels.
        return features.permute(0, 2, 3, 4, 1).flatten(1)

    def averages(self, volumes: Float[Tensor, "batch channels x y z"]) -> Float[Tensor, "batch features"]:
        """Mean over the volume of every convolution's features, before they are pooled."""
        found, features = [], volumes
        for convolution in self.convolutions:
            for name, layer in convolution.named_children():
                features = layer(features)
                if name == "relu":
                    # In float32: universes differ in the third digit of a mean, where half precision ends.
                    found.append(features.float().mean((2, 3, 4)))
        return torch.cat(found, dim=1)

    def check(self, volumes: Tensor) -> None:
        """Refuse what the network cannot take, before any arithmetic.

        Raises
        ------
        ValueError
            If the dimensions are not ``(batch, channels, x, y, z)``, or channels or sizes are not the network's.
        """
        found = tuple(volumes.shape)
        if len(found) != 5:
            raise ValueError(
                f"CosmoFlow takes (batch, channels, x, y, z), found {len(found)} dimensions {found}; "
                "add the batch with volumes[None] if there is one volume."
            )
        if found[1] != self.channels:
            raise ValueError(
                f"CosmoFlow was built for {self.channels} channels, found {found[1]} in {found}; "
                "channels come second, and build(channels=...) makes another network."
            )
        size = self.description.size
        if size is None:
            for side in found[2:]:
                self.description.remaining(side)
        elif found[2:] != (size,) * 3:
            raise ValueError(
                f"CosmoFlow was described for volumes of {size}^3, found {found[2:]}; cut the volumes, or describe "
                "another with size=..., or with size=None, which takes any."
            )


def _convolution(description: "CosmoFlow", i: int, channels: int, features: int) -> nn.Sequential:
    """Convolution, normalisation, leaky ReLU and pooling."""
    layers = OrderedDict[str, nn.Module]()
    layers["conv"] = nn.Conv3d(
        channels,
        features,
        description.kernels[i],
        stride=description.strides[i],
        padding=description.reach(i) // 2,
        padding_mode="circular" if description.padding == "periodic" else "zeros",
    )
    if description.norm == "batch":
        layers["norm"] = nn.BatchNorm3d(features)
    layers["relu"] = nn.LeakyReLU(description.leak, inplace=True)
    if description.pooled[i]:
        layers["pool"] = nn.MaxPool3d(2) if description.pooling == "max" else nn.AvgPool3d(2)
    return nn.Sequential(layers)


def _dense(description: "CosmoFlow", inputs: int, targets: int) -> nn.Sequential:
    """Dense layers, dropout before or after each, and the targets' bound."""
    layers = OrderedDict[str, nn.Module]()
    for i, width in enumerate(description.hidden):
        if description.dropout_first:
            layers[f"drop{i}"] = nn.Dropout(description.dropout)
        layers[f"hidden{i}"] = nn.Linear(inputs, width)
        layers[f"relu{i}"] = nn.LeakyReLU(description.leak, inplace=True)
        if not description.dropout_first:
            layers[f"drop{i}"] = nn.Dropout(description.dropout)
        inputs = width
    if description.dropout_first:
        layers["drop"] = nn.Dropout(description.dropout)
    layers["targets"] = nn.Linear(inputs, targets)
    if description.bound is not None:
        layers["bound"] = Bound(description.bound)
    return nn.Sequential(layers)
