"""Regions hold the share of the draws that they say."""

import numpy as np
import pytest

from climlab_dl.plot import credible

CENTRE, LIMITS = (0.3, 0.8), ((0.1, 0.5), (0.6, 1.0))


def test_regions_hold_their_share_of_the_draws():
    random = np.random.default_rng(0)
    x, y = (random.normal(middle, 0.03, 4000) for middle in CENTRE)
    # Of a round normal, 68% lie within 1.51 spreads and 95% within 2.45; smoothing widens both by a few percent.
    across, along, density = credible.smoothed(x, y, LIMITS)
    for level, threshold, radius in zip(credible.LEVELS, credible.thresholds(density), (1.51, 2.45), strict=True):
        assert density[density >= threshold].sum() / density.sum() == pytest.approx(level, abs=0.03)
        area = (density >= threshold).sum() * (across[1] - across[0]) * (along[1] - along[0])
        assert np.sqrt(area / np.pi) / 0.03 == pytest.approx(radius, rel=0.1)


def test_regions_end_at_the_priors_edge():
    # Draws that pile up at an edge: half a normal. Nothing of the outline lies beyond, and the mass stays within.
    random = np.random.default_rng(2)
    x, y = np.abs(random.normal(0, 0.1, 5000)), random.normal(0.5, 0.1, 5000)
    _, _, density = credible.smoothed(x, y, ((0, 1), (0, 1)))
    assert density.sum() == pytest.approx(5000, rel=1e-6)
    for line in credible.regions(x, y, ((0, 1), (0, 1))):
        assert line.min() >= 0


def test_bins_have_one_width_cover_the_limits_and_end_where_the_prior_does():
    for limits, prior in (
        ((0.05, 0.55), (0.1, 0.5)),
        ((0.2, 0.3), (0.1, 0.5)),
        ((0.2, 0.7), (0.1, 0.5)),
        ((0, 1), None),
    ):
        edges = credible.bins(limits, prior, count=10)
        np.testing.assert_allclose(np.diff(edges), edges[1] - edges[0])
        assert edges[0] <= limits[0] + 1e-9
        assert edges[-1] >= limits[1] - 1e-9
        for end in prior or ():
            assert not limits[0] < end < limits[1] or end in edges
    np.testing.assert_allclose(credible.bins((0.6, 0.7), (0.1, 0.5), count=10), np.linspace(0.6, 0.7, 11))
