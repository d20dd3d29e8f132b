import os
from dataclasses import replace

import numpy as np
import pytest

from climlab_dl.cosmology import linear, particles, simulate, spectrum, volumes

TINY = replace(simulate.tour(), particles=12, voxels=12, box_size_mpc_h=48.0, steps=3)


def test_a_design_fills_the_prior_and_can_be_extended():
    few, many = simulate.design(8, seed=3, preset=TINY), simulate.design(64, seed=3, preset=TINY)
    np.testing.assert_array_equal(few.unit, many.unit[:8])
    assert [few.noise_seed(i) for i in range(8)] == [many.noise_seed(i) for i in range(8)]
    low, high = np.array(list(TINY.ranges.values())).T
    assert np.all((many.physical >= low) & (many.physical < high))
    # Sobol points of a power of two have one in each of as many equal slices of each parameter.
    for column in many.unit.T:
        assert len(set(((column + 1) / 2 * 64).astype(int))) == 64
    assert list(many.table().columns) == ["Omega_m", "sigma_8", "n_s"]
    assert "64 universes" in repr(many)


@pytest.mark.parametrize("sampling", ["latin", "uniform"])
def test_other_samplings_stay_in_the_ranges_given(sampling):
    preset = replace(TINY, fixed={"sigma_8": 0.8, "n_s": 1.0}, ranges={"Omega_m": (0.1, 0.5)})
    found = simulate.design(50, {"Omega_m": (0.2, 0.4)}, seed=1, preset=preset, sampling=sampling)
    assert found.names == ("Omega_m",)
    assert 0.2 <= found.physical.min() < 0.25
    assert 0.35 < found.physical.max() <= 0.4


def test_a_design_of_too_few_or_unknown_parameters_is_refused_with_what_to_do():
    # It ended in a TypeError of a constructor that nobody had called.
    ranges = {"Omega_m": (0.1, 0.5), "sigma_8": (0.6, 1.0)}
    with pytest.raises(ValueError, match=r"^n_s neither varies .* dataclasses\.replace\(.*fixed=\{'n_s': 0\.96\}"):
        simulate.design(8, ranges, preset=TINY)
    assert simulate.design(8, ranges, preset=replace(TINY, fixed={"n_s": 0.96})).names == ("Omega_m", "sigma_8")
    with pytest.raises(ValueError, match="a cosmology has no w_0; it has Omega_m"):
        simulate.design(8, {**ranges, "w_0": (-1.2, -0.8)}, preset=TINY)


def test_seeds_are_all_different():
    design = simulate.design(1000, seed=0, preset=TINY)
    assert len({design.noise_seed(i) for i in range(1000)}) == 1000
    assert design.noise_seed(0) != simulate.design(1, seed=1, preset=TINY).noise_seed(0)


def test_a_universe_has_the_asked_redshifts_and_all_its_mass():
    counts = simulate.universe({"Omega_m": 0.3, "sigma_8": 0.8, "n_s": 0.96}, TINY, seed=1)
    assert counts.shape == (12, 12, 12, 2)
    assert counts.dtype == np.int16
    np.testing.assert_array_equal(counts.sum((0, 1, 2)), 12**3)
    # Structure grows: today's counts vary more than those at z = 1.5, of the same phases.
    assert counts[..., 0].var() > 1.5 * counts[..., 1].var()
    same_phases = spectrum.cross_correlation(counts[..., 0], counts[..., 1], 48.0)
    assert same_phases["r"].to_numpy()[0] > 0.9


def test_steps_end_at_every_redshift():
    edges = simulate.laptop().edges()
    assert len(edges) == simulate.laptop().steps + 1
    for z in simulate.laptop().redshifts:
        assert np.isclose(edges, 1 / (1 + z)).any()
    assert np.all(np.diff(edges) > 0)
    np.testing.assert_allclose(simulate.cosmoflow2018().edges(), np.linspace(0.1, 1, 11))


def test_a_file_has_the_layout_of_the_original_set(tmp_path):
    design = simulate.design(2, seed=0, preset=TINY)
    path = simulate.simulate(design, tmp_path, 1)
    assert path.name == "universe_00001.h5"
    (found,) = volumes.read(path)
    assert found.parameters == pytest.approx(dict(design.table().loc[1]))
    assert found.unit is not None
    np.testing.assert_allclose(found.unit, design.unit[1])
    assert (found.box_size_mpc_h, found.periodic) == (48.0, True)
    assert found.attributes["seed"] == design.noise_seed(1)
    assert found.attributes["transfer"] == "eisenstein-hu"


def test_what_is_there_is_kept_and_what_is_missing_is_made(tmp_path):
    design = simulate.design(3, seed=0, preset=TINY)
    first = simulate.simulate(design, tmp_path, 0)
    os.utime(first, (1, 1))
    (tmp_path / ".universe_00001.h5.left-by-a-kill").write_bytes(b"half")
    assert [p.name for p in simulate.share(design, tmp_path)] == [f"universe_0000{i}.h5" for i in range(3)]
    assert first.stat().st_mtime == 1
    assert len(volumes.files(str(tmp_path / "universe_*.h5"))) == 3


def test_the_preset_that_a_folder_was_made_with_is_named(tmp_path):
    simulate.simulate(simulate.design(1, seed=0, preset=simulate.tour()), tmp_path, 0)
    with pytest.raises(ValueError, match=r"128 instead of 256.*take preset=simulate\.tour\(\)"):
        simulate.simulate(simulate.design(1, seed=0), tmp_path, 0)


def test_another_universe_in_the_way_is_refused(tmp_path):
    simulate.simulate(simulate.design(1, seed=0, preset=TINY), tmp_path, 0)
    with pytest.raises(ValueError, match="another universe: its seed"):
        simulate.simulate(simulate.design(1, seed=1, preset=TINY), tmp_path, 0)
    was, now = TINY.steps, TINY.steps + 1
    with pytest.raises(ValueError, match=rf"another preset \(steps {was} instead of {now}\)\. Choose an empty folder"):
        simulate.simulate(simulate.design(1, seed=0, preset=replace(TINY, steps=now)), tmp_path, 0)
    with pytest.raises(IndexError, match="which has 1"):
        simulate.simulate(simulate.design(1, seed=0, preset=TINY), tmp_path, 1)


def test_shares_of_ranks_are_disjoint_and_complete_and_travel_by_pickle(tmp_path):
    import pickle

    design = simulate.design(5, seed=0, preset=TINY)
    shares = [{p.name for p in simulate.share(design, tmp_path, rank, 2)} for rank in (0, 1)]
    assert shares[0].isdisjoint(shares[1])
    assert len(shares[0] | shares[1]) == 5
    call = pickle.loads(pickle.dumps(simulate.into(tmp_path, design)))
    assert call(4) == simulate.path_of(tmp_path, 4)


@pytest.mark.mpi
@pytest.mark.slow
def test_a_universe_is_the_same_bit_for_bit_on_1_2_and_4_ranks(tmp_path, mpiexec):
    contents = []
    for ranks in (1, 2, 4):
        mpiexec(ranks, "tests/mpi/simulate_share.py", str(tmp_path / str(ranks)))
        contents.append([next(volumes.read(p)).counts.tobytes() for p in volumes.files(tmp_path / str(ranks))])
    assert len(contents[0]) == 5
    assert contents[0] == contents[1] == contents[2]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"start": 0.0}, "start"),
        ({"redshifts": (0.0, 9.0)}, "before the start"),
        ({"redshifts": (0.0, 0.0)}, "distinct"),
        ({"steps": 1}, "fewer than the redshifts"),
        ({"transfer": "bbks"}, "transfer"),
        ({"particles": 13}, "odd"),
        ({"ranges": {"Omega_m": (0.4, 0.3)}}, r"ranges\['Omega_m'\] = \(0.4, 0.3\) is no range"),
        ({"ranges": {"Omega_m": 0.3}}, "is no range"),
        ({"ranges": {}}, "ranges is empty"),
        ({"ranges": {"Omega_M": (0.2, 0.3)}}, "a cosmology has no Omega_M"),
        ({"ranges": {"Omega_m": (0.2, 0.3), "sigma_8": (0.5, 3.0), "n_s": (0.9, 1.0)}}, "sigma_8 = 3.0 is not in"),
        ({"voxels": 0}, "voxels"),
    ],
)
def test_impossible_presets_are_refused_by_name(change, word):
    with pytest.raises(ValueError, match=word):
        replace(TINY, **change)


def test_the_mlperf_cube_is_constant_in_mpc_and_not_in_mpc_per_h():
    # int(512 H0 / 70) Mpc/h, so that a voxel is not 1 Mpc/h: 468 at H0 = 64.
    preset = simulate.mlperf()
    cosmology = preset.cosmology({"Omega_m": 0.3, "sigma_8": 0.8, "N_spec": 0.96, "H_0": 64.0})
    assert preset.box(cosmology) == 468.0
    assert preset.box(replace(cosmology, h=0.7)) == 512.0


def fixed_amplitude(cells: int, seed: int, sign: int = 1):
    """White noise whose modes all have their expected amplitude: the realisation's chance in P(k) is gone."""
    import torch

    modes = torch.fft.rfftn(particles.white_noise(cells, seed))
    return sign * torch.fft.irfftn(modes / modes.abs() * cells**1.5, s=(cells,) * 3)


# Power over HMcode-2020 in bins of k, for a pair of universes of fixed amplitude and opposite phases, which leaves
# little chance (Angulo & Pontzen 2016): as measured, where 2LPT alone has half the power at k = 0.3.
BINS = ((0.05, 0.1), (0.1, 0.2), (0.2, 0.4), (0.4, 0.7))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "tolerances"),
    [(simulate.laptop(), (0.04, 0.05, 0.1, 0.12)), (simulate.fine(), (0.04, 0.04, 0.05, 0.05))],
)
def test_power_agrees_with_the_emulated_spectrum(shared, preset, tolerances):
    reference = np.load(shared / "cosmology" / "reference" / "hm.npz")
    planck = linear.Cosmology(Omega_m=0.3089, Omega_b=0.0486, h=0.6774, n_s=0.9667, sigma_8=0.8159)
    cells, box, found = preset.particles, preset.box_size_mpc_h, []
    for sign in (1, -1):
        modes = particles.linear_modes(fixed_amplitude(cells, 0, sign), planck, box)
        frames = particles.evolve(modes, planck.Omega_m, box, preset.edges(), preset.mesh_factor * cells)
        *_, (_, positions) = frames
        found.append(spectrum.power(particles.counts(positions, 128, box).numpy(), box, shot_noise=True))
    table = (found[0] + found[1]) / 2
    emulated = np.interp(table["k"], reference["k"], reference["nl"])
    for (low, high), tolerance in zip(BINS, tolerances, strict=True):
        used = (table["k"] > low) & (table["k"] < high)
        ratio = np.sum(table["modes"][used] * table["P"][used]) / np.sum(table["modes"][used] * emulated[used])
        assert ratio == pytest.approx(1, abs=tolerance), (low, high)


@pytest.mark.slow
def test_fewer_particles_make_the_same_structures():
    # The same phases with 32^3 and with 64^3 particles: correlated to 0.98 where the fewer still resolve anything.
    import torch

    box, planck = 128.0, linear.Cosmology(Omega_m=0.3089, sigma_8=0.8159, n_s=0.9667)
    many = torch.fft.fftn(particles.white_noise(64, 4))
    keep = [*range(16), *range(48, 64)]
    few = torch.fft.ifftn(many[keep][:, keep][:, :, keep] / 8**0.5).real.float()
    few = few / few.std()
    counts = []
    for noise in (particles.white_noise(64, 4), few):
        modes = particles.linear_modes(noise, planck, box)
        *_, (_, positions) = particles.evolve(modes, planck.Omega_m, box, np.linspace(0.2, 1, 6))
        counts.append(particles.overdensity(positions, 32, box).numpy() + 1)
    r = spectrum.cross_correlation(counts[0], counts[1], box)
    assert r.loc[r["k"] < 0.2, "r"].to_numpy().min() > 0.97


@pytest.mark.slow
def test_a_universe_from_camb_is_another_but_much_the_same(tmp_path):
    # The two transfer functions differ by percents: the same phases, cell by cell almost the same structures.
    pytest.importorskip("camb", reason="the extra 'sim' is not installed")
    exact = replace(TINY, transfer="camb")
    path = simulate.simulate(simulate.design(1, seed=0, preset=exact), tmp_path / "camb", 0)
    (found,) = volumes.read(path)
    (plain,) = volumes.read(simulate.simulate(simulate.design(1, seed=0, preset=TINY), tmp_path / "plain", 0))
    assert found.attributes["transfer"] == "camb"
    assert found.counts.sum() == plain.counts.sum()
    assert (found.counts != plain.counts).any()
    assert spectrum.cross_correlation(found.counts[..., 0], plain.counts[..., 0], 48.0)["r"].iloc[0] > 0.98
    with pytest.raises(ValueError, match="another preset"):
        simulate.simulate(simulate.design(1, seed=0, preset=TINY), tmp_path / "camb", 0)
