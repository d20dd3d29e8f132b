import numpy as np
import pytest

from climlab_dl.inference.coverage import Calibration
from climlab_dl.plot import calibrated


@pytest.fixture
def checked() -> Calibration:
    """Posteriors of half the spread that they should have, in a prior from 0.2 to 0.4 and from 0.7 to 0.9."""
    random = np.random.default_rng(0)
    truth = random.uniform(-0.8, 0.8, (200, 2))
    seen = truth + 0.1 * random.normal(size=truth.shape)
    draws = seen[:, None] + 0.05 * random.normal(size=(200, 100, 2))
    prior = {"Omega_m": (0.2, 0.4), "sigma_8": (0.7, 0.9)}
    return Calibration(names=tuple(prior), truth=truth, draws=draws, prior=prior)


def test_too_narrow_posteriors_leave_the_bands(checked, tmp_path):
    figure = calibrated.calibration(checked, path=tmp_path / "calibration.png")
    assert (tmp_path / "calibration.png").read_bytes()[:4] == b"\x89PNG"
    ranks, coverage, joint = figure.axes
    assert "outside" in joint.get_title()
    # At half the spread a 68% interval holds the truth in 38% of the universes: 0.30 less than its level.
    level, off = coverage.get_lines()[0].get_data()
    assert np.interp(0.68, np.asarray(level, float), np.asarray(off, float)) == pytest.approx(-0.30, abs=0.07)
    shown = ranks.get_legend()
    assert shown is not None
    assert len(shown.get_texts()) == 2


def test_predictions_are_in_physical_units_with_their_errors(checked, tmp_path):
    figure = calibrated.predicted(checked, path=tmp_path / "predicted.png")
    assert (tmp_path / "predicted.png").stat().st_size > 10_000
    above, below = figure.axes[0], figure.axes[2]
    # An error of 0.1 in units of the prior, which is 0.2 wide and spans 2 units: 0.01.
    rmse = float(above.get_title().split("RMSE ")[1].split(",")[0])
    assert rmse == pytest.approx(0.01, rel=0.15)
    assert 0.2 < above.get_xlim()[0] < above.get_xlim()[1] < 0.4
    assert below.get_xlabel() == "true Ωₘ"
