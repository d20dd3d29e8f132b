"""What the network computes in; logits, softmax, loss and weights stay float32."""

import contextlib
import logging
import math
from dataclasses import dataclass
from typing import Literal

import torch

logger = logging.getLogger(__name__)
_HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Arithmetic of the network.

    Parameters
    ----------
    kind
        ``"fp32"``; ``"tf32"`` (float32 with 10-bit mantissas in the products, NVIDIA Ampere and later); ``"bf16"``;
        ``"fp16"`` with dynamic loss scaling (Micikevicius et al. 2018).
    on_cpu
        Compute in half precision even on a CPU that has no such arithmetic, 7 to 40 times slower.
    initial_scale
        Of the loss, for fp16, where it starts: it halves on overflow.
    growth_interval
        Steps without overflow after which the scale doubles.
    """

    kind: Literal["fp32", "tf32", "bf16", "fp16"] = "fp32"
    on_cpu: bool = False
    initial_scale: float = 2.0**16
    growth_interval: int = 2000

    def __post_init__(self) -> None:
        if self.kind not in ("fp32", "tf32", *_HALF):
            raise ValueError(f"kind={self.kind!r}: choose 'fp32', 'tf32', 'bf16' or 'fp16'")
        if not 1 <= self.initial_scale < math.inf:
            raise ValueError(f"initial_scale={self.initial_scale!r}: choose 1 or more, 65536 is usual")
        if not (isinstance(self.growth_interval, int) and self.growth_interval >= 1):
            raise ValueError(f"growth_interval={self.growth_interval!r}: choose a whole number from 1, 2000 is usual")

    def usable(self, device: torch.device) -> "Precision":
        """Return this precision, or float32 (with a warning) where the device would crawl."""
        if self.kind not in _HALF or device.type != "cpu" or self.on_cpu or native(_HALF[self.kind]):
            return self
        logger.warning(
            "this CPU has no native %s arithmetic and would be about ten times slower: computing in fp32. "
            "Precision(kind=%r, on_cpu=True) insists.", self.kind, self.kind,
        )  # fmt: skip
        return Precision()

    def autocast(self, device: torch.device) -> contextlib.AbstractContextManager:
        """Return the context in which the network runs."""
        if device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = self.kind == "tf32"
        if self.kind not in _HALF:
            return contextlib.nullcontext()
        return torch.autocast(device.type, dtype=_HALF[self.kind])

    def scaler(self) -> "LossScaler":
        """Return the loss scale of a training that starts."""
        return LossScaler(self)


class LossScaler:
    """Dynamic loss scale; always 1 unless the precision is fp16."""

    def __init__(self, precision: Precision) -> None:
        self.dynamic = precision.kind == "fp16"
        self.growth_interval = precision.growth_interval
        self.scale = precision.initial_scale if self.dynamic else 1.0
        self.good_steps = 0

    def update(self, *, overflow: bool) -> None:
        """Follow a step: all ranks are told of the same overflow, so all keep the same scale."""
        if not self.dynamic:
            return
        self.good_steps = 0 if overflow else self.good_steps + 1
        if overflow:
            self.scale /= 2
        elif self.good_steps == self.growth_interval:
            self.scale, self.good_steps = min(self.scale * 2, 2.0**24), 0

    def state(self) -> dict[str, float]:
        """Return what a checkpoint keeps: nothing where no scale is needed, which says nothing of where one is."""
        return {"scale": self.scale, "good_steps": self.good_steps} if self.dynamic else {}

    def restore(self, state: dict[str, float]) -> None:
        """Put back what :meth:`state` gave."""
        if self.dynamic and state:
            self.scale, self.good_steps = float(state["scale"]), int(state["good_steps"])


def native(dtype: torch.dtype) -> bool:
    """Whether this machine's CPU computes in ``dtype`` (bfloat16 or float16), rather than imitating it."""
    supported = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}[dtype]
    return bool(getattr(torch.ops.mkldnn, supported)())
