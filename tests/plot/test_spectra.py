"""Spectra are those of linear theory, and a volume's stand beside it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from climlab_dl.cosmology import linear, simulate, spectrum
from climlab_dl.cosmology.volumes import Volume
from climlab_dl.plot import spectra

TRUTH = {"Omega_m": 0.3, "sigma_8": 0.8, "n_s": 1.0}


def test_the_spectra_are_those_of_the_draws():
    random = np.random.default_rng(0)
    draws = pd.DataFrame({name: random.normal(middle, 0.03, 1000) for name, middle in TRUTH.items()})
    found = spectra.of_draws(draws)
    assert found.shape == (spectra.DRAWS, len(spectra.K))
    cosmology = linear.Cosmology.from_named(draws.iloc[7].to_dict())
    np.testing.assert_allclose(found[7], linear.linear_power(spectra.K, cosmology))
    assert spectra.unfixed(draws.drop(columns="n_s")) == "linear theory needs n_s"
    assert spectra.unfixed([*draws, "w0"]) == "linear theory does not know w0"
    assert spectra.unfixed(draws.rename(columns={"n_s": "N_spec"})) == ""


def test_the_spectra_of_a_volume_stand_beside_linear_theory(tmp_path):
    preset = replace(simulate.tour(), particles=16, voxels=16, box_size_mpc_h=64.0, steps=3)
    universe = simulate.volume(TRUTH, preset, seed=0)
    figure = spectra.power(universe, path=tmp_path / "power.png")
    assert (tmp_path / "power.png").stat().st_size > 10_000
    lines = figure.axes[0].get_lines()
    assert len(lines) == 4
    # Linear theory at z = 1.5 is that of today times the growth squared.
    today, then = (np.asarray(lines[i].get_ydata(), dtype=float) for i in (1, 3))
    grown = linear.growth(np.array([1 / 2.5]), TRUTH["Omega_m"]).D[0]
    np.testing.assert_allclose(then / today, grown**2)
    with pytest.raises(ValueError, match="does not tell"):
        spectra.power(replace(universe, box_size_mpc_h=None))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"names": ("Omega_m", "S8", "n_s")}, "no lines: linear theory does not know S8"),
        ({"names": ("Omega_m", "sigma_8", "h")}, "no lines: linear theory needs n_s"),
        ({"physical": None}, "no lines of linear theory: parameters unknown"),
        ({"redshifts": None}, "no lines of linear theory: redshifts unknown"),
    ],
)
def test_a_volume_that_theory_knows_nothing_of_shows_what_was_measured(told, said, tmp_path):
    counts = np.random.default_rng(0).poisson(8.0, (16, 16, 16, 1))
    known = {"names": tuple(TRUTH), "physical": np.array(list(TRUTH.values())), "redshifts": np.zeros(1)}
    universe = Volume(counts=counts, source=tmp_path / "made.h5", box_size_mpc_h=64.0, **{**known, **told})
    axes = spectra.power(universe).axes[0]
    (measured,) = axes.get_lines()
    np.testing.assert_allclose(
        np.asarray(measured.get_ydata(), dtype=float), spectrum.power(counts[..., 0], 64.0)["P"].to_numpy()
    )
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == said
