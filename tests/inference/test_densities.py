import numpy as np
import pytest
from scipy.stats import kstest, truncnorm

from climlab_dl.inference.calibration import Calibration
from climlab_dl.inference.densities import FlowLikelihood, LinearLikelihood, log_posterior

SLOPE = np.array([[0.9, 0.1, 0.0], [0.1, 0.9, -0.1], [0.0, -0.2, 0.6]])
SCATTER = np.array([0.12, 0.1, 0.35])


def universes(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Summaries that are linear in uniform parameters, with Gaussian scatter, and the parameters."""
    random = np.random.default_rng(seed)
    unit = random.uniform(-1, 1, (n, 3))
    return unit @ SLOPE.T + random.normal(size=(n, 3)) * SCATTER, unit


def test_with_many_universes_draws_are_the_truncated_normal():
    # One parameter, slope 1, scatter 0.3, estimate 0.9: the posterior is a normal of mean 0.9 and deviation 0.3, cut
    # at the prior's edge 1.
    random = np.random.default_rng(0)
    unit = random.uniform(-1, 1, (20_000, 1))
    fitted = LinearLikelihood.fit(unit + 0.3 * random.normal(size=unit.shape), unit)
    draws = fitted.draw(np.array([[0.9]]), 4000, seed=1)[:, 0]
    exact = truncnorm((-1 - 0.9) / 0.3, (1 - 0.9) / 0.3, loc=0.9, scale=0.3)
    assert kstest(draws, exact.cdf).pvalue > 0.01


@pytest.mark.slow
def test_posteriors_from_twelve_universes_cover_the_truth_as_often_as_they_say():
    # Six hundred fits, each on twelve universes of its own: only then is the luck of a calibration set averaged over.
    # Binomial error of 68% is 1.9%, of 95% 0.9%; draws from a plain normal would cover 55% and 84%.
    inside = []
    for seed in range(600):
        summaries, unit = universes(13, seed)
        draws = LinearLikelihood.fit(summaries[:12], unit[:12]).draw(summaries[12:], 100, seed)
        inside.append(np.abs((draws < unit[12]).mean(0) - 0.5))
    for level in (0.68, 0.95):
        covered = np.mean(np.array(inside) <= level / 2, axis=0)
        assert covered == pytest.approx(level, abs=0.05)


def test_log_posterior_integrates_to_one_and_is_nothing_outside_the_prior():
    summaries, unit = universes(60, 3)
    fitted = LinearLikelihood.fit(summaries, unit)
    places = np.random.default_rng(0).uniform(-1, 1, (200_000, 3))
    density = np.exp(log_posterior(fitted, summaries[:1], places))
    assert density.mean() * 8 == pytest.approx(1, abs=0.05)
    outside = log_posterior(fitted, summaries[:1], np.array([[0.0, 0.0, 1.01]]))
    assert outside[0] == -np.inf


def test_several_volumes_of_one_universe_narrow_the_posterior():
    # Four independent estimates of equal scatter halve the width where the prior's edges are far.
    summaries, unit = universes(4000, 4)
    fitted = LinearLikelihood.fit(summaries, unit)
    truth = np.zeros((4, 3)) @ SLOPE.T
    one, four = fitted.draw(truth[:1], 4000, 0), fitted.draw(truth, 4000, 0)
    np.testing.assert_allclose(four.std(0)[:2] / one.std(0)[:2], 0.5, atol=0.05)


def test_draws_repeat_with_their_seed_and_stay_in_the_prior():
    summaries, unit = universes(40, 5)
    fitted = LinearLikelihood.fit(summaries, unit)
    far = np.array([[3.0, -3.0, 3.0]])  # an estimate far outside the prior
    first, again, other = (fitted.draw(far, 500, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.abs(first).max() <= 1


def test_too_few_universes_are_refused_with_the_number_needed():
    summaries, unit = universes(8, 6)
    with pytest.raises(ValueError, match="at least 9"):
        LinearLikelihood.fit(summaries, unit)


@pytest.mark.slow
def test_a_flow_learns_what_a_line_cannot():
    # Curved estimates whose scatter grows with the first parameter: the flow's posteriors are likelier and calibrated.
    def curved(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng(seed)
        unit = random.uniform(-1, 1, (n, 2))
        noise = random.normal(size=(n, 2)) * (0.08 + 0.07 * unit[:, :1])
        return np.tanh(1.5 * unit) + noise, unit

    summaries, unit = curved(500, 0)
    line, flow = LinearLikelihood.fit(summaries, unit), FlowLikelihood.fit(summaries, unit, epochs=40)
    test_summaries, truth = curved(150, 1)
    gain = [
        log_posterior(flow, s[None], t[None]) - log_posterior(line, s[None], t[None])
        for s, t in zip(test_summaries[:30], truth, strict=False)
    ]
    assert np.mean(gain) > 0.2
    draws = np.stack([flow.draw(s[None], 100, i) for i, s in enumerate(test_summaries)])
    checked = Calibration(names=("a", "b"), truth=truth, draws=draws)
    assert checked.p_values().min() > 0.005
    assert checked.tarp_ok
