"""Regions that hold a share of the draws."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Limits = tuple[tuple[float, float], tuple[float, float]]
LEVELS = (0.68, 0.95)


def bins(limits: tuple[float, float], prior: tuple[float, float] | None, count: int = 36) -> Array:
    """Edges of bins of one width over the limits, of which the prior's ends are two: no bar is cut by them.

    What of the prior lies within the limits has so many bins.
    """
    low, high = limits if prior is None else (max(prior[0], limits[0]), min(prior[1], limits[1]))
    if not low < high:  # draws that lie outside the prior altogether
        low, high = limits
    width = (high - low) / count
    below, above = (int(np.ceil(gap / width - 1e-9)) for gap in (low - limits[0], limits[1] - high))
    within = np.linspace(low, high, count + 1)
    parts = [low - width * np.arange(below, 0, -1), within, high + width * np.arange(1, above + 1)]
    return np.concatenate(parts).astype(np.float64)


def smoothed(x: Array, y: Array, limits: Limits, bins: int = 100) -> tuple[Array, Array, Array]:
    """Density of two variables on a grid: places along x, along y, and the (x, y) density, smoothed by a Gaussian.

    The Gaussian's width is Scott's rule for two dimensions, n^(-1/6) standard deviations. What it would carry beyond
    the limits is reflected back, so that limits at a prior's edges keep the regions within.
    """
    from scipy.ndimage import gaussian_filter

    counts, x_edges, y_edges = np.histogram2d(x, y, bins=bins, range=limits)
    pairs = ((x, x_edges), (y, y_edges))
    widths = [np.std(values) * len(values) ** (-1 / 6) / (edges[1] - edges[0]) for values, edges in pairs]
    middles = [(edges[1:] + edges[:-1]) / 2 for _, edges in pairs]
    return middles[0], middles[1], gaussian_filter(counts, widths, mode="reflect")


def thresholds(density: Array, levels: tuple[float, ...] = LEVELS) -> list[float]:
    """Density above which lies each share of the mass: the highest-density regions."""
    ordered = np.sort(density.ravel())[::-1]
    mass = np.cumsum(ordered) / ordered.sum()
    return [float(ordered[min(np.searchsorted(mass, level), len(ordered) - 1)]) for level in levels]


def regions(x: Array, y: Array, limits: Limits, levels: tuple[float, ...] = LEVELS) -> list[Array]:
    """Outlines of the highest-density regions of two columns, (points, 2) each; open at the limits."""
    from contourpy import contour_generator

    across, along, density = smoothed(x, y, limits)
    generator = contour_generator(across, along, density.T)
    return [np.asarray(line) for level in thresholds(density, levels) for line in generator.lines(level)]
