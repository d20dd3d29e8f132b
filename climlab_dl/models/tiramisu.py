"""Tiramisu: the dense segmentation network of Kurth et al. 2018.

Jegou et al. 2017 ("The One Hundred Layers Tiramisu", FC-DenseNet) as modified for climate by Kurth et al. 2018
("Exascale Deep Learning for Climate Analytics", sec. V-B): growth 32 in place of 16, half the layers, and 5x5 kernels
to keep the receptive field. The layer order, the strided 1x1 transition and the counts are those of the authors' code.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from climlab_dl.models.convolve import as_read
from climlab_dl.models.dense import DroppedRelu, JoinedConv2d
from climlab_dl.models.layers import (
    Norm,
    Padding,
    Upsample2d,
    check_choice,
    check_dropout,
    check_fields,
    check_positive,
    initialise,
    normalisation,
)


@dataclass(frozen=True, kw_only=True)
class Tiramisu:
    """Description of a Tiramisu; the defaults are the network as published.

    Parameters
    ----------
    blocks : tuple of int
        Layers in each dense block, from full resolution down; the last is the bottom of the valley. The map is halved
        between blocks, so lat and lon have to be multiples of ``2 ** (len(blocks) - 1)``.
    growth : int
        Features that each layer of a dense block adds.
    kernel : int
        Size of the dense layers' and the stem's kernels (odd).
    stem : int
        Features of the first convolution.
    dropout : float
        Share of values dropped after each layer while training.
    norm : {"none", "batch", "group", "half"}
        What stands between a convolution and its ReLU; published without.
    padding : {"periodic", "zeros"}
        Longitude wraps, or not, as published. Latitude never wraps.

    Notes
    -----
    With 16 channels and 3 classes the published network has 7,504,835 parameters. The authors' code builds one more
    transition below the last block and never uses it: its 544 x 544 kernel and 544 biases make their 7,801,315. Their
    code also drops out logits while training; ours does not.
    """

    blocks: tuple[int, ...] = (2, 2, 2, 4, 5)
    growth: int = 32
    kernel: int = 5
    stem: int = 64
    dropout: float = 0.2
    norm: Norm = "none"
    padding: Padding = "periodic"

    def __post_init__(self) -> None:
        check_positive("Tiramisu", blocks=self.blocks, growth=self.growth, kernel=self.kernel, stem=self.stem)
        if self.kernel % 2 == 0:
            raise ValueError(f"Tiramisu.kernel is {self.kernel}; only an odd kernel has a centre, give 3 or 5.")
        check_dropout("Tiramisu", self.dropout)
        check_choice("Tiramisu", "norm", self.norm, Norm)
        check_choice("Tiramisu", "padding", self.padding, Padding)

    @classmethod
    def kurth(cls, *, padding: Padding = "periodic") -> Self:
        """As published, for the 16 channels on Summit."""
        return cls(padding=padding)

    @classmethod
    def daint(cls, *, padding: Padding = "periodic") -> Self:
        """As published, for the 4 channels on Piz Daint: a stem of 48 features."""
        return cls(stem=48, padding=padding)

    @classmethod
    def small(cls, *, padding: Padding = "periodic") -> Self:
        """For a laptop and maps of about 100 x 200: the same network with fewer, thinner layers, and normalised."""
        return cls(blocks=(1, 2, 3, 4), growth=12, kernel=3, stem=24, dropout=0.0, norm="batch", padding=padding)

    @property
    def stride(self) -> int:
        """Lat and lon have to be multiples of this."""
        return 2 ** (len(self.blocks) - 1)

    def build(self, channels: int, classes: int) -> "TiramisuNetwork":
        """Network from ``channels`` fields to ``classes`` logits."""
        check_positive("Tiramisu.build", channels=channels, classes=classes)
        return TiramisuNetwork(self, channels, classes)


class Layer(nn.Module):
    """Convolution over everything given, normalisation, ReLU and dropout."""

    def __init__(self, description: Tiramisu, channels: int, features: int, kernel: int, *, stride: int = 1):
        super().__init__()
        bare = description.norm == "none"
        self.conv = JoinedConv2d(channels, features, kernel, stride=stride, padding=description.padding, bias=bare)
        self.norm = nn.Identity() if bare else normalisation(description.norm, features)
        self.relu = DroppedRelu(description.dropout)

    def forward(self, *features: Tensor) -> Tensor:
        """Give the layer's own features."""
        return self.relu(self.norm(self.conv(*features)))


class DenseBlock(nn.Module):
    """Layers that each see everything before them."""

    def __init__(self, description: Tiramisu, channels: int, layers: int):
        super().__init__()
        growth = description.growth
        self.layers = nn.ModuleList(
            Layer(description, channels + i * growth, growth, description.kernel) for i in range(layers)
        )

    def forward(self, *features: Tensor) -> tuple[Tensor, ...]:
        """Give what is new, layer by layer."""
        everything = list(features)
        for layer in self.layers:
            everything.append(layer(*everything))
        return tuple(everything[len(features) :])


class TiramisuNetwork(nn.Module):
    """The network that `Tiramisu` describes; features stay apart, layer by layer, until a convolution reads them."""

    def __init__(self, description: Tiramisu, channels: int, classes: int):
        super().__init__()
        self.channels, self.stride = channels, description.stride
        self.stem = Layer(description, channels, description.stem, description.kernel)
        self.down, self.transitions = nn.ModuleList(), nn.ModuleList()
        features, skips = description.stem, []
        for layers in description.blocks[:-1]:
            self.down.append(DenseBlock(description, features, layers))
            features += layers * description.growth
            skips.append(features)
            self.transitions.append(Layer(description, features, features, 1, stride=2))
        self.bottom = DenseBlock(description, features, description.blocks[-1])
        self.upsample, self.up = nn.ModuleList(), nn.ModuleList()
        new = description.blocks[-1] * description.growth
        features += new
        for layers, skip in zip(reversed(description.blocks[:-1]), reversed(skips), strict=True):
            self.upsample.append(Upsample2d(new, new, padding=description.padding))
            self.up.append(DenseBlock(description, new + skip, layers))
            features, new = new + skip + layers * description.growth, layers * description.growth
        self.head = JoinedConv2d(features, classes, 1, padding=description.padding)
        initialise(self)

    def forward(self, fields: Float[Tensor, "batch channels lat lon"]) -> Float[Tensor, "batch classes lat lon"]:
        """Logits of each class at each pixel."""
        check_fields(fields, network="Tiramisu", channels=self.channels, stride=self.stride)
        everything, skips = [self.stem(as_read(fields))], []
        for block, transition in zip(self.down, self.transitions, strict=True):
            everything += block(*everything)
            skips.append(everything)
            everything = [transition(*everything)]
        new = self.bottom(*everything)
        everything += new
        for upsample, block in zip(self.upsample, self.up, strict=True):
            everything = [upsample(torch.cat(new, 1)), *skips.pop()]
            new = block(*everything)
            everything += new
        return self.head(*everything)
