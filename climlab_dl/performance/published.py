"""The published networks, their parameters and their arithmetic, beside what the papers print."""

from typing import Any

import pandas as pd
import torch

from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.performance.flops import Convention, count

_SNAPSHOT, _VOLUME = (768, 1152), (128, 128, 128)
# Name, description, channels, classes or parameters, extent, convention, the paper's GF per training sample.
_ROWS: list[tuple[str, Any, int, int, tuple[int, ...], Convention, float]] = [
    ("Tiramisu", Tiramisu.kurth(), 16, 3, _SNAPSHOT, "plain", 4188),
    ("Tiramisu, 4 channels", Tiramisu.daint(), 4, 3, _SNAPSHOT, "plain", 3703),
    ("DeepLabv3+", DeepLab.kurth(), 16, 3, _SNAPSHOT, "plain", float("nan")),
    ("DeepLabv3+", DeepLab.kurth(), 16, 3, _SNAPSHOT, "space_to_batch", 14410),
    ("MLPerf DeepCAM", DeepLab.mlperf(), 16, 3, _SNAPSHOT, "plain", 1966),
    ("CosmoFlow", CosmoFlow.paper(), 1, 3, _VOLUME, "plain", 69.33),
    ("MLPerf CosmoFlow", CosmoFlow.mlperf(), 4, 4, _VOLUME, "plain", float("nan")),
]


def table() -> pd.DataFrame:
    """Count the published networks at their published sizes.

    Returns
    -------
    pandas.DataFrame
        Parameters, GFLOP per sample forward and in training by the papers' rule (see ``performance.flops``), the
        convention for atrous convolutions, and the training figure that the paper prints where it does. CosmoFlow's is
        measured there and holds element-wise work too.
    """
    rows = []
    for name, description, channels, outputs, extent, convention, paper in _ROWS:
        with torch.device("meta"):
            network = description.build(channels, outputs)
        flops = count(network, (1, channels, *extent), convention=convention)
        rows.append(
            {
                "network": name,
                "parameters": sum(weights.numel() for weights in network.parameters()),
                "forward_GFLOP": round(flops.forward / 1e9, 1),
                "training_GFLOP": round(flops.training / 1e9, 1),
                "convention": convention,
                "paper_GFLOP": paper,
            }
        )
    return pd.DataFrame(rows).set_index("network")
