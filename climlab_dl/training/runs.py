"""Named runs: functions that return a complete :class:`Run`. Vary one with ``dataclasses.replace``.

The published ones need the published data and many GPUs; the small ones learn from a few megabytes on a laptop.
"""

from dataclasses import replace
from pathlib import Path

from climlab_dl.climate.contrasts import CONTRASTS
from climlab_dl.climate.fields import CAM5
from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.losses import L1, MSE, SoftJaccard, WeightedCrossEntropy
from climlab_dl.training.optimizers import SGD, Adam, AdamW, Larc
from climlab_dl.training.precision import Precision
from climlab_dl.training.run import Run, Target
from climlab_dl.training.schedules import Cosine, Multistep, Polynomial, Warmup
from climlab_dl.training.table import table
from climlab_dl.training.universes import Universes

__all__ = [
    "Run", "cosmoflow", "cosmoflow_mlperf", "deepcam_mlperf", "deeplab", "replace", "small_cosmoflow", "small_deeplab",
    "small_tiramisu", "t63_deeplab", "t63_tiramisu", "table", "tiramisu",
]  # fmt: skip


def deeplab(source: str | Path) -> Run:
    """Cyclones and rivers with DeepLabv3+ as in Kurth et al. 2018, at the settings of 384 GPUs."""
    return Run(
        data=ClimateArchive(source=source, held_out=0.1),
        model=DeepLab.kurth(),
        loss=WeightedCrossEntropy(weighting="inverse_sqrt", scale=0.1),
        optimizer=Larc(optimizer=Adam(learning_rate=1e-4)),
        schedule=Polynomial(staircase=True),
        precision=Precision(kind="fp16"),
        epochs=40,
        batch_size=2,
    )


def tiramisu(source: str | Path) -> Run:
    """Cyclones and rivers with Tiramisu as in Kurth et al. 2018, at the settings of 384 GPUs."""
    return replace(deeplab(source), model=Tiramisu.kurth())


def deepcam_mlperf(source: str | Path, statistics: str | None = None) -> Run:
    """MLPerf HPC DeepCAM at a global batch of 64 ranks x 2, to its target of 0.82."""
    return Run(
        data=ClimateArchive(source=source, held_out=1 / 9, roll=False, statistics=statistics),
        model=DeepLab.mlperf(),
        loss=WeightedCrossEntropy(weighting="mlperf"),
        optimizer=AdamW(learning_rate=1e-3, eps=1e-6),
        schedule=Multistep(milestones=(8192, 16384)),
        epochs=16,
        batch_size=2,
        target=Target(metric="iou_per_sample", at_least=0.82),
    )


def cosmoflow(source: str | Path) -> Run:
    """Cosmological parameters as in Mathuriya et al. 2018: three of them, batch 1 per rank, L1, Adam with LARC."""
    return Run(
        data=Universes(source=source, log1p=False, held_out=0.016),
        model=CosmoFlow.paper(),
        loss=L1(),
        optimizer=Larc(optimizer=Adam(learning_rate=2e-3)),
        schedule=Polynomial(end=0.05),
        epochs=130,
        batch_size=1,
    )


def cosmoflow_mlperf(source: str | Path) -> Run:
    """MLPerf HPC CosmoFlow at a global batch of 64, to its target mean absolute error of 0.124."""
    return Run(
        data=Universes(source=source, held_out=1 / 9, targets="unit", symmetries=False),
        model=CosmoFlow.mlperf(),
        loss=MSE(),
        optimizer=SGD(learning_rate=1e-3, momentum=0.9, rate_in_momentum=True),
        schedule=Multistep(milestones=(32, 64), decay=0.25, unit="epoch"),
        rate_scaling="linear",
        reference_batch=64,
        epochs=100,
        batch_size=1,
        target=Target(metric="mae_mean", at_most=0.124),
    )


def small_deeplab(source: str | Path) -> Run:
    """Cyclones and rivers on a T63 archive in about a minute on two cores."""
    return _small(source, DeepLab.small(), steps=400)


def small_tiramisu(source: str | Path) -> Run:
    """Cyclones and rivers with a small Tiramisu, likewise."""
    return _small(source, Tiramisu.small(), steps=320)


def t63_deeplab(source: str | Path) -> Run:
    """Cyclones and rivers as the default rules mark them, on a T63 archive of a few hundred snapshots.

    Half an hour on two cores; benchmarks/small_networks.md has what it reaches. At this resolution a river is two to
    five pixels wide and one pixel may part two: a small encoder sees the surroundings, and most of the work is done at
    every pixel.
    """
    fine = DeepLab(
        backbone="resnet20", width=12, output_stride=4, rates=(2, 4), depth=32, low_level=16,
        refinements=(1, 2, 4, 1, 2, 4, 1, 1), linear_upsampling=False, norm="batch",
    )  # fmt: skip
    return _t63(source, fine, steps=8000)


def t63_tiramisu(source: str | Path) -> Run:
    """Cyclones and rivers with Tiramisu, likewise."""
    dense = Tiramisu(blocks=(2, 3, 4, 5), growth=12, kernel=3, stem=24, dropout=0.0, norm="batch")
    return _t63(source, dense, steps=6000)


def small_cosmoflow(source: str | Path) -> Run:
    """Parameters of small universes in a minute on two cores; a quarter is kept to calibrate a posterior with."""
    return Run(
        data=Universes(source=source, calibration=0.25, held_out=0.2),
        model=CosmoFlow.small(),
        loss=MSE(),
        optimizer=AdamW(learning_rate=3e-3),
        schedule=Warmup(steps=20, then=Cosine()),
        steps=400,
        batch_size=4,
        report_every=10,
        evaluate_every=50,
    )


def _small(source: str | Path, model: DeepLab | Tiramisu, *, steps: int) -> Run:
    return Run(
        # A few dozen snapshots are soon known by heart: mirrored hemispheres and strong decay delay that.
        data=ClimateArchive(source=source, held_out=1 / 3, mirror=True),
        model=model,
        loss=SoftJaccard(cross_entropy=0.5, weighting="mlperf"),
        optimizer=AdamW(learning_rate=3e-3, weight_decay=0.1),
        schedule=Warmup(steps=20, then=Cosine()),
        steps=steps,
        batch_size=1,
        clip_norm=1.0,
        report_every=5,
        evaluate_every=50,
    )


def _t63(source: str | Path, model: DeepLab | Tiramisu, *, steps: int) -> Run:
    # The rules look at latitude and vorticity, and at differences that are small beside a field's spread. Snapshots
    # warped, some of them moistened, at random and labelled anew show the network how regions join and part; without,
    # it knows those of 133 snapshots by heart after a few minutes.
    channels = (*CAM5, "TMQDAMPED", "ABSLAT", "VORT850", *CONTRASTS)
    return Run(
        data=ClimateArchive(
            source=source, channels=channels, held_out=1 / 3, mirror=True, warp=4.0, moisture=0.15, moistened=0.4
        ),
        model=model,
        loss=SoftJaccard(cross_entropy=0.5, weighting="mlperf"),
        optimizer=AdamW(learning_rate=3e-3, weight_decay=0.05, betas=(0.9, 0.99)),
        schedule=Warmup(steps=50, then=Cosine()),
        precision=Precision(kind="bf16"),
        steps=steps,
        batch_size=1,
        clip_norm=1.0,
        report_every=25,
        evaluate_every=500,
        checkpoint_every=250,
    )
