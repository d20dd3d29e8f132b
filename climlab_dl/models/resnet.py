"""ResNet-v2 encoder (He et al. 2016, "Identity mappings") with dilation in place of late strides.

Blocks as in TensorFlow's slim library, which Kurth et al. 2018 used: a block halves the map in its last unit.
"""

from torch import Tensor, nn

from climlab_dl.models.layers import Conv2d, MaxPool2d, Norm, Padding, Recomputable, convolution, normalisation

UNITS = {"resnet14": (1, 1, 1, 1), "resnet20": (2, 2, 2), "resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}


class Bottleneck(Recomputable):
    """Unit of a block: normalise and activate first, then 1x1, 3x3, 1x1 beside a shortcut."""

    def __init__(self, channels: int, width: int, *, stride: int, dilation: int, norm: Norm, padding: Padding):
        super().__init__()
        features = 4 * width
        before = [] if norm == "none" else [normalisation(norm, channels)]
        # In place only where the normalisation has made a new tensor: the shortcut still needs the unit's input.
        self.activate = nn.Sequential(*before, nn.ReLU(inplace=bool(before)))
        self.shortcut = Conv2d(channels, features, 1, stride=stride, padding=padding) if channels != features else None
        self.stride = stride
        self.reduce = convolution(channels, width, 1, norm=norm, padding=padding)
        self.conv = convolution(width, width, 3, norm=norm, padding=padding, stride=stride, dilation=dilation)
        self.expand = Conv2d(width, features, 1, padding=padding)

    def forward(self, fields: Tensor) -> tuple[Tensor, Tensor]:
        """Give the unit's result and its first, narrow features (before any stride)."""
        active = self.activate(fields)
        shortcut = fields[:, :, :: self.stride, :: self.stride] if self.shortcut is None else self.shortcut(active)
        narrow = self.reduce(active)
        return self.expand(self.conv(narrow)) + shortcut, narrow


class ResNet(nn.Module):
    """Encoder: deep features at 1/``output_stride`` and low-level features at 1/4 of the map, or at 1/2 like the deep.

    Parameters
    ----------
    channels : int
        Input fields.
    units : tuple of int
        Units in each of the four blocks.
    width : int
        Features of the root; block i has bottlenecks of ``width * 2**i`` and gives ``4 * width * 2**i``.
    output_stride : {2, 4, 8, 16}
        Where further strides become dilations; at 2 there is no pooling after the root.
    """

    def __init__(
        self, channels: int, *, units: tuple[int, ...], width: int, output_stride: int, norm: Norm, padding: Padding
    ):
        super().__init__()
        self.root = Conv2d(channels, width, 7, stride=2, padding=padding)
        self.pool = MaxPool2d(padding=padding) if output_stride > 2 else nn.Identity()
        self.units = nn.ModuleList()
        features, stride_so_far, dilation = width, min(4, output_stride), 1
        for i, number in enumerate(units):
            for unit in range(number):
                wanted = 2 if unit == number - 1 and i < len(units) - 1 else 1
                stride = wanted if stride_so_far < output_stride else 1
                self.units.append(
                    Bottleneck(features, width * 2**i, stride=stride, dilation=dilation, norm=norm, padding=padding)
                )
                features = 4 * width * 2**i
                stride_so_far *= stride
                dilation *= wanted // stride
        self.features, self.low_level_features, self.low_level_unit = features, width, units[0] - 1

    def forward(self, fields: Tensor) -> tuple[Tensor, Tensor]:
        """Give deep and low-level features."""
        low_level = fields = self.pool(self.root(fields))
        for i, unit in enumerate(self.units):
            fields, narrow = unit(fields)
            if i == self.low_level_unit:
                low_level = narrow
        return fields, low_level
