"""The published networks and one update of them, as benchmarks take it on any device."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from climlab_dl.climate.fields import CAM5, CLASSES
from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.performance.flops import Convention
from climlab_dl.training.losses import weighted_cross_entropy
from climlab_dl.training.optimizers import AdamW
from climlab_dl.training.precision import Precision

Update = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published network with what goes in and comes out of it.

    Parameters
    ----------
    description
        With ``build(channels, outputs)``.
    channels, outputs
        Fields or redshifts; classes or parameters.
    extent
        Rows and columns, or the cells of a volume.
    convention
        How its paper counts its arithmetic; what is really multiplied is "plain".
    """

    description: Any
    channels: int
    outputs: int
    extent: tuple[int, ...]
    convention: Convention = "plain"

    def batch(self, count: int, device: torch.device, extent: tuple[int, ...] | None = None) -> tuple[Tensor, Tensor]:
        """Draw samples and targets: a mask for maps, parameters for volumes. Always the same ones."""
        random, extent = torch.Generator().manual_seed(0), extent or self.extent
        values = torch.randn(count, self.channels, *extent, generator=random)
        if len(extent) == 2:
            target = torch.randint(self.outputs, (count, *extent), generator=random)
        else:
            target = torch.rand(count, self.outputs, generator=random)
        return values.to(device), target.to(device)

    def cost(self, device: torch.device) -> Callable[[Tensor, Tensor], Tensor]:
        """Its loss, with weights on the device."""
        if len(self.extent) == 3:
            return F.mse_loss
        return partial(weighted_cross_entropy, class_weights=torch.tensor([0.2, 0.5, 0.3], device=device))


_CLIMATE: dict[str, Any] = {"channels": len(CAM5), "outputs": len(CLASSES), "extent": (768, 1152)}
PUBLISHED = {
    "deeplab": Published(description=DeepLab.kurth(), **_CLIMATE, convention="space_to_batch"),
    "deepcam": Published(description=DeepLab.mlperf(), **_CLIMATE),
    "tiramisu": Published(description=Tiramisu.kurth(), **_CLIMATE),
    "cosmoflow": Published(description=CosmoFlow.paper(), channels=1, outputs=3, extent=(128, 128, 128)),
    "cosmoflow_mlperf": Published(description=CosmoFlow.mlperf(), channels=4, outputs=4, extent=(128, 128, 128)),
}


def updates(
    network: nn.Module,
    cost: Callable[[Tensor, Tensor], Tensor],
    *,
    precision: Precision | None = None,
    capturable: bool = False,
) -> Update:
    """Prepare updates of a network: forward, loss in float32, backward and AdamW.

    Parameters
    ----------
    network
        On its device.
    cost
        Loss of (prediction, target).
    precision
        Of the network; float32 by default. fp16's loss is scaled, and its gradients are scaled back.
    capturable
        Keep the optimiser's count of steps on the GPU, so that a CUDA graph can hold the update.
    """
    precision = precision or Precision()
    parameters = list(network.parameters())
    device, scale = parameters[0].device, precision.scaler().scale
    optimizer = AdamW(learning_rate=1e-4).build(parameters)
    for group in optimizer.param_groups:
        group["capturable"] = capturable

    def update(values: Tensor, target: Tensor) -> None:
        optimizer.zero_grad(set_to_none=False)
        with precision.autocast(device):
            prediction = network(values)
        (cost(prediction.float(), target) * scale).backward()
        if scale != 1:
            for parameter in parameters:
                assert parameter.grad is not None
                parameter.grad.div_(scale)
        optimizer.step()

    return update
