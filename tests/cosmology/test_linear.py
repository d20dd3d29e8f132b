import numpy as np
import pytest
from scipy.integrate import quad

from climlab_dl.cosmology.linear import Cosmology, eisenstein_hu, growth, linear_power, tophat

PLANCK = Cosmology(Omega_m=0.3089, Omega_b=0.0486, h=0.6774, n_s=0.9667, sigma_8=0.8159)


def test_eisenstein_hu_is_within_four_percent_of_a_boltzmann_code(shared):
    camb = np.load(shared / "cosmology" / "reference" / "hm.npz")
    used = (camb["k"] > 0.01) & (camb["k"] < 1)
    ratio = linear_power(camb["k"][used], PLANCK) / camb["lin"][used] - 1
    assert np.abs(ratio).max() < 0.04
    assert np.sqrt(np.mean(ratio**2)) < 0.02


def test_camb_gives_the_reference_spectrum(shared):
    pytest.importorskip("camb", reason="the extra 'sim' is not installed")
    reference = np.load(shared / "cosmology" / "reference" / "hm.npz")
    used = (reference["k"] > 0.01) & (reference["k"] < 1)
    ratio = linear_power(reference["k"][used], PLANCK, "camb") / reference["lin"][used]
    # The reference has one massive neutrino of 0.06 eV, which takes up to 0.4% of the power below k = 1.
    assert np.abs(ratio - 1).max() < 0.01


def test_power_is_normalised_to_sigma_8():
    def integrand(log_k):
        k = np.exp(log_k)
        return k**3 * linear_power(np.array([k]), PLANCK)[0] * tophat(8 * k) ** 2 / (2 * np.pi**2)

    variance, _ = quad(integrand, np.log(1e-4), np.log(20), limit=200)
    assert np.sqrt(variance) == pytest.approx(PLANCK.sigma_8, rel=1e-4)


def test_transfer_function_is_one_on_the_largest_scales_and_falls():
    k = np.geomspace(1e-5, 10, 300)
    transfer = eisenstein_hu(k, PLANCK)
    assert transfer[0] == pytest.approx(1, abs=1e-3)
    assert np.all(transfer > 0)
    assert transfer[-1] < 1e-3


def test_growth_without_dark_energy_is_exact():
    # In an Einstein-de Sitter universe D = a and E = -3/7 a^2, so dE/dD = -6/7 a.
    a = np.array([0.1, 0.5, 0.9])
    grown = growth(a, 1.0)
    np.testing.assert_allclose(grown.D, a, rtol=1e-6)
    np.testing.assert_allclose(grown.E, -3 / 7 * a**2, rtol=1e-6)
    np.testing.assert_allclose(grown.slope, -6 / 7 * a, rtol=1e-6)


def test_growth_agrees_with_heaths_integral():
    # Heath 1977: D(a) is proportional to H(a) times the integral of da / (a H)^3 in a universe of matter and Lambda.
    def hubble(a):
        return np.sqrt(0.3 / a**3 + 0.7)

    def heath(a):
        return hubble(a) * quad(lambda x: (x * hubble(x)) ** -3, 0, a)[0]

    expected = [heath(a) / heath(1) for a in (0.25, 0.5, 2 / 3)]
    np.testing.assert_allclose(growth(np.array([0.25, 0.5, 2 / 3]), 0.3).D, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "word"),
    [({"Omega_m": 0.0}, "Omega_m"), ({"Omega_b": 0.19, "Omega_m": 0.1}, "dark matter"), ({"h": 70}, "h")],
)
def test_impossible_universes_are_refused_by_name(change, word):
    with pytest.raises(ValueError, match=word):
        Cosmology(**{"Omega_m": 0.3, "sigma_8": 0.8, "n_s": 0.96, **change})


def test_names_of_the_mlperf_files_are_understood():
    found = Cosmology.from_named({"Omega_m": 0.3, "sigma_8": 0.8, "N_spec": 0.96, "H_0": 67.0})
    assert (found.n_s, found.h) == (0.96, 0.67)
    with pytest.raises(ValueError, match="no sigma8; it has Omega_m, sigma_8, n_s, Omega_b, h"):
        Cosmology.from_named({"Omega_m": 0.3, "sigma8": 0.8, "n_s": 0.96})
    with pytest.raises(ValueError, match="needs sigma_8, n_s as well"):
        Cosmology.from_named({"Omega_m": 0.3})
    with pytest.raises(ValueError, match="N_spec and n_s are one parameter"):
        Cosmology.from_named({"Omega_m": 0.3, "sigma_8": 0.8, "N_spec": 0.96, "n_s": 0.96})


def test_an_unknown_transfer_function_is_refused():
    with pytest.raises(ValueError, match="eisenstein-hu"):
        linear_power(np.array([0.1]), PLANCK, "bbks")
