"""DeepLabv3+: atrous encoder, pyramid, and a decoder that reaches full resolution.

Two published networks come from one description. Kurth et al. 2018 (sec. V-B): ResNet-50 at output stride 8 and a
decoder that learns its way up to every pixel, where it meets the input again. MLPerf HPC's DeepCAM reference: Xception
at output stride 16 with batch normalisation.
"""

from dataclasses import dataclass
from typing import Literal, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from climlab_dl.models.convolve import as_read
from climlab_dl.models.layers import (
    Affine,
    Conv2d,
    Norm,
    Padding,
    Recomputable,
    Style,
    Upsample2d,
    check_choice,
    check_fields,
    check_positive,
    convolution,
    initialise,
    recompute,
    upsampling,
)
from climlab_dl.models.resnet import UNITS, ResNet
from climlab_dl.models.xception import Xception

Backbone = Literal["resnet14", "resnet20", "resnet50", "resnet101", "xception"]


@dataclass(frozen=True, kw_only=True)
class DeepLab:
    """Description of a DeepLabv3+; the defaults are the network of Kurth et al. 2018.

    Parameters
    ----------
    backbone : {"resnet50", "resnet101", "resnet14", "resnet20", "xception"}
        Encoder. ResNet-14 has one unit in each block; ResNet-20 has two in each of three blocks.
    width : int
        Features near the encoder's root (64 as published); the encoder's others keep their proportion to it.
    output_stride : {8, 16, 2, 4}
        The encoder's map is the input's divided by this; beyond it, strides become dilations. 2 and 4, of a ResNet,
        are for coarse grids, on which a river is a few pixels wide.
    rates : tuple of int
        Dilations of the pyramid's 3x3 convolutions, in pixels of the encoder's map.
    depth : int
        Features of the pyramid and of the decoder.
    low_level : int
        Features to which the encoder's early ones are reduced for the decoder.
    middle : int
        Blocks in the middle flow of an Xception.
    full_resolution : bool
        The decoder ends with convolutions at full resolution over what it has so far and the input, through two
        convolutions of a quarter and a half of ``depth`` features.
    refinements : tuple of int
        Dilation of each of further units of two convolutions with a shortcut, at full resolution before the logits;
        none as published. For coarse grids, on which one pixel may part a river or join two.
    linear_upsampling : bool
        Leave what `full_resolution` adds, and the transposed convolutions, without normalisation and ReLU, as the
        authors' code does.
    norm : {"half", "batch", "group", "none"}
        What stands between a convolution and its ReLU. Kurth et al. had no normalisation, but a factor of one half.
    padding : {"periodic", "zeros"}
        Longitude wraps, or not, as published. Latitude never wraps.
    recompute : bool
        Keep the inputs of the encoder's units, the pyramid and the last part only, and compute the rest again for the
        gradient: of `mlperf` at 768 x 1152 on a CPU 0.7 of the memory in a quarter more time.
    """

    backbone: Backbone = "resnet50"
    width: int = 64
    output_stride: Literal[2, 4, 8, 16] = 8
    rates: tuple[int, ...] = (12, 24, 36)
    depth: int = 256
    low_level: int = 48
    middle: int = 16
    full_resolution: bool = True
    refinements: tuple[int, ...] = ()
    linear_upsampling: bool = True
    norm: Norm = "half"
    padding: Padding = "periodic"
    recompute: bool = False

    def __post_init__(self) -> None:
        check_choice("DeepLab", "backbone", self.backbone, Backbone)
        strides = Literal[8, 16] if self.backbone == "xception" else Literal[2, 4, 8, 16]
        check_choice("DeepLab", "output_stride", self.output_stride, strides)
        check_choice("DeepLab", "norm", self.norm, Norm)
        check_choice("DeepLab", "padding", self.padding, Padding)
        check_positive("DeepLab", width=self.width, rates=self.rates, low_level=self.low_level, middle=self.middle)
        if self.refinements:
            check_positive("DeepLab", refinements=self.refinements)
        if self.refinements and (self.linear_upsampling or not self.full_resolution):
            raise ValueError(
                f"DeepLab.refinements is {self.refinements}, which follow the decoder's full resolution with ReLUs of "
                "their own; give full_resolution=True and linear_upsampling=False, or no refinements."
            )
        for field in ("width", "depth"):
            value = getattr(self, field)
            if value < 4 or value % 4:
                raise ValueError(f"DeepLab.{field} is {value}; its quarter has to be whole, give a multiple of 4.")

    @classmethod
    def kurth(cls, *, padding: Padding = "periodic") -> Self:
        """As published in 2018: ResNet-50, output stride 8, 14.41 TFLOP a sample."""
        return cls(padding=padding)

    @classmethod
    def mlperf(cls, *, padding: Padding = "periodic") -> Self:
        """As the MLPerf HPC DeepCAM reference: Xception, output stride 16, 56,454,720 parameters."""
        return cls(
            backbone="xception",
            output_stride=16,
            rates=(6, 12, 18),
            full_resolution=False,
            linear_upsampling=False,
            norm="batch",
            padding=padding,
        )

    @classmethod
    def small(cls, *, padding: Padding = "periodic") -> Self:
        """For a laptop and maps of about 100 x 200: the same network, thinner, normalised, with nearer neighbours."""
        return cls(
            backbone="resnet14",
            width=16,
            rates=(2, 4, 6),
            depth=32,
            low_level=16,
            linear_upsampling=False,
            norm="batch",
            padding=padding,
        )

    @property
    def stride(self) -> int:
        """Lat and lon have to be multiples of this."""
        return self.output_stride

    def build(self, channels: int, classes: int) -> "DeepLabNetwork":
        """Network from ``channels`` fields to ``classes`` logits."""
        check_positive("DeepLab.build", channels=channels, classes=classes)
        return DeepLabNetwork(self, channels, classes)


class ImagePooling(nn.Sequential):
    """Mean over the map, 1x1 convolution, ReLU: one value for the whole map.

    Averages over a single pixel make no batch statistics, so a learned scale and shift stands for the normalisation.
    """

    def __init__(self, channels: int, features: int, *, norm: Norm, padding: Padding):
        super().__init__(nn.AdaptiveAvgPool2d(1), convolution(channels, features, 1, norm=norm, padding=padding))
        if norm in ("batch", "group"):
            self[1].norm = Affine(features)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name is torch's
        """Give the pooled features at every pixel, without copying them."""
        return super().forward(input).expand(-1, -1, *input.shape[2:])


class Pyramid(Recomputable):
    """Atrous spatial pyramid pooling: near, far and global neighbourhoods, joined."""

    def __init__(self, description: DeepLab, channels: int):
        super().__init__()
        depth, norm, padding = description.depth, description.norm, description.padding
        self.branches = nn.ModuleList([convolution(channels, depth, 1, norm=norm, padding=padding)])
        for rate in description.rates:
            self.branches.append(convolution(channels, depth, 3, dilation=rate, norm=norm, padding=padding))
        self.branches.append(ImagePooling(channels, depth, norm=norm, padding=padding))
        self.join = convolution(len(self.branches) * depth, depth, 1, norm=norm, padding=padding)

    def forward(self, deep: Tensor) -> Tensor:
        """Give ``depth`` features at the encoder's resolution."""
        return self.join(torch.cat([branch(deep) for branch in self.branches], 1))


class Decoder(nn.Module):
    """From the pyramid's map up to 1/4, where the low-level features join, and on to every pixel."""

    def __init__(self, description: DeepLab, channels: int, low_level: int, classes: int):
        super().__init__()
        depth, norm, padding = description.depth, description.norm, description.padding
        style = Style(norm=norm, padding=padding, relu=True)
        if description.linear_upsampling:
            style = Style(norm="none", padding=padding, relu=False)
        self.low_level = convolution(low_level, description.low_level, 1, norm=norm, padding=padding)
        doublings = {2: 0, 4: 0, 8: 1, 16: 2}[description.output_stride]
        self.up = nn.Sequential(*(upsampling(depth, depth, **style) for _ in range(doublings)))
        self.refine = nn.Sequential(
            convolution(depth + description.low_level, depth, 3, norm=norm, padding=padding),
            convolution(depth, depth, 3, norm=norm, padding=padding),
        )
        doublings = 1 if description.output_stride == 2 else 2
        if description.full_resolution:
            refinements = description.refinements
            self.head = FullResolution(channels, depth, classes, style, doublings=doublings, refinements=refinements)
        else:
            self.head = Transposed(channels, depth, classes, style, doublings=doublings)

    def forward(self, deep: Tensor, low_level: Tensor, fields: Tensor) -> Tensor:
        """Give logits at full resolution."""
        joined = torch.cat([self.up(deep), self.low_level(low_level)], 1)
        return self.head(self.refine(joined), fields)


class FullResolution(Recomputable):
    """From 1/4 (or 1/2) to 1/1 by transposed convolutions; there the input joins, and two convolutions decide.

    Or more: each of the ``refinements`` is the dilation of a further unit.
    """

    def __init__(
        self, channels: int, depth: int, classes: int, style: Style, *, doublings: int, refinements: tuple[int, ...]
    ):
        super().__init__()
        self.up = nn.Sequential(*(upsampling(depth, depth, **style) for _ in range(doublings)))
        self.input = nn.Sequential(
            convolution(channels, depth // 4, 3, **style), convolution(depth // 4, depth // 2, 3, **style)
        )
        self.decide = nn.Sequential(
            convolution(depth + depth // 2, depth, 3, **style),
            convolution(depth, depth, 3, **style),
            *(Refinement(depth, style, dilation) for dilation in refinements),
            Conv2d(depth, classes, 1, padding=style["padding"]),
        )

    def forward(self, features: Tensor, fields: Tensor) -> Tensor:
        """Give logits at full resolution."""
        return self.decide(torch.cat([self.up(features), self.input(fields)], 1))


class Refinement(nn.Sequential):
    """Two 3x3 convolutions, the first dilated, beside a shortcut."""

    def __init__(self, depth: int, style: Style, dilation: int):
        super().__init__(
            convolution(depth, depth, 3, dilation=dilation, **style), convolution(depth, depth, 3, **style)
        )

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  the name is torch's
        """Give the features and what they lack."""
        return input + super().forward(input)


class Transposed(nn.Module):
    """From 1/4 (or 1/2) to 1/1 by transposed convolutions, the last of which makes the logits."""

    def __init__(self, channels: int, depth: int, classes: int, style: Style, *, doublings: int):
        super().__init__()
        self.up = nn.Sequential(
            Conv2d(depth, depth, 1, padding=style["padding"]),
            *(upsampling(depth, depth, **style) for _ in range(doublings - 1)),
            Upsample2d(depth, classes, padding=style["padding"], bias=False),
        )

    def forward(self, features: Tensor, fields: Tensor) -> Tensor:
        """Give logits at full resolution; the fields themselves are not looked at again."""
        return self.up(features)


class DeepLabNetwork(nn.Module):
    """The network that `DeepLab` describes."""

    def __init__(self, description: DeepLab, channels: int, classes: int):
        super().__init__()
        self.channels, self.stride = channels, description.stride
        common = {
            "width": description.width,
            "output_stride": description.output_stride,
            "norm": description.norm,
            "padding": description.padding,
        }
        if description.backbone == "xception":
            self.encoder = Xception(channels, middle=description.middle, **common)
        else:
            self.encoder = ResNet(channels, units=UNITS[description.backbone], **common)
        self.pyramid = Pyramid(description, self.encoder.features)
        self.decoder = Decoder(description, channels, self.encoder.low_level_features, classes)
        initialise(self)
        recompute(self, description.recompute)

    def forward(self, fields: Float[Tensor, "batch channels lat lon"]) -> Float[Tensor, "batch classes lat lon"]:
        """Logits of each class at each pixel."""
        check_fields(fields, network="DeepLab", channels=self.channels, stride=self.stride)
        fields = as_read(fields)
        deep, low_level = self.encoder(fields)
        return self.decoder(self.pyramid(deep), low_level, fields)
