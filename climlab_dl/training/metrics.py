"""Scores on held-out data: sums that are added over ranks first and divided afterwards, so no sample counts twice."""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from jaxtyping import Float, Int
from torch import Tensor

from climlab_dl.climate.fields import UNLABELLED
from climlab_dl.parallel import ranks


class Segmentation:
    """IoU, precision and recall per class from one confusion matrix, and MLPerf DeepCAM's per-sample IoU.

    Parameters
    ----------
    classes
        Their names; the first is the background.
    """

    best = "iou_mean"
    larger_is_better = True

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes = tuple(classes)
        self.confusion = np.zeros((len(self.classes), len(self.classes)), dtype=np.int64)  # [truth, prediction]
        self.sample_iou, self.samples = 0.0, 0
        self._first: list[Tensor] = []

    @property
    def measured(self) -> list[str]:
        """Names of the scores."""
        of_classes = [f"{what}_{name}" for what in ("iou", "precision", "recall") for name in self.classes]
        return [*of_classes, "iou_mean", "iou_per_sample", f"baseline_iou_{self.classes[0]}", "baseline_iou_mean"]

    def update(self, logits: Float[Tensor, "batch classes lat lon"], mask: Int[Tensor, "batch lat lon"]) -> None:
        """Count the pixels of a batch."""
        for predicted, truth in zip(logits.argmax(dim=1), mask, strict=True):
            self._first = self._first or [predicted, truth]
            matrix = confusion(predicted, truth, len(self.classes))
            if matrix.any():
                self.confusion += matrix
                self.sample_iou += float(np.mean(iou(matrix, absent=1.0)))
                self.samples += 1

    def over_ranks(self) -> None:
        """Add up what all ranks have counted."""
        counts = np.array([*self.confusion.ravel(), self.sample_iou, self.samples], dtype=np.float64)
        total = ranks.sum(torch.from_numpy(counts), "held-out scores").numpy()
        self.confusion = total[:-2].round().astype(np.int64).reshape(self.confusion.shape)
        self.sample_iou, self.samples = float(total[-2]), round(total[-1])

    def scores(self) -> dict[str, float]:
        """All scores; a class that is neither there nor predicted has an IoU of NaN and is left out of the mean.

        ``iou_per_sample`` follows MLPerf HPC DeepCAM: in each snapshot the mean over classes, where an absent class
        counts 1; then the mean over the snapshots of which a pixel is labelled. ``baseline_`` scores are those of a
        mask that is all background. Where nothing is labelled all are NaN.
        """
        hits = np.diag(self.confusion).astype(float)
        with np.errstate(invalid="ignore"):
            precision, recall = hits / self.confusion.sum(axis=0), hits / self.confusion.sum(axis=1)
        trivial = np.zeros_like(self.confusion)
        trivial[:, 0] = self.confusion.sum(axis=1)
        per_class, baseline = iou(self.confusion), iou(trivial)
        scores = {f"iou_{name}": value for name, value in zip(self.classes, per_class, strict=True)}
        scores |= {f"precision_{name}": value for name, value in zip(self.classes, precision, strict=True)}
        scores |= {f"recall_{name}": value for name, value in zip(self.classes, recall, strict=True)}
        scores["iou_mean"] = _mean(per_class)
        scores["iou_per_sample"] = self.sample_iou / self.samples if self.samples else float("nan")
        scores[f"baseline_iou_{self.classes[0]}"] = baseline[0]
        scores["baseline_iou_mean"] = _mean(baseline)
        return {name: float(value) for name, value in scores.items()}

    def seen(self) -> xr.Dataset:
        """Give ``mask`` and ``truth`` (lat, lon) of the first snapshot that this rank has scored, as CF flags."""
        flags = {"flag_values": np.arange(len(self.classes), dtype=np.int8), "flag_meanings": " ".join(self.classes)}
        masks = [(("lat", "lon"), mask.cpu().numpy().astype(np.int8), flags) for mask in self._first]
        return xr.Dataset(dict(zip(("mask", "truth"), masks, strict=True)))


class Parameters:
    """Mean absolute and relative errors per parameter, beside those of always predicting the training mean.

    Parameters
    ----------
    names
        Of the parameters.
    mean, std
        Physical value of a target of 0, and of one unit.
    """

    best = "mae_mean"
    larger_is_better = False

    def __init__(self, names: Sequence[str], mean: np.ndarray, std: np.ndarray) -> None:
        self.names = tuple(names)
        self.mean, self.std = np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64)
        self.found = np.empty((0, len(self.names)))  # (universe, parameter), physical
        self.true = np.empty((0, len(self.names)))

    @property
    def measured(self) -> list[str]:
        """Names of the scores."""
        of_parameters = [f"{what}_{name}" for what in ("mae", "relative_error", "baseline_mae") for name in self.names]
        return [*of_parameters, "mae_mean", "baseline_mae_mean"]

    def update(self, prediction: Float[Tensor, "batch outputs"], target: Float[Tensor, "batch targets"]) -> None:
        """Add a batch; outputs after the targets (log variances) have no part in the errors."""
        found = prediction[:, : len(self.names)].double().cpu().numpy() * self.std + self.mean
        self.found = np.concatenate([self.found, found])
        self.true = np.concatenate([self.true, target.double().cpu().numpy() * self.std + self.mean])

    def over_ranks(self) -> None:
        """Put together what all ranks have, each of which scored every so many-th universe from its own number on."""
        count = int(ranks.sum(torch.tensor(len(self.true)), "number held out"))
        whole = np.zeros((2, count, len(self.names)))
        whole[:, ranks.rank() :: ranks.size()] = self.found, self.true
        self.found, self.true = ranks.sum(torch.from_numpy(whole), "held-out universes").numpy()

    def scores(self) -> dict[str, float]:
        """Errors in physical units, relative errors, and ``mae_mean`` in units of the normalised targets (MLPerf)."""
        error, baseline = np.abs(self.found - self.true), np.abs(self.true - self.mean).mean(axis=0)
        relative, error = (error / np.abs(self.true)).mean(axis=0), error.mean(axis=0)
        scores = {f"mae_{name}": value for name, value in zip(self.names, error, strict=True)}
        scores |= {f"relative_error_{name}": value for name, value in zip(self.names, relative, strict=True)}
        scores |= {f"baseline_mae_{name}": value for name, value in zip(self.names, baseline, strict=True)}
        scores["mae_mean"], scores["baseline_mae_mean"] = np.mean(error / self.std), np.mean(baseline / self.std)
        return {name: float(value) for name, value in scores.items()}

    def seen(self) -> xr.Dataset:
        """Give ``estimate`` and ``truth`` (universe, parameter), in physical units."""
        tables = {"estimate": self.found, "truth": self.true}
        whole = xr.Dataset({name: (("universe", "parameter"), table) for name, table in tables.items()})
        return whole.assign_coords(parameter=list(self.names))


def confusion(predicted: Int[Tensor, "..."], truth: Int[Tensor, "..."], classes: int) -> np.ndarray:
    """Count pixels by [true class, predicted class]; those that nobody labelled are left out."""
    known = truth != UNLABELLED
    pairs = truth[known] * classes + predicted[known]
    return torch.bincount(pairs, minlength=classes**2).reshape(classes, classes).cpu().numpy()


def _mean(values: np.ndarray) -> float:
    """Mean of what is known."""
    return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")


def iou(matrix: np.ndarray, *, absent: float = float("nan")) -> np.ndarray:
    """Intersection over union per class; ``absent`` for a class that neither mask has."""
    hits = np.diag(matrix).astype(float)
    union = matrix.sum(axis=0) + matrix.sum(axis=1) - hits
    return np.where(union > 0, hits / np.maximum(union, 1), absent)
