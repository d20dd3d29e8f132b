import numpy as np
import pytest
from scipy.stats import norm

from climlab_dl.inference.coverage import FEWEST, Calibration, binomial_band, uniform_band


def posteriors(width: float = 1.0, shift: float = 0.0, universes: int = 400, seed: int = 0) -> Calibration:
    """Normal posteriors of the right spread times ``width``, off by ``shift`` spreads, in one corner of the prior."""
    random = np.random.default_rng(seed)
    truth = random.normal(size=(universes, 2)) * 0.1
    seen = truth + random.normal(size=truth.shape) * 0.1
    # Prior and noise of 0.1 each: the posterior is a normal around half of what was seen, of 0.1 / sqrt(2).
    spread = 0.1 / np.sqrt(2)
    draws = seen[:, None] / 2 + spread * (shift + width * random.normal(size=(universes, 300, 2)))
    return Calibration(names=("a", "b"), truth=truth, draws=draws)


def test_exact_posteriors_pass_every_test():
    checked = posteriors()
    assert checked.ok
    assert checked.p_values().min() > 0.05
    table = checked.coverage()
    for name in ("a", "b"):
        inside = (table[name] >= table["low"]) & (table[name] <= table["high"])
        assert inside.to_numpy().all()
    errors = checked.errors()
    np.testing.assert_allclose(errors["rmse"], errors["posterior std"], rtol=0.1)


@pytest.mark.parametrize("fault", [{"width": 0.6}, {"width": 1.6}, {"shift": 0.5}])
def test_posteriors_too_narrow_too_wide_or_off_fail(fault):
    assert not posteriors(**fault).ok


def test_narrow_posteriors_cover_too_little():
    # Of half the width, a 68% interval is the central 38%: erf(0.994 / 2 / sqrt 2).
    covered = posteriors(width=0.5).coverage((0.68,))
    assert covered[["a", "b"]].to_numpy() == pytest.approx(0.38, abs=0.06)


def test_tarp_sees_a_bias_and_its_band_holds_95_of_100():
    assert posteriors().tarp_ok
    assert not posteriors(shift=0.8).tarp_ok
    inside = sum(posteriors(universes=100, seed=seed).tarp_ok for seed in range(100))
    assert inside >= 88


def test_bands_are_the_known_ones():
    # Binomial: of 100 universes 59 to 77 have the truth in their 68% interval. Kolmogorov: 1.36 / sqrt(400) at 95%.
    low, high = binomial_band(np.array([0.68]), 100)
    assert (low[0], high[0]) == (0.59, 0.77)
    low, high = uniform_band(np.array([0.5]), 400)
    assert high[0] - 0.5 == pytest.approx(1.358 / 20, abs=1e-3)
    assert 0.5 - low[0] == pytest.approx(high[0] - 0.5)


def test_the_table_has_a_row_a_parameter_and_says_its_units():
    table = posteriors().table()
    assert list(table.index) == ["a", "b"]
    assert {"rmse", "p", "covered by 68%", "covered by 95%"} <= set(table.columns)
    assert "in half-widths of the prior" in table.to_string()
    # A flat variable of half-width 1 has the standard deviation 1 / sqrt 3.
    assert table["prior std"].to_numpy() == pytest.approx(0.5774, abs=1e-4)


def test_fewer_universes_than_thirty_let_posteriors_of_a_third_of_their_width_pass():
    # A normal truth z spreads from a posterior of a third of the width has the rank Phi(3 z): of the ranks below u are
    # Phi(Phi^-1(u) / 3), which is off u by 0.242 at most.
    levels = np.linspace(0.001, 0.999, 999)
    excess = np.abs(norm.cdf(norm.ppf(levels) / 3) - levels).max()
    widths = [uniform_band(np.array([0.5]), universes)[1][0] - 0.5 for universes in (FEWEST - 1, FEWEST + 1)]
    assert widths[0] > excess > widths[1]
    assert posteriors(universes=FEWEST - 1).few
    assert not posteriors(universes=FEWEST).few


def test_a_calibration_tells_its_verdict_in_one_line():
    right, narrow, few = (repr(posteriors(width, universes=n)) for width, n in ((1, 400), (0.5, 400), (1, 10)))
    assert right.startswith("<Calibration on 400 universes: nothing speaks against the posteriors; p a ")
    assert narrow.startswith("<Calibration on 400 universes: the posteriors are not calibrated; p a ")
    assert "10 universes: nothing speaks against the posteriors, but the universes are too few" in few
    # A tenth of the width: ten universes suffice to see it.
    assert "10 universes: the posteriors are not calibrated; p" in repr(posteriors(0.1, universes=10))
    assert right.endswith("TARP inside its band>")
    assert narrow.endswith("TARP outside its band>")
    assert "\n" not in right
