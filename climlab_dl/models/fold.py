"""Fold batch normalisation into the convolutions before it: the same results, fewer passes over memory."""

import copy
from typing import TypeVar

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

Network = TypeVar("Network", bound=nn.Module)

_NORMS = (nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def fold(network: Network) -> Network:
    """Copy a network for inference with its batch normalisations folded into its kernels.

    After training, a normalisation multiplies and shifts each feature by constants; the convolution before it can do
    both. Normalisations that follow something else, such as a ResNet's first in each unit, stay.

    Parameters
    ----------
    network : nn.Module
        One of ours, or any whose parts name a convolution ``conv`` and its normalisation ``norm``. It does not change.

    Returns
    -------
    nn.Module
        In evaluation mode. Its results agree to rounding with the network's own in evaluation mode.
    """
    folded = copy.deepcopy(network).eval().requires_grad_(False)
    for part in folded.modules():
        conv, norm = getattr(part, "conv", None), getattr(part, "norm", None)
        if not isinstance(norm, _NORMS):
            continue
        if isinstance(conv, nn.Sequential):  # depthwise, then pointwise: the last one makes the features
            conv[-1] = _fuse(conv[-1], norm)
        elif isinstance(conv, nn.Conv2d | nn.Conv3d | nn.ConvTranspose2d):
            part.conv = _fuse(conv, norm)
        else:
            continue
        part.norm = nn.Identity()
    return folded


def _fuse(conv: nn.Module, norm: nn.Module) -> nn.Module:
    """Convolution whose kernel and bias include the normalisation's."""
    return fuse_conv_bn_eval(conv, norm, transpose=isinstance(conv, nn.ConvTranspose2d)).requires_grad_(False)  # pyright: ignore
