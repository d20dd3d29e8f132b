from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.cosmology import spectrum
from climlab_dl.cosmology.spectrum import Ridge
from climlab_dl.cosmology.volumes import Volume


def test_power_of_one_wave_is_in_one_bin():
    # delta = a cos(k x) has two modes of amplitude a / 2; on average over the 18 of the first shell (|n| < 1.5),
    # P = V (a^2 / 4) 2 / 18. A voxel of the box keeps sinc(1 / n) of the amplitude at its centre, which is put back.
    n, box, a = 16, 100.0, 0.1
    x = (np.arange(n) + 0.5) / n * 2 * np.pi
    density = 1 + a * np.sinc(1 / n) * np.cos(x)[:, None, None] * np.ones((n, n, n))
    table = spectrum.power(density, box, shot_noise=True)
    power = table["P"].to_numpy()
    assert table["modes"].to_numpy()[0] == 18
    assert power[0] == pytest.approx(box**3 * a**2 / 4 * 2 / 18, rel=1e-9)
    assert np.abs(power[1:]).max() < 1e-9 * power[0]


def test_poisson_counts_have_shot_noise_and_nothing_else():
    # Each particle's own power is volume over particles before the voxels' smoothing is divided out. Without it nothing
    # is left: the mean of 16,000 modes of exponentially distributed power scatters by 0.8% of the noise.
    counts = np.random.default_rng(0).poisson(2.0, (32, 32, 32))
    noise = 100.0**3 / counts.sum()
    clean = spectrum.power(counts, 100.0)
    assert np.average(clean["P"], weights=clean["modes"]) == pytest.approx(0, abs=0.04 * noise)
    raw = spectrum.power(counts, 100.0, shot_noise=True)
    assert (raw["P"] - clean["P"]).to_numpy()[0] == pytest.approx(noise, rel=0.01)  # the largest waves see no voxels


@given(st.integers(0, 1000), st.sampled_from([6, 7, 8]))
def test_power_does_not_depend_on_where_the_cube_is_cut_or_how_it_is_turned(seed, n):
    counts = np.random.default_rng(seed).poisson(3.0, (n, n, n))
    turned = np.roll(counts, (1, 2, 3), (0, 1, 2)).transpose(2, 0, 1)[::-1]
    one, other = spectrum.power(counts, 50.0), spectrum.power(turned, 50.0)
    np.testing.assert_allclose(one["P"], other["P"], rtol=1e-8, atol=1e-8)
    assert one["modes"].iloc[0] == 18


def test_a_field_correlates_with_itself_and_not_with_another():
    random = np.random.default_rng(1)
    one, other = random.poisson(3.0, (2, 24, 24, 24))
    np.testing.assert_allclose(spectrum.cross_correlation(one, 5 * one, 50.0)["r"], 1)
    assert spectrum.cross_correlation(one, other, 50.0)["r"].abs().iloc[3:].max() < 0.25
    with pytest.raises(ValueError, match="one size"):
        spectrum.cross_correlation(one, other[:12, :12, :12], 50.0)


def test_distribution_sums_to_one_and_knows_a_uniform_cube():
    counts = np.random.default_rng(2).poisson(1.0, (8, 8, 8))
    for block in (1, 2, 4):
        assert spectrum.distribution(counts, block).sum() == pytest.approx(1)
    # A uniform cube is at its mean everywhere: bin 4 of 11, which begins at 1.0.
    assert spectrum.distribution(np.ones((4, 4, 4)), 2).tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="divisor"):
        spectrum.distribution(counts, 3)


def test_what_is_no_cube_or_empty_is_refused():
    with pytest.raises(ValueError, match="one redshift"):
        spectrum.power(np.ones((4, 4, 4, 2)), 10.0)
    with pytest.raises(ValueError, match="empty"):
        spectrum.power(np.zeros((4, 4, 4)), 10.0)


VOLUME = Volume(counts=np.ones((4, 4, 4, 1)), source=Path("made"))


@pytest.mark.parametrize(
    ("cube", "said"),
    [
        (VOLUME, r"found a Volume; of a volume give counts\[\.\.\., 0\]"),
        ([[[1.0]]], "found a list"),
        (np.ones((4, 4, 4), complex), "found an array of complex128"),
        (np.ones((4, 4, 4), bool), "found an array of bool"),
    ],
    ids=["volume", "list", "complex", "bool"],
)
def test_what_is_no_array_of_numbers_is_refused_with_what_is_expected(cube, said):
    with pytest.raises(TypeError, match=f"expected a cube, a NumPy array of numbers, {said}"):
        spectrum.power(cube, 10.0)
    with pytest.raises(TypeError, match=said):
        spectrum.cross_correlation(cube, cube, 10.0)


@pytest.mark.parametrize("box", [None, "128", True, 0.0, -1, float("nan"), float("inf")])
def test_a_box_without_a_side_is_refused(box):
    cube = np.ones((4, 4, 4))
    for measure in (lambda: spectrum.power(cube, box), lambda: spectrum.cross_correlation(cube, cube, box)):
        with pytest.raises((TypeError, ValueError), match=r"box_size_mpc_h = .*; expected the cube's side in Mpc/h"):
            measure()


def test_a_contrast_is_told_how_to_be_given():
    # Of 1 + contrast the spectrum is that of the density, whatever its unit.
    density = np.random.default_rng(4).gamma(2.0, size=(8, 8, 8))
    contrast = density / density.mean() - 1
    for cube in (contrast, contrast + 0.01):  # a part of a larger one has another mean
        with pytest.raises(ValueError, match=r"is a contrast, .*give 1 \+ contrast, to power with shot_noise=True"):
            spectrum.power(cube, 10.0)
    np.testing.assert_allclose(
        spectrum.power(1 + contrast, 10.0, shot_noise=True), spectrum.power(density, 10.0, shot_noise=True)
    )
    with pytest.raises(ValueError, match="not all finite"):
        spectrum.power(np.full((4, 4, 4), np.nan), 10.0)


def test_ridge_finds_a_line_and_ignores_what_never_varies():
    random = np.random.default_rng(3)
    features = np.column_stack([random.normal(size=(200, 4)), np.full(200, 7.0)])
    targets = features[:, :4] @ random.normal(size=(4, 2)) + 3
    fitted = Ridge.fit(features, targets)
    np.testing.assert_allclose(fitted.predict(features), targets, atol=1e-2)
    with pytest.raises(ValueError, match="too few"):
        Ridge.fit(features[:2], targets[:2])


def test_ridge_chooses_a_strong_penalty_where_there_is_nothing_to_learn():
    random = np.random.default_rng(4)
    features, targets = random.normal(size=(60, 40)), random.normal(size=(60, 1))
    fitted = Ridge.fit(features, targets)
    assert fitted.predict(random.normal(size=(500, 40))).std() < 0.35 * targets.std()


@pytest.mark.slow
def test_ridge_on_published_features_reaches_the_published_errors(shared):
    # 553 boxes of 64^3; the reference found, by 6-fold cross-validation, .0204 / .0155 from ln P(k < .8) alone and
    # .0196 / .0106 with the one-point distribution (columns: 32 of ln P, then 30).
    table = np.load(shared / "cosmology" / "reference" / "pk_pdf_features_553sims.npz")
    features, theta = table["F"].astype(float), table["theta"].astype(float)
    fold = np.arange(len(theta)) % 6

    def errors(columns):
        found = np.empty_like(theta)
        for one in range(6):
            found[fold == one] = Ridge.fit(features[fold != one][:, columns], theta[fold != one]).predict(
                features[fold == one][:, columns]
            )
        return np.sqrt(np.mean((found - theta) ** 2, axis=0))

    assert errors(slice(0, 32))[:2] == pytest.approx([0.0204, 0.0155], abs=0.0012)
    assert errors(slice(None))[:2] == pytest.approx([0.0196, 0.0106], abs=0.0012)


def test_baselines_are_better_than_the_prior_on_universes_that_differ_in_one_number():
    # Poisson cubes whose clumps are larger the larger the parameter: both the spectrum and the distribution know it.
    random = np.random.default_rng(5)

    def universe(value: float) -> Volume:
        clumps = random.poisson(0.5, (8, 8, 8, 1)) * np.exp(value)
        return Volume(
            counts=random.poisson(clumps + 1),
            source=Path("made"),
            names=("Omega_m",),
            physical=np.array([value]),
            unit=np.array([value]),
            box_size_mpc_h=50.0,
        )

    made = [universe(value) for value in random.uniform(-1, 1, 60)]
    table = spectrum.baselines(made[:40], made[40:])
    assert list(table.index) == ["prior", "ridge ln P", "ridge ln P + PDF"]
    assert table.loc["ridge ln P", "Omega_m"] < 0.75 * table.loc["prior", "Omega_m"]
    assert table.loc["ridge ln P + PDF", "Omega_m"] < 0.4 * table.loc["prior", "Omega_m"]
    with pytest.raises(ValueError, match="split"):
        spectrum.baselines([], made)
