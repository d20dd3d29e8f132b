from dataclasses import replace

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
    _, coverage, joint = figure.axes
    assert "outside" in joint.get_title()
    # At half the spread a 68% interval holds the truth in 38% of the universes: 0.30 less than its level.
    level, off = coverage.get_lines()[0].get_data()
    assert np.interp(0.68, np.asarray(level, float), np.asarray(off, float)) == pytest.approx(-0.30, abs=0.07)
    assert [text.get_text().split(":")[0] for text in figure.legends[0].get_texts()] == ["Ωₘ", "σ₈"]
    assert figure.get_suptitle() == "200 universes of known parameters; 95% bands in grey"


def test_keys_lie_on_no_panel(checked, tmp_path):
    figure = calibrated.calibration(checked, path=tmp_path / "calibration.png")
    [key] = figure.legends
    assert all(axes.get_legend() is None for axes in figure.axes)
    assert not any(key.get_window_extent().overlaps(axes.get_window_extent()) for axes in figure.axes)


@pytest.mark.parametrize(("off", "first"), [(0.1, "up"), (-0.1, "down")])
def test_posteriors_that_lie_too_high_go_up_first(checked, off, first):
    # The truth is then below most draws: its ranks are small, and more of them are found early than expected.
    lines = calibrated.calibration(replace(checked, draws=checked.draws + off)).axes[0].get_lines()[:2]
    excess = np.concatenate([np.asarray(line.get_ydata(), float) for line in lines])
    assert (excess.max() > 0.3) == (first == "up")
    assert (excess.min() < -0.3) == (first == "down")


def test_every_parameter_has_its_curve_however_many_there_are(checked):
    five = replace(checked, names=tuple("abcde"), truth=checked.truth[:, [0, 1, 0, 1, 0]], prior=None,
                   draws=checked.draws[..., [0, 1, 0, 1, 0]])  # fmt: skip
    figure = calibrated.calibration(five)
    assert len(figure.legends[0].get_texts()) == 5
    # And the line at zero.
    assert [len(axes.get_lines()) for axes in figure.axes[:2]] == [6, 6]


def test_too_few_universes_are_said(checked):
    few = replace(checked, truth=checked.truth[:10], draws=checked.draws[:10])
    assert "10 universes of known parameters, too few to contradict much;" in calibrated.calibration(few).get_suptitle()
    wrong = replace(few, draws=few.draws + 0.5)  # which ten suffice to see
    assert calibrated.calibration(wrong).get_suptitle() == "10 universes of known parameters; 95% bands in grey"


def test_predictions_are_in_physical_units_with_their_errors(checked, tmp_path):
    figure = calibrated.predicted(checked, path=tmp_path / "predicted.png")
    assert (tmp_path / "predicted.png").stat().st_size > 10_000
    above, below = figure.axes[0], figure.axes[2]
    # An error of 0.1 in units of the prior, which is 0.2 wide and spans 2 units: 0.01.
    rmse = float(above.get_title().split("RMSE ")[1].split(",")[0])
    assert rmse == pytest.approx(0.01, rel=0.15)
    assert 0.2 < above.get_xlim()[0] < above.get_xlim()[1] < 0.4
    assert below.get_xlabel() == "true Ωₘ"
