"""CosmoFlow: cosmological parameters from the matter distribution in a volume.

Two published networks come from one description: Mathuriya et al. 2018 ("CosmoFlow: Using Deep Learning to Learn the
Universe at Scale", sec. III) with the wiring of the authors' 128^3 code, and the MLPerf HPC reference.
"""

from dataclasses import dataclass
from typing import Literal, Self

from climlab_dl.models.cosmoflow_network import CosmoFlowNetwork
from climlab_dl.models.layers import check_choice, check_dropout, check_positive

Boundary = Literal["valid", "zeros", "periodic"]
"""At a volume's faces: no padding, zeros, or the opposite face, for a volume that is a whole periodic simulation."""


@dataclass(frozen=True, kw_only=True)
class CosmoFlow:
    """Description of a CosmoFlow; the defaults are the network of Mathuriya et al. 2018.

    Parameters
    ----------
    size : int, optional
        Cells along each side of the volumes (128 as published). With None features are averaged over the volume
        instead of joined, and any size that survives the convolutions fits.
    averaged : {"last", "every"}
        With ``size=None``: average the last convolution's features, or those of every one, which are statistics of
        the universe at every scale; they are then standardised by what they are like in the training so far.
    features : tuple of int
        Maps that each convolution makes.
    kernels : tuple of int
        Cells along a side of each convolution's kernel.
    strides : tuple of int
        Cells from one place of each convolution to the next.
    pooled : tuple of bool
        Whether each convolution is followed by pooling over 2x2x2.
    pooling : {"mean", "max"}
        How to pool.
    hidden : tuple of int
        Widths of the dense layers before the last.
    leak : float
        Slope of the leaky ReLU below zero.
    dropout : float
        Share of values dropped in the dense part while training.
    dropout_first : bool
        Drop before every dense layer (2018), not after each hidden one (MLPerf).
    bound : float, optional
        Targets are kept within plus or minus this by a scaled tanh; None leaves them free.
    initial_bias : float, optional
        Where the biases start; with None at random, so that features differ in the density at which they begin.
    norm : {"none", "batch"}
        Whether batch normalisation follows each convolution; published without. It subtracts the mean of a few
        universes, and with it much of what tells them apart: for the last percent, leave it out.
    padding : {"valid", "zeros", "periodic"}
        What a convolution sees beyond the volume; nothing where its kernel is as wide as its stride.
    recompute : bool
        On CPUs make the first convolution's features a few planes at a time, never as a whole, and again for the
        gradient: 0.6 of the memory or less, a quarter more time. Without effect where the first convolution is
        normalised or not pooled, and with ``averaged="every"``.

    Notes
    -----
    With one channel and three targets the published network has 7,041,443 parameters, with two targets 7,041,186.
    The wiring is the one whose last map, 2^3 x 256, makes the 2,048 inputs of the dense part; a later version of the
    authors' code skipped a pooling and so predicted 64 times from each volume.
    """

    size: int | None = 128
    averaged: Literal["last", "every"] = "last"
    features: tuple[int, ...] = (16, 32, 64, 128, 256, 256, 256)
    kernels: tuple[int, ...] = (3, 4, 4, 3, 3, 2, 2)
    strides: tuple[int, ...] = (1, 1, 1, 2, 1, 1, 1)
    pooled: tuple[bool, ...] = (True, True, True, False, False, False, False)
    pooling: Literal["mean", "max"] = "mean"
    hidden: tuple[int, ...] = (2048, 256)
    leak: float = 0.01
    dropout: float = 0.5
    dropout_first: bool = True
    bound: float | None = None
    initial_bias: float | None = 0.1
    norm: Literal["none", "batch"] = "none"
    padding: Boundary = "valid"
    recompute: bool = False

    def __post_init__(self) -> None:
        check_positive(
            "CosmoFlow", features=self.features, kernels=self.kernels, strides=self.strides, hidden=self.hidden
        )
        for field in ("kernels", "strides", "pooled"):
            if len(getattr(self, field)) != len(self.features):
                raise ValueError(
                    f"CosmoFlow.{field} has {len(getattr(self, field))} entries for {len(self.features)} convolutions "
                    f"(features={self.features}); give one for each."
                )
        if any(self.reach(i) % 2 for i in range(len(self.kernels))):
            raise ValueError(
                f"CosmoFlow.kernels is {self.kernels}; only odd kernels can be padded evenly, "
                "give odd ones, a stride as wide as the kernel, or padding='valid'."
            )
        check_choice("CosmoFlow", "averaged", self.averaged, Literal["last", "every"])
        if self.averaged == "every" and self.size is not None:
            raise ValueError(
                f"CosmoFlow.averaged is 'every' for volumes of {self.size}^3 cells; give size=None with it."
            )
        check_choice("CosmoFlow", "pooling", self.pooling, Literal["mean", "max"])
        check_choice("CosmoFlow", "norm", self.norm, Literal["none", "batch"])
        check_choice("CosmoFlow", "padding", self.padding, Boundary)
        check_dropout("CosmoFlow", self.dropout)
        if self.bound is not None and self.bound <= 0:
            raise ValueError(f"CosmoFlow.bound is {self.bound}; give a positive limit, or None for free targets.")
        if self.size is not None:
            self.remaining(self.size)

    @classmethod
    def paper(cls) -> Self:
        """As published in 2018: one channel of 128^3."""
        return cls()

    @classmethod
    def mlperf(cls, *, padding: Boundary = "zeros") -> Self:
        """As the MLPerf HPC reference: 8,907,556 parameters with 4 channels and 4 targets."""
        return cls(
            features=(32, 64, 128, 256, 512),
            kernels=(3,) * 5,
            strides=(1,) * 5,
            pooled=(True,) * 5,
            pooling="max",
            hidden=(128, 64),
            leak=0.3,
            dropout_first=False,
            bound=1.2,
            initial_bias=0.0,
            padding=padding,
        )

    @classmethod
    def small(cls, *, padding: Boundary = "periodic") -> Self:
        """For a laptop and whole simulations of 32^3 or 64^3: thin, normalised, blind to where in the box it looks."""
        return cls(
            size=None, features=(8, 16, 32, 64), kernels=(3,) * 4, strides=(1,) * 4, pooled=(True,) * 4, hidden=(64,),
            dropout=0.0, initial_bias=0.0, norm="batch", padding=padding,
        )  # fmt: skip

    @classmethod
    def statistics(cls, *, padding: Boundary = "periodic") -> Self:
        """For hundreds of universes on a few cores: blocks of 2^3 cells, then three scales, all of them averaged.

        The averages of learnt functions of small neighbourhoods are what one-point distributions and power spectra are
        of chosen ones, so that the network starts from where those end.
        """
        return cls(
            size=None, averaged="every", features=(16, 16, 32, 32), kernels=(2, 3, 3, 3), strides=(2, 1, 1, 1),
            pooled=(False, True, True, False), hidden=(64,), dropout=0.0, initial_bias=None, padding=padding,
        )  # fmt: skip

    def reach(self, i: int) -> int:
        """Cells beyond a side of the volume, both sides together, that convolution ``i`` sees."""
        if self.padding == "valid" or self.kernels[i] == self.strides[i]:
            return 0
        return self.kernels[i] - 1

    def remaining(self, size: int) -> int:
        """Cells along a side of the last map of a volume of ``size`` cells a side.

        Raises
        ------
        ValueError
            If nothing remains on the way.
        """
        left = size
        for i, (kernel, stride, pooled) in enumerate(zip(self.kernels, self.strides, self.pooled, strict=True)):
            left = ((left + self.reach(i) - kernel) // stride + 1) // (2 if pooled else 1)
            if left < 1:
                raise ValueError(
                    f"A volume of {size} cells a side is used up by convolution {i + 1} of CosmoFlow's "
                    f"{len(self.features)}; give larger volumes, fewer convolutions or less pooling."
                )
        return left

    def build(self, channels: int, targets: int) -> CosmoFlowNetwork:
        """Network from volumes of ``channels`` to ``targets`` parameters."""
        check_positive("CosmoFlow.build", channels=channels, targets=targets)
        return CosmoFlowNetwork(self, channels, targets)
