from pathlib import Path

import numpy as np
import pytest
import torch

from climlab_dl.inference.densities import FlowLikelihood, LinearLikelihood
from climlab_dl.inference.sharing import warn_of_others

NAMES, FILES = ("Omega_m", "sigma_8"), [Path("a.h5"), Path("b.h5"), Path("c.h5")]
# Scatter of 0.1, whose size is known from ten universes beyond the parameters.
KNOWN = LinearLikelihood(
    coefficients=np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), scatter=np.eye(2) * 0.01, freedom=10
)


def test_the_agreement_of_two_volumes_is_hotellings():
    # The difference 0.6 of one parameter has the variance 2 * 0.01: chi-square 18, of two terms, so that F is 9. With 2
    # and m degrees of freedom F is above x with probability (1 + 2 x / m)^(-m / 2), here 2.8^-5.
    assert KNOWN.agreement(np.array([[0.3, 0.0], [-0.3, 0.0]])) == pytest.approx(2.8**-5)
    np.testing.assert_allclose(KNOWN.distances(np.array([[0.3, 0.0], [-0.3, 0.0]])), [[18**0.5, 0], [-(18**0.5), 0]])
    assert KNOWN.agreement(np.array([[0.3, 0.0]])) == 1
    flow = FlowLikelihood(linear=KNOWN, whiten=np.eye(2), flow=torch.nn.Identity(), score=0.0)
    assert flow.agreement(np.array([[0.3, 0.0], [-0.3, 0.0]])) == pytest.approx(2.8**-5)


@pytest.mark.parametrize(("universes", "volumes"), [(9, 2), (9, 10), (40, 5)])
def test_volumes_of_one_universe_contradict_each_other_no_more_often_than_chance_allows(universes, volumes):
    random, found = np.random.default_rng(0), []
    for _ in range(2000):
        unit = random.uniform(-1, 1, (universes, 3))
        likelihood = LinearLikelihood.fit(unit + random.normal(size=unit.shape), unit)
        found.append(likelihood.agreement(random.normal(size=(volumes, 3))))
    # Of 2000 at most 20 are expected below 0.01; 35 would be once in a thousand times.
    assert np.sum(np.array(found) < 0.01) < 35


def test_estimates_that_contradict_each_other_are_said_with_the_one_that_is_far(caplog):
    warn_of_others(FILES, [None] * 3, np.array([[0.0, 0.0], [0.05, -0.1], [0.0, 0.1]]), KNOWN, NAMES)
    warn_of_others(FILES[:1], [None], np.array([[0.0, 5.0]]), KNOWN, NAMES)
    assert not caplog.records
    warn_of_others(FILES, [None] * 3, np.array([[0.0, 0.0], [0.0, -1.0], [0.0, 0.1]]), KNOWN, NAMES)
    (record,) = caplog.records
    # 1.05 below the mean of the two others, over 0.1 * sqrt(3 / 2). Chi-square of four terms: (1.05 * 2 / 3)^2 * 3 / 2
    # and 0.1^2 / 2, over 0.01: 74. With y = 10 / (10 + 74) the F test's p is y^5 (6 - 5 y).
    assert "sigma_8 of b.h5 lies 8.6 times the scatter below the mean of the others" in record.message
    assert "estimates of 3 volumes contradict each other (p = 0.0001)" in record.message
    assert "infer --apart" in record.message


def test_what_the_files_tell_comes_before_what_is_estimated(caplog):
    told = [np.array([0.3, 0.8]), None, np.array([0.3, 0.9])]
    warn_of_others(FILES, told, np.array([[0.0, 0.0], [0.0, -1.0], [0.0, 0.1]]), KNOWN, NAMES)
    (record,) = caplog.records
    assert record.message.startswith("a.h5, c.h5: volumes")
    assert "the files tell 2 sets of them; draw from those of one universe at a time" in record.message
