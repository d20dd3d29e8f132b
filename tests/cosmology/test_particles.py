import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from climlab_dl.cosmology import linear, particles, spectrum

PLANCK = linear.Cosmology(Omega_m=0.3089, Omega_b=0.0486, h=0.6774, n_s=0.9667, sigma_8=0.8159)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def waves(cells: int, x: float, y: float) -> torch.Tensor:
    """Modes of x cos(k x) + y cos(k y) with the fundamental wavenumber, at the cells' centres."""
    places = (torch.arange(cells) + 0.5) * (2 * np.pi / cells)
    density = x * torch.cos(places)[:, None, None] + y * torch.cos(places)[None, :, None]
    return torch.fft.rfftn(density.expand(cells, cells, cells).float())


def measured(positions: torch.Tensor, box: float, cells: int = 64):
    return spectrum.power(particles.overdensity(positions, cells, box).double().numpy() + 1, box, shot_noise=True)


def last(frames):
    *_, (_, positions) = frames
    return positions


def test_first_order_displacement_of_a_wave_is_zeldovichs():
    # laplacian(phi) = a cos(kx) gives phi = -a cos(kx) / k^2; the displacement is -grad(phi) = -(a / k) sin(kx).
    box, cells, a = 100.0, 16, 0.1
    first, second = particles.displacements(waves(cells, a, 0), box)
    k = 2 * np.pi / box
    expected = -a / k * torch.sin(k * particles.lattice(cells, box, CPU)[:, 0])
    torch.testing.assert_close(first[:, 0], expected, atol=1e-4, rtol=1e-4)
    assert first[:, 1:].abs().max() < 1e-4
    assert second.abs().max() < 1e-4  # a single wave has no second order


def test_second_order_displacement_of_crossed_waves_is_known():
    # With phi = -(a cos kx + b cos ky) / k^2 the source is phi,xx phi,yy = a b cos kx cos ky, so that
    # phi2 = -a b cos kx cos ky / (2 k^2) and grad(phi2) has the x component a b sin kx cos ky / (2 k).
    box, cells, a, b = 100.0, 16, 0.2, 0.3
    _, second = particles.displacements(waves(cells, a, b), box)
    k = 2 * np.pi / box
    x, y, _ = particles.lattice(cells, box, CPU).unbind(1)
    expected = a * b / (2 * k) * torch.sin(k * x) * torch.cos(k * y)
    torch.testing.assert_close(second[:, 0], expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("edges", [(0.2, 1.0), (0.1, 0.5, 1.0)])
def test_bullfrog_steps_are_exact_to_second_order(edges):
    # Two crossed waves have a second-order displacement of known shape. Steps however long must arrive where 2LPT does:
    # what is left over has no more than 2% of that shape in it. Plain leapfrog in D leaves E(1) - E(0.2) of it, most.
    box, cells = 100.0, 24
    grown = linear.growth(np.array(edges), 0.3)
    modes = waves(cells, 0.2, 0.2)
    first, second = particles.displacements(modes, box)
    exact = particles.lattice(cells, box, CPU) + grown.D[-1] * first + grown.E[-1] * second
    miss = (last(particles.evolve(modes, 0.3, box, np.array(edges))) - exact + box / 2).remainder(box) - box / 2
    share = (miss * second).sum() / (grown.E[-1] * second.pow(2).sum())
    assert abs(share.item()) < 0.02


def test_pull_of_a_wave_is_its_zeldovich_velocity_times_growth():
    # The doubly deconvolved force of particles displaced by a small wave equals D times the displacement field.
    box, cells, growth = 100.0, 32, 0.5
    first, _ = particles.displacements(waves(cells, 0.02, 0), box)
    positions = (particles.lattice(cells, box, CPU) + growth * first).remainder(box)
    pull = particles.Gravity(cells, box, CPU)(positions)
    torch.testing.assert_close(pull[:, 0], growth * first[:, 0], atol=2e-3, rtol=0.03)


@pytest.mark.slow
def test_large_scales_grow_linearly():
    # In a cube of 1 Gpc/h with sigma_8 = 0.4, modes of k < 0.05 h/Mpc stay linear to better than 1%, and the power of
    # each is compared with its own at the start, which takes the realisation's chance out.
    box, cells = 1024.0, 64
    dim = linear.Cosmology(Omega_m=0.3089, Omega_b=0.0486, h=0.6774, n_s=0.9667, sigma_8=0.4)
    modes = particles.linear_modes(particles.white_noise(cells, 3), dim, box)
    positions = last(particles.evolve(modes, dim.Omega_m, box, np.linspace(0.2, 1, 6)))
    found = torch.fft.rfftn(particles.overdensity(positions, 2 * cells, box)) / 8
    axis = torch.fft.fftfreq(cells, 1 / cells) * 2 * np.pi / box
    k = (axis[:, None, None] ** 2 + axis[None, :, None] ** 2 + axis[None, None, : cells // 2 + 1] ** 2).sqrt()
    low = torch.nonzero((k > 0) & (k < 0.05))
    x, y, z = low.unbind(1)
    wide = found[torch.where(x < cells // 2, x, x + cells), torch.where(y < cells // 2, y, y + cells), z]
    # Cloud-in-cell painting on cells of 8 Mpc/h takes up to 3% of the power at k = 0.05: put it back.
    for number in (x, y, z):
        wide = wide / torch.sinc(torch.where(number < cells // 2, number, number - cells) / (2 * cells)) ** 2
    growth = wide.abs().pow(2).sum() / modes[x, y, z].abs().pow(2).sum()
    assert growth.item() == pytest.approx(1, abs=0.01)


def test_a_finer_mesh_and_an_early_start_leave_the_large_scales_alone():
    # The lattice of undisturbed particles is itself a pattern on a finer mesh. Were its waves not left out of the
    # force, 4 Mpc/h particles started at a = 0.1 would have 22% too much power at k = 0.1 to 0.2.
    modes = particles.linear_modes(particles.white_noise(32, 1), PLANCK, 128.0)
    early = measured(last(particles.evolve(modes, 0.3089, 128.0, np.linspace(0.1, 1, 9), 64)), 128.0)
    plain = measured(last(particles.evolve(modes, 0.3089, 128.0, np.linspace(0.2, 1, 6))), 128.0)
    used = early["k"] < 0.2
    ratio = np.average(early["P"][used], weights=early["modes"][used]) / np.average(
        plain["P"][used], weights=early["modes"][used]
    )
    assert ratio == pytest.approx(1, abs=0.03)


def test_a_shifted_universe_is_the_same_universe_shifted():
    # Nothing in a periodic cube knows where its corner is; rounding moves a particle across a voxel's face rarely.
    noise = particles.white_noise(16, 5)
    edges = np.array([0.25, 0.6, 1.0])

    def count(noise):
        modes = particles.linear_modes(noise, PLANCK, 64.0)
        return particles.counts(last(particles.evolve(modes, 0.3089, 64.0, edges)), 16, 64.0)

    shifted = count(noise.roll((3, -2, 7), (0, 1, 2)))
    moved = (shifted - count(noise).roll((3, -2, 7), (0, 1, 2))).abs().sum().item() / 2
    assert moved <= 0.002 * 16**3


@given(st.integers(0, 2**31), st.sampled_from([3, 4, 8]))
def test_mass_is_conserved_wherever_particles_are(seed, cells):
    box = 10.0
    positions = torch.rand((200, 3), generator=torch.Generator().manual_seed(seed)) * box
    positions[:3] = torch.tensor([[0.0, box, 0.0], [box * (1 - 1e-7), 0.0, box], [box / cells, 0.0, box / 2]])
    assert particles.counts(positions, cells, box).sum().item() == 200
    assert abs(particles.overdensity(positions, cells, box).sum().item()) < 1e-3


def test_painting_in_pieces_changes_nothing(monkeypatch):
    positions = torch.rand((1000, 3), generator=torch.Generator().manual_seed(1)) * 10
    whole = particles.overdensity(positions, 8, 10.0), particles.Gravity(8, 10.0, CPU)(positions)
    monkeypatch.setattr(particles, "CHUNK", 300)
    torch.testing.assert_close(particles.overdensity(positions, 8, 10.0), whole[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(particles.Gravity(8, 10.0, CPU)(positions), whole[1], atol=1e-4, rtol=1e-4)


def test_the_spectrum_of_the_linear_modes_is_the_one_asked_for():
    # 38,000 modes in all, so 1% where they are many; each bin scatters by sqrt(2 / modes).
    box, cells = 512.0, 32
    modes = particles.linear_modes(particles.white_noise(cells, 2), PLANCK, box)
    density = torch.fft.irfftn(modes, s=(cells,) * 3).double().numpy()
    found = np.abs(np.fft.rfftn(density)) ** 2 * box**3 / cells**6
    axis = np.fft.fftfreq(cells, 1 / cells) * 2 * np.pi / box
    k = np.sqrt(axis[:, None, None] ** 2 + axis[None, :, None] ** 2 + axis[None, None, : cells // 2 + 1] ** 2)
    used = (k > 0.03) & (k < 0.19)
    ratio = found[used] / linear.linear_power(k[used], PLANCK)
    assert ratio.mean() == pytest.approx(1, abs=4 * np.sqrt(2 / ratio.size))
    assert ratio.std() == pytest.approx(1, abs=0.05)  # exponentially distributed power: the modes are Gaussian


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_same_universe_to_rounding():
    from climlab_dl.cosmology import simulate

    preset = simulate.tour()
    parameters = {"Omega_m": 0.3, "sigma_8": 0.8, "n_s": 0.96}
    one, other = (simulate.universe(parameters, preset, seed=1, device=device) for device in ("cpu", "cuda"))
    assert np.abs(one.astype(int) - other).sum() < 0.01 * one.sum()
