from types import SimpleNamespace

import numpy as np
import pytest

from climlab_dl.cosmology import volumes
from climlab_dl.cosmology.volumes import Volume
from climlab_dl.inference import calibration, posterior
from climlab_dl.inference.densities import LinearLikelihood
from climlab_dl.inference.posterior import Posterior

LOW, HIGH = np.array([0.2, 0.7]), np.array([0.4, 0.9])


class Estimates(SimpleNamespace):
    """Instead of a network: a cube of two voxels' worth of estimates, which are the parameters with noise of 0.1."""

    names = ("Omega_m", "sigma_8")

    def of(self, source, prior=None):
        rows = [(v.counts[0, 0, 0].astype(float) / 1e4, v.physical, v.unit) for v in volumes.open(source)]
        found, physical, unit = (np.array(column) for column in zip(*rows, strict=True))
        return found, physical, unit


@pytest.fixture(scope="module")
def universes(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("universes"), np.random.default_rng(0)
    for number in range(150):
        unit = random.uniform(-1, 1, 2)
        found = LOW + (unit + 0.1 * random.normal(size=2) + 1) / 2 * (HIGH - LOW)
        volume = Volume(
            counts=np.rint(1e4 * found).astype(np.int16).reshape(1, 1, 1, 2), source=folder, names=Estimates.names,
            unit=unit, physical=LOW + (unit + 1) / 2 * (HIGH - LOW), redshifts=np.array([0.0, 1.0]),
        )  # fmt: skip
        volumes.save(volume, folder / f"universe_{number:05d}.h5")
    return folder


def fitted(spread: float) -> Posterior:
    """Posterior of the right likelihood, but for the spread."""
    likelihood = LinearLikelihood(
        coefficients=np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), scatter=np.eye(2) * spread**2, freedom=1000
    )
    return Posterior(summaries=Estimates(), low=LOW, high=HIGH, likelihood=likelihood, method="exact")  # type: ignore[arg-type]


def test_the_right_posterior_passes_in_silence(universes):
    checked = calibration.check(fitted(0.1), universes, draws=200)
    assert checked.ok
    assert checked.prior == {"Omega_m": (0.2, 0.4), "sigma_8": (0.7, 0.9)}
    assert len(checked.truth) == 150


def test_universes_too_few_to_tell_are_said(universes):
    files = sorted(universes.iterdir())[:10]
    with pytest.warns(UserWarning, match=r"10 universes .* can hardly tell .* three times too narrow .* at least 30"):
        checked = calibration.check(fitted(0.1), files, draws=200)
    assert checked.few
    with pytest.warns(UserWarning, match="not calibrated on 10 held-out universes") as told:
        calibration.check(fitted(0.003), files, draws=200)
    assert len(told) == 1


def test_a_posterior_that_is_too_sure_warns_with_what_to_do(universes):
    with pytest.warns(UserWarning, match=r"not calibrated on 150 held-out universes .*outside its band.*give more"):
        checked = calibration.check(fitted(0.03), universes, draws=200)
    assert not checked.ok


def test_volumes_in_memory_are_checked_as_their_files_are(universes):
    read = list(volumes.open(universes))
    expected = calibration.check(fitted(0.1), universes, draws=50)
    for given in (read, iter(read), [universes / "universe_00000.h5", *read[1:]]):
        np.testing.assert_array_equal(calibration.check(fitted(0.1), given, draws=50).draws, expected.draws)


def test_the_posterior_of_no_volume_is_refused():
    for nothing in ([], iter(())):
        with pytest.raises(ValueError, match="there is no volume to draw the posterior of; give one, its file"):
            posterior.draw(fitted(0.1), nothing)


@pytest.mark.parametrize("nonsense", [3, [3], None])
def test_what_are_no_universes_is_said_by_its_type(nonsense):
    with pytest.raises(TypeError, match=r"expected universes as a file, .*found a value of type (int|NoneType)"):
        calibration.check(fitted(0.1), nonsense)
