"""Aligned Xception encoder (Chen et al. 2018, "Encoder-decoder with atrous separable convolution").

Layer for layer the encoder of the MLPerf HPC DeepCAM reference network, so that its checkpoints can be read.
"""

from torch import Tensor, nn

from climlab_dl.models.layers import Conv2d, Convolution, Norm, Padding, Recomputable, convolution, forgetful


class Separable(nn.Sequential):
    """Depthwise 3x3 convolution, then a pointwise one."""

    def __init__(self, channels: int, features: int, *, padding: Padding, stride: int = 1, dilation: int = 1):
        depthwise = Conv2d(
            channels, channels, 3, padding=padding, stride=stride, dilation=dilation, groups=channels, bias=False
        )
        super().__init__(depthwise, Conv2d(channels, features, 1, padding=padding, bias=False))


def separably(layers: nn.Sequential, fields: Tensor) -> Tensor:
    """Apply separable convolutions, keeping their results only: each is normalised and activated by the next."""
    finish: nn.Module = nn.Identity()
    for layer in layers:
        conv, after = layer, nn.Identity()
        # Without normalisation a ReLU works in place on what is kept, and stays with its own convolution.
        if isinstance(layer, Convolution) and hasattr(layer, "norm"):
            conv, after = layer[0], nn.Sequential(*list(layer)[1:])
        fields = forgetful(nn.Sequential(finish, conv), layers, fields)
        finish = after
    return finish(fields)


class Block(Recomputable):
    """Separable convolutions beside a shortcut.

    ``features`` names each convolution's result; all but the strided or plain last one (``tail``) are normalised. Only
    what pointwise convolutions make is kept for the gradient: the rest costs little to make again, and is two thirds.
    """

    def __init__(
        self,
        channels: int,
        features: tuple[int, ...],
        *,
        norm: Norm,
        padding: Padding,
        stride: int = 1,
        dilation: int = 1,
        tail: bool = False,
    ):
        super().__init__()
        layers, before = [], channels
        for i, after in enumerate(features):
            conv = Separable(before, after, padding=padding, dilation=dilation)
            layers.append(Convolution(conv, after, norm=norm, relu=i < len(features) - 1))
            before = after
        if tail:
            layers.append(Separable(before, before, padding=padding, stride=stride))
        self.layers = nn.Sequential(*layers)
        self.shortcut = None
        if before != channels or stride != 1:
            conv = Conv2d(channels, before, 1, stride=stride, padding=padding, bias=norm == "none")
            self.shortcut = Convolution(conv, before, norm=norm, relu=False)

    def forward(self, fields: Tensor) -> Tensor:
        """Sum of both ways, not activated."""
        shortcut = fields if self.shortcut is None else self.shortcut(fields)
        return separably(self.layers, fields) + shortcut


class Xception(nn.Module):
    """Encoder: deep features at 1/``output_stride`` and low-level features at 1/4 of the map.

    Parameters
    ----------
    channels : int
        Input fields.
    width : int
        Features of the second convolution, 64 as published; all others keep their proportion to it.
    middle : int
        Blocks of the middle flow, 16 as published.
    output_stride : {8, 16}
        Where further strides become dilations.
    """

    def __init__(self, channels: int, *, width: int, middle: int, output_stride: int, norm: Norm, padding: Padding):
        super().__init__()
        dense = output_stride == 8
        a, b, c, d, e, f, g, h = (width * n // 64 for n in (32, 64, 128, 256, 728, 1024, 1536, 2048))
        self.stem = nn.Sequential(
            convolution(channels, a, 3, stride=2, norm=norm, padding=padding),
            convolution(a, b, 3, norm=norm, padding=padding),
        )
        self.entry = nn.ModuleList(
            [
                Block(b, (c, c), stride=2, tail=True, norm=norm, padding=padding),
                Block(c, (d, d), stride=2, tail=True, norm=norm, padding=padding),
                Block(d, (e, e), stride=1 if dense else 2, tail=True, norm=norm, padding=padding),
            ]
        )
        self.middle = nn.ModuleList(
            Block(e, (e, e, e), dilation=2 if dense else 1, norm=norm, padding=padding) for _ in range(middle)
        )
        self.exit = Block(e, (e, f), dilation=2 if dense else 1, tail=True, norm=norm, padding=padding)
        self.last = nn.Sequential(
            *(
                Convolution(Separable(before, after, padding=padding, dilation=4 if dense else 2), after, norm=norm)
                for before, after in ((f, g), (g, g), (g, h))
            )
        )
        self.features, self.low_level_features = h, c

    def forward(self, fields: Tensor) -> tuple[Tensor, Tensor]:
        """Give deep and low-level features."""
        low_level = self.entry[0](self.stem(fields)).relu_()
        fields = low_level
        for block in (*self.entry[1:], *self.middle):
            fields = block(fields).relu_()
        # The reference leaves the exit block's sum as it is.
        return separably(self.last, self.exit(fields)), low_level
