"""What a cosmologist measures without a network: P(k), cross-correlation, the one-point distribution.

And how well a linear regression on them knows the parameters: a network that does no better has learnt nothing new.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from climlab_dl.cosmology.cube import Volume

Array = NDArray[np.float64]

# Bins of density over its mean, for cells of so many voxels a side: the one-point distribution at several scales.
_DENSITIES = np.array([0.1, 0.3, 0.6, 1.0, 1.5, 2.2, 3.5, 6.0, 12.0, 30.0])
_BLOCKS = (1, 2, 4)


def power(counts: NDArray[Any], box_size_mpc_h: float, *, shot_noise: bool = False) -> pd.DataFrame:
    """Power spectrum of one density cube.

    Parameters
    ----------
    counts
        (n, n, n) particles in each voxel. Any other density will do, in any unit, with ``shot_noise=True``; of a
        contrast give ``1 + contrast``, likewise.
    box_size_mpc_h
        Side of the cube in Mpc/h. The cube is taken as periodic: for a cut one, expect leakage at the lowest k.
    shot_noise
        Leave the Poisson part, volume over particles, in. It is taken out by default, where the cube's sum is taken for
        the number of particles: of what are no counts, that would take out another power.

    Returns
    -------
    pd.DataFrame
        A row for each bin of one fundamental wavenumber's width up to the Nyquist wavenumber: ``k`` in h/Mpc (mean over
        the modes), ``P`` in (Mpc/h)^3, ``modes``. The voxels' own smoothing is divided out.

    Raises
    ------
    TypeError
        If the cube is no array of numbers, or the box no number.
    ValueError
        If the array is no cube, empty or a contrast, or the box not above 0.
    """
    _refuse_impossible(box_size_mpc_h)
    squared = np.abs(_modes(counts)) ** 2
    shells = _geometry(counts.shape[0])
    if not shot_noise:
        # Counting is not smoothing for the noise of single particles: it has no part in the window (Jing 2005, eq. 10).
        squared -= 1 / (float(np.sum(counts, dtype=np.float64)) * shells.window**2)
    auto = _shells(squared) * box_size_mpc_h**3
    return pd.DataFrame({"k": shells.k * 2 * np.pi / box_size_mpc_h, "P": auto, "modes": shells.count})


def cross_correlation(one: NDArray[Any], other: NDArray[Any], box_size_mpc_h: float) -> pd.DataFrame:
    """Correlation coefficient ``r`` of two cubes by wavenumber ``k`` (h/Mpc): 1 where only amplitudes differ."""
    _refuse_impossible(box_size_mpc_h)
    if np.shape(one) != np.shape(other):
        raise ValueError(
            f"cubes of {np.shape(one)} and {np.shape(other)} voxels cannot be correlated; give two of one size"
        )
    a, b = _modes(one), _modes(other)
    shells = _geometry(one.shape[0])
    norm = np.sqrt(_shells(np.abs(a) ** 2) * _shells(np.abs(b) ** 2))
    r = _shells((a * b.conj()).real) / np.where(norm > 0, norm, np.nan)
    return pd.DataFrame({"k": shells.k * 2 * np.pi / box_size_mpc_h, "r": r, "modes": shells.count})


def distribution(counts: NDArray[Any], block: int = 1) -> Array:
    """Share of cells, ``block`` voxels a side, in each bin of density over its mean (11 bins from voids to haloes)."""
    n = counts.shape[0]
    if n % block:
        raise ValueError(f"cells of {block} voxels do not divide {n}; choose a divisor")
    cells = counts.reshape(n // block, block, n // block, block, n // block, block).sum((1, 3, 5), dtype=np.float64)
    return np.bincount(np.digitize(cells.ravel() / cells.mean(), _DENSITIES), minlength=11) / cells.size


def log_power(volume: Volume, bins: int = 12) -> Array:
    """Return ln P(k) of every redshift, in ``bins`` equal steps of ln k: the classical summary of a volume."""
    if volume.box_size_mpc_h is None:
        raise ValueError(f"{volume.source.name} does not tell its box; P(k) needs box_size_mpc_h")
    out = []
    for channel in range(volume.counts.shape[3]):
        table = power(volume.counts[..., channel], volume.box_size_mpc_h, shot_noise=True)
        edges = np.geomspace(table["k"].iloc[0] * 0.99, table["k"].iloc[-1] * 1.01, bins + 1)
        place = np.digitize(table["k"], edges) - 1
        modes = np.bincount(place, table["modes"], minlength=bins)
        total = np.bincount(place, table["modes"] * table["P"], minlength=bins)
        out.append(np.log(total[modes > 0] / modes[modes > 0]))
    return np.concatenate(out)


def distributions(volume: Volume) -> Array:
    """One-point distributions of every redshift in cells of 1, 2 and 4 voxels."""
    channels = range(volume.counts.shape[3])
    return np.concatenate([distribution(volume.counts[..., c], block) for c in channels for block in _BLOCKS])


@dataclass(frozen=True)
class Ridge:
    """Linear regression with a penalty, on standardised features."""

    centre: Array
    scale: Array
    weights: Array
    offset: Array
    penalty: float

    @classmethod
    def fit(cls, features: Array, targets: Array) -> "Ridge":
        """Fit, with the penalty that predicts each universe best from all others (exact leave-one-out).

        Parameters
        ----------
        features
            (universes, features).
        targets
            (universes, parameters).
        """
        if len(features) < 3:
            raise ValueError(f"too few universes for a regression: found {len(features)}; give at least 3")
        centre, scale = features.mean(0), features.std(0)
        scale = np.where(scale > 1e-12, scale, np.inf)  # what never varies says nothing
        offset = targets.mean(0)
        left, singular, right = np.linalg.svd((features - centre) / scale, full_matrices=False)
        projected = left.T @ (targets - offset)
        best = (np.inf, 0.0)
        for penalty in np.geomspace(1e-3, 1e4, 36) * len(features) / 10:
            shrink = singular**2 / (singular**2 + penalty)
            residual = targets - offset - left @ (shrink[:, None] * projected)
            leverage = (left**2) @ shrink + 1 / len(features)
            best = min(best, (float(np.mean((residual / (1 - leverage)[:, None]) ** 2)), float(penalty)))
        penalty = best[1]
        weights = right.T @ ((singular / (singular**2 + penalty))[:, None] * projected)
        return cls(centre, scale, weights, offset, penalty)

    def predict(self, features: Array) -> Array:
        """Targets of each row of features."""
        return (features - self.centre) / self.scale @ self.weights + self.offset


def baselines(training: Iterable[Volume], held_out: Iterable[Volume]) -> pd.DataFrame:
    """Errors on held-out universes of what is not a network.

    Parameters
    ----------
    training, held_out
        Volumes with physical parameters, one at a time; universes must not be shared between the two.

    Returns
    -------
    pd.DataFrame
        Root-mean-square error in physical units by method ("prior", "ridge ln P", "ridge ln P + PDF") and parameter.
        "prior" predicts the training universes' mean.
    """
    names, theta, spectra, shapes = _summaries(training)
    _, truth, test_spectra, test_shapes = _summaries(held_out)
    both, test_both = np.hstack([spectra, shapes]), np.hstack([test_spectra, test_shapes])
    predictions = {
        "prior": np.broadcast_to(theta.mean(0), truth.shape),
        "ridge ln P": Ridge.fit(spectra, theta).predict(test_spectra),
        "ridge ln P + PDF": Ridge.fit(both, theta).predict(test_both),
    }
    rows = {method: np.sqrt(np.mean((found - truth) ** 2, axis=0)) for method, found in predictions.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(names)).rename_axis("method")


def _summaries(volumes: Iterable[Volume]) -> tuple[Sequence[str], Array, Array, Array]:
    rows = [(list(v.parameters), list(v.parameters.values()), log_power(v), distributions(v)) for v in volumes]
    if not rows:
        raise ValueError("no universes were given; check the split")
    names, *columns = zip(*rows, strict=True)
    theta, spectra, shapes = (np.array(column) for column in columns)
    return names[0], theta, spectra, shapes


@dataclass(frozen=True)
class _Geometry:
    shell: NDArray[np.intp]
    weight: Array
    window: Array
    k: Array
    count: NDArray[np.int64]


@lru_cache(maxsize=4)
def _geometry(n: int) -> _Geometry:
    """Shell number, multiplicity and voxel smoothing of every mode of an n^3 cube; k in units of the fundamental."""
    full, half = np.fft.fftfreq(n, 1 / n), np.fft.rfftfreq(n, 1 / n)
    length = np.sqrt(full[:, None, None] ** 2 + full[None, :, None] ** 2 + half**2)
    shell = np.rint(length).astype(np.intp)
    shell[shell > n // 2] = 0  # beyond Nyquist the corners of k space are incomplete; 0 is dropped with the mean
    weight = np.full(length.shape, 2.0)  # a real field's other half is the conjugate
    weight[..., 0] = 1
    if n % 2 == 0:
        weight[..., -1] = 1
    window = np.sinc(full / n)[:, None, None] * np.sinc(full / n)[None, :, None] * np.sinc(half / n)
    count = np.bincount(shell.ravel(), weight.ravel())[1:]
    k = np.bincount(shell.ravel(), (weight * length).ravel())[1:] / count
    return _Geometry(shell, weight, window, k, count.astype(np.int64))


def _refuse_impossible(box_size_mpc_h: Any) -> None:
    """Raise where a box has no side; bool is a number in Python alone."""
    if not isinstance(box_size_mpc_h, float | int | np.floating | np.integer) or isinstance(box_size_mpc_h, bool):
        raise TypeError(
            f"box_size_mpc_h = {box_size_mpc_h!r}; expected the cube's side in Mpc/h, a number, which volumes have as "
            "box_size_mpc_h where their file tells it"
        )
    if not 0 < box_size_mpc_h < np.inf:
        raise ValueError(f"box_size_mpc_h = {box_size_mpc_h:g}; expected the cube's side in Mpc/h, above 0")


def _modes(counts: NDArray[Any]) -> NDArray[np.complex128]:
    """Fourier modes of the overdensity, per voxel, with the voxels' smoothing divided out."""
    import scipy.fft

    if not isinstance(counts, np.ndarray) or counts.dtype.kind not in "iuf":
        found = f"an array of {counts.dtype}" if isinstance(counts, np.ndarray) else f"a {type(counts).__name__}"
        raise TypeError(f"expected a cube, a NumPy array of numbers, found {found}; of a volume give counts[..., 0]")
    if counts.ndim != 3 or len(set(counts.shape)) > 1:
        raise ValueError(f"expected a cube (n, n, n), found {counts.shape}; choose one redshift: counts[..., 0]")
    density = counts.astype(np.float64)
    mean, least = density.mean(), density.min()
    if not np.isfinite(mean):
        raise ValueError("the cube's densities are not all finite; write numbers where they are not")
    if least < 0 and mean < density.std() / 10:  # linear theory has a little below 0, too, about a mean of 1
        raise ValueError(
            f"the cube is a contrast, of a mean of {mean:.2g} and down to {least:.3g}; give 1 + contrast, to power "
            "with shot_noise=True, as it does not tell how many particles there are"
        )
    if mean == 0:
        raise ValueError("the cube is empty: its overdensity is not defined")
    modes = np.asarray(scipy.fft.rfftn(density / mean - 1), dtype=np.complex128)
    modes /= density.size * _geometry(counts.shape[0]).window
    return modes


def _shells(values: Array) -> Array:
    shells = _geometry(values.shape[0])
    return np.bincount(shells.shell.ravel(), (shells.weight * values).ravel())[1:] / shells.count
