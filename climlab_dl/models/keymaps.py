"""Checkpoints of the MLPerf HPC references, renamed for our networks.

DeepCAM's reference is a PyTorch module; every one of its modules that holds something corresponds to one of
``DeepLab.mlperf()``:

====================================  ==========================================
reference                             here
====================================  ==========================================
``xception_features.conv1, conv2``    ``encoder.stem.0, 1``
``xception_features.block1 ... 3``    ``encoder.entry.0 ... 2``
``xception_features.block4 ... 19``   ``encoder.middle.0 ... 15``
``xception_features.block20``         ``encoder.exit``
``xception_features.conv3 ... 5``     ``encoder.last.0 ... 2``
``bottleneck.aspp1 ... 4``            ``pyramid.branches.0 ... 3``
``bottleneck.global_avg_pool``        ``pyramid.branches.4``
``bottleneck.conv``                   ``pyramid.join``
``conv2``                             ``decoder.low_level``
``upsample.deconv1``                  ``decoder.up.0, 1``
``upsample.conv1``                    ``decoder.refine.0, 1``, ``decoder.head.up.0``
``upsample.deconv2, last_deconv``     ``decoder.head.up.1, 2``
====================================  ==========================================

CosmoFlow's reference is a Keras model: kernels and biases alternate in the order of the layers, kernels have their
inputs and outputs last, and the volume is flattened with its channels last, as ``CosmoFlow.mlperf()`` does too.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor


def from_mlperf_deepcam(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename a DeepCAM reference checkpoint for ``DeepLab.mlperf()``.

    Parameters
    ----------
    state : mapping of str to Tensor
        The checkpoint's ``"model"``; names may start with ``module.``, as those that were saved on several ranks do.

    Returns
    -------
    dict of str to Tensor
        For ``load_state_dict`` of ``DeepLab.mlperf().build(...)``. The reference padded with zeros: describe the
        network with ``padding="zeros"`` for its very logits.

    Raises
    ------
    ValueError
        If a name is not one of the reference's.
    """
    modules = deepcam_modules()
    renamed = {}
    for name, tensor in state.items():
        module, _, parameter = name.removeprefix("module.").rpartition(".")
        if module not in modules:
            raise ValueError(
                f"{name!r} is not a name in the MLPerf DeepCAM reference network (version 0.7 to 3.0); pass the "
                "checkpoint's 'model' entry, not the whole checkpoint or another network's."
            )
        renamed[f"{modules[module]}.{'weight' if parameter == 'weights' else parameter}"] = tensor
    return renamed


def deepcam_modules() -> dict[str, str]:
    """Give our module for each of the DeepCAM reference's that holds parameters or statistics."""
    encoder = "xception_features"
    modules = {
        "bottleneck.global_avg_pool.global_average_pool.1": "pyramid.branches.4.1.conv",
        "bottleneck.global_avg_pool.global_average_pool.2": "pyramid.branches.4.1.norm",
        "bottleneck.conv": "pyramid.join.conv",
        "bottleneck.bn.bn": "pyramid.join.norm",
        "conv2": "decoder.low_level.conv",
        "bn2.bn": "decoder.low_level.norm",
        "upsample.conv1.6": "decoder.head.up.0",
        "upsample.deconv2.0": "decoder.head.up.1.conv",
        "upsample.deconv2.1.bn": "decoder.head.up.1.norm",
        "upsample.last_deconv.0": "decoder.head.up.2",
    }
    for i in range(2):
        modules[f"{encoder}.conv{i + 1}"] = f"encoder.stem.{i}.conv"
        modules[f"{encoder}.bn{i + 1}.bn"] = f"encoder.stem.{i}.norm"
        for theirs, ours in (("deconv1", "up"), ("conv1", "refine")):
            modules[f"upsample.{theirs}.{3 * i}"] = f"decoder.{ours}.{i}.conv"
            modules[f"upsample.{theirs}.{3 * i + 1}.bn"] = f"decoder.{ours}.{i}.norm"
    for i in range(3):
        modules |= _separable(f"{encoder}.conv{i + 3}", f"encoder.last.{i}.conv")
        modules[f"{encoder}.bn{i + 3}.bn"] = f"encoder.last.{i}.norm"
    for i in range(4):
        modules[f"bottleneck.aspp{i + 1}.atrous_convolution"] = f"pyramid.branches.{i}.conv"
        modules[f"bottleneck.aspp{i + 1}.bn.bn"] = f"pyramid.branches.{i}.norm"
    for i in range(20):
        ours = f"entry.{i}" if i < 3 else f"middle.{i - 3}" if i < 19 else "exit"
        modules |= _block(f"{encoder}.block{i + 1}", f"encoder.{ours}", layers=3 if 3 <= i < 19 else 2)
    return modules


def _separable(theirs: str, ours: str) -> dict[str, str]:
    """Depthwise and pointwise convolution."""
    return {f"{theirs}.conv1": f"{ours}.0", f"{theirs}.pointwise": f"{ours}.1"}


def _block(theirs: str, ours: str, *, layers: int) -> dict[str, str]:
    """Block of an Xception: the reference counts its convolutions, normalisations and ReLUs through."""
    modules = {f"{theirs}.skip": f"{ours}.shortcut.conv", f"{theirs}.skipbn.bn": f"{ours}.shortcut.norm"}
    for i in range(layers):
        modules |= _separable(f"{theirs}.rep.{3 * i}", f"{ours}.layers.{i}.conv")
        modules[f"{theirs}.rep.{3 * i + 1}.bn"] = f"{ours}.layers.{i}.norm"
    # Where no convolution follows, nothing has this name.
    return modules | _separable(f"{theirs}.rep.{3 * layers - 1}", f"{ours}.layers.{layers}")


def from_mlperf_cosmoflow(weights: Sequence[np.ndarray]) -> dict[str, Tensor]:
    """Arrange a CosmoFlow reference model's weights for ``CosmoFlow.mlperf()``.

    Parameters
    ----------
    weights : sequence of array
        What Keras' ``model.get_weights()`` gives: kernel and bias of five convolutions and three dense layers.

    Returns
    -------
    dict of str to Tensor
        For ``load_state_dict`` of ``CosmoFlow.mlperf().build(...)``.

    Raises
    ------
    ValueError
        If there are not sixteen arrays, kernels of convolutions first.
    """
    layers = [f"convolutions.{i}.conv" for i in range(5)] + ["dense.hidden0", "dense.hidden1", "dense.targets"]
    dimensions = [np.ndim(array) for array in weights]
    if dimensions != [5, 1] * 5 + [2, 1] * 3:
        raise ValueError(
            "MLPerf's CosmoFlow has 16 arrays, kernel and bias of 5 convolutions and 3 dense layers; "
            f"found {len(weights)} of {dimensions} dimensions. Pass model.get_weights()."
        )
    state = {}
    for layer, kernel, bias in zip(layers, weights[::2], weights[1::2], strict=True):
        # Outputs come first here, then inputs, then places.
        order = (kernel.ndim - 1, kernel.ndim - 2, *range(kernel.ndim - 2))
        state[f"{layer}.weight"] = torch.from_numpy(np.ascontiguousarray(kernel.transpose(order)))
        state[f"{layer}.bias"] = torch.from_numpy(np.array(bias))
    return state
