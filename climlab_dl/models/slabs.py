"""The first convolution of volumes, with what follows up to its pooling, a few planes at a time.

Its features are the largest map of a network for volumes, 16 or 32 times the input, and of no use but to be pooled. A
few planes of them stay in a processor's cache, and making them again for the gradient costs less than keeping them.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from climlab_dl.models.convolve import as_read
from climlab_dl.models.layers import forgetful


def in_slabs(stage: nn.Module, volumes: Tensor) -> Tensor:
    """Convolve, activate and pool volumes, keeping what is pooled and the volumes themselves for the gradient.

    Parameters
    ----------
    stage : nn.Module
        Its layers are named ``conv``, ``relu`` and ``pool``, the last over 2x2x2. Where a normalisation needs the whole
        map, nothing is pooled, slabs' gradients would be added up in half precision, or a GPU wants large pieces, the
        stage is applied as it is.
    volumes : Tensor
        Shape ``(batch, channels, x, y, z)``.

    Returns
    -------
    Tensor
        Shape ``(batch, features, x', y', z')``, to rounding what the stage itself gives.
    """
    conv = stage.get_submodule("conv")
    assert isinstance(conv, nn.Conv3d)
    names = [name for name, _ in stage.named_children()]
    whole = torch.compiler.is_compiling() or volumes.device.type != "cpu" or torch.is_autocast_enabled("cpu")
    if whole or names != ["conv", "relu", "pool"]:
        return stage(volumes)
    reach = conv.padding[0]
    assert isinstance(reach, int)
    across = (reach, reach) if conv.padding_mode == "circular" else (0, 0)
    volumes = as_read(F.pad(volumes, (*across, *across, reach, reach), "circular" if any(across) else "constant"))
    around = (0, *(0 if any(across) else reach for _ in "yz"))

    def pooled(slab: Tensor) -> Tensor:
        features = F.conv3d(slab, conv.weight, conv.bias, conv.stride, around)
        return stage.get_submodule("pool")(stage.get_submodule("relu")(features))

    kernel, stride = conv.kernel_size[0], conv.stride[0]
    planes = ((volumes.shape[2] - kernel) // stride + 1) // 2
    slabs = max(1, planes // _fewest(volumes, kernel, stride))
    edges = [planes * i // slabs for i in range(slabs + 1)]
    return torch.cat(
        [
            forgetful(pooled, stage, volumes[:, :, 2 * first * stride : (2 * last - 1) * stride + kernel])
            for first, last in pairwise(edges)
        ],
        2,
    )


def _fewest(volumes: Tensor, kernel: int, stride: int) -> int:
    """Pooled planes of the thinnest slab that is convolved as fast as the whole.

    Of a single volume torch gives oneDNN what has more than 20480 cells and channels, not counting the last side.
    """
    batch, channels, x, y, _ = volumes.shape
    too_few = 20480 // (channels * y)
    if batch > 1 or x <= too_few:
        return 2
    return ((too_few + 1 - kernel) // stride + 1) // 2 + 1
