"""Particles under gravity on a mesh: a 2LPT start, then BullFrog steps.

Positions are ``(particles, 3)`` tensors in Mpc/h inside a periodic cube, time is the linear growth factor D (1 today),
and velocities are dx/dD, so that in the Zel'dovich approximation a particle's velocity never changes.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from climlab_dl.cosmology import linear

# The painting is done in pieces of so many particles: eight corners' worth of indices would else triple the memory.
CHUNK = 2_000_000

Positions = Float[Tensor, "particles 3"]
Mesh = Float[Tensor, "cells cells cells"]
Modes = Complex[Tensor, "cells cells half"]


def white_noise(cells: int, seed: int) -> Mesh:
    """Draw unit Gaussian noise on a lattice, always on the CPU, so that a seed means one universe on every device."""
    return torch.randn((cells, cells, cells), generator=torch.Generator().manual_seed(seed), dtype=torch.float32)


def linear_modes(noise: Mesh, cosmology: linear.Cosmology, box: float, transfer: str = "eisenstein-hu") -> Modes:
    """Fourier modes of the linear overdensity today that this noise and this cosmology give.

    Parameters
    ----------
    noise
        Unit white noise on the lattice.
    cosmology
        Sets the power spectrum.
    box
        Side of the cube in Mpc/h.
    transfer
        As in :func:`climlab_dl.cosmology.linear.linear_power`.
    """
    cells = noise.shape[0]
    x, y, z = (axis.round().to(torch.int64) for axis in _wavenumbers(cells, 2 * np.pi, noise.device))
    squared = x**2 + y**2 + z**2  # in units of the fundamental: few distinct values, so the spectrum is a table
    fundamental = 2 * np.pi / box
    power = np.zeros(3 * (cells // 2) ** 2 + 1)
    power[1:] = linear.linear_power(fundamental * np.sqrt(np.arange(1, power.size)), cosmology, transfer)
    amplitude = torch.as_tensor(np.sqrt(power * cells**3 / box**3), dtype=torch.float32, device=noise.device)
    return torch.fft.rfftn(noise) * amplitude[squared]


def displacements(modes: Modes, box: float) -> tuple[Positions, Positions]:
    """First- and second-order Lagrangian displacements, normalised to D = 1.

    A particle of the lattice moves to ``q + D first + E second`` with D and E from :func:`linear.growth`.

    References
    ----------
    Bouchet et al. 1995, A&A 296, 575; Scoccimarro 1998, MNRAS 299, 1097, appendix D.
    """
    cells = modes.shape[0]
    k = _wavenumbers(cells, box, modes.device)
    inverse = _inverse_square(k)
    shape = (cells, cells, cells)

    def strain(i: int, j: int) -> Mesh:
        return torch.fft.irfftn(modes * (-k[i] * k[j] * inverse), s=shape)

    xx, yy, zz = (strain(i, i) for i in range(3))
    source = xx * yy + yy * zz + zz * xx
    for i, j in ((0, 1), (1, 2), (2, 0)):
        source -= strain(i, j) ** 2
    # The potentials obey laplacian(phi1) = delta and laplacian(phi2) = source; strain() is -phi1,ij, and its sign
    # drops out of the products. Matter falls down phi1: first = -grad(phi1); second = +grad(phi2), as E < 0.
    return _fall(modes, k, inverse), -_fall(torch.fft.rfftn(source), k, inverse)


def lattice(cells: int, box: float, device: torch.device) -> Positions:
    """Places of undisturbed particles: the centres of the cells."""
    axis = (torch.arange(cells, device=device, dtype=torch.float32) + 0.5) * (box / cells)
    return torch.cartesian_prod(axis, axis, axis)


def overdensity(positions: Positions, cells: int, box: float, offset: float = 0.5) -> Mesh:
    """Cloud-in-cell overdensity (mean 0) on a mesh whose points lie at ``offset`` (in cells) from the lower corners."""
    density = torch.zeros(cells**3, device=positions.device)
    for chunk in positions.split(CHUNK):
        for index, weight in _corners(chunk, cells, box, offset):
            density.index_add_(0, index, weight)
    return (density * (cells**3 / len(positions)) - 1).view(cells, cells, cells)


def counts(positions: Positions, cells: int, box: float) -> Int[Tensor, "cells cells cells"]:
    """Particles in each voxel; their sum is the number of particles, exactly."""
    total = torch.zeros(cells**3, dtype=torch.int64, device=positions.device)
    for chunk in positions.split(CHUNK):
        x, y, z = (chunk * (cells / box)).floor_().to(torch.int64).remainder_(cells).unbind(1)
        total += torch.bincount((x * cells + y) * cells + z, minlength=cells**3)
    return total.view(cells, cells, cells)


class Gravity:
    """The pull -grad(laplacian^-1 delta) of all particles on each, in Mpc/h, by Fourier transform on a mesh.

    In the Zel'dovich approximation it equals D times the velocity. The two cloud-in-cell smoothings, of painting and of
    reading, are divided out: otherwise a mesh as fine as the particles loses a third of the power at k = 0.5 h/Mpc.
    Waves shorter than the particles can carry are left out of a finer mesh: there the lattice itself would pull, and
    with spacings of 4 Mpc/h and a start at a = 0.1 it made the power of large scales a quarter too high.

    Parameters
    ----------
    cells
        Cells a side of the mesh.
    box
        Side of the cube in Mpc/h.
    device
        Where the mesh is.
    particles
        Particles a side; as many as cells if None.
    """

    def __init__(self, cells: int, box: float, device: torch.device, particles: int | None = None) -> None:
        particles = particles or cells
        self.cells, self.box = cells, box
        # Undisturbed particles lie halfway between mesh points: on a point, the cloud-in-cell weight has a kink.
        self.offset = (cells / particles - 1) / 2 % 1
        self.k = _wavenumbers(cells, box, device)
        window = torch.ones((), device=device)
        carried = torch.ones((), device=device)
        for k in self.k:
            window = window * torch.sinc(k * (box / cells) / (2 * np.pi)) ** 2
            carried = carried * (k.abs() < (particles / 2 + (cells == particles)) * (2 * np.pi / box) * (1 - 1e-6))
        self.kernel = _inverse_square(self.k) / window**2 * carried

    def __call__(self, positions: Positions) -> Positions:
        """Pull on each particle from all."""
        field = _fall(torch.fft.rfftn(overdensity(positions, self.cells, self.box, self.offset)), self.k, self.kernel)
        return torch.cat([self._read(field, chunk) for chunk in positions.split(CHUNK)])

    def _read(self, field: Positions, positions: Positions) -> Positions:
        pull = torch.zeros_like(positions)
        for index, weight in _corners(positions, self.cells, self.box, self.offset):
            pull.addcmul_(field.index_select(0, index), weight[:, None])
        return pull


def evolve(
    modes: Modes, Omega_m: float, box: float, edges: np.ndarray, mesh: int | None = None
) -> Iterator[tuple[float, Positions]]:
    """Follow the particles from a 2LPT start, yielding scale factor and positions at every edge.

    Parameters
    ----------
    modes
        Linear overdensity today; one particle per lattice point of these modes.
    Omega_m
        Matter density today, for the growth factors.
    box
        Side of the cube in Mpc/h.
    edges
        Ascending scale factors: the start and the end of each step.
    mesh
        Cells a side of the force mesh; the particles' own lattice if None.

    Notes
    -----
    BullFrog (Rampf, List & Hahn 2024, arXiv:2409.19049): drift, kick, drift in D, with the kick's weights chosen so
    that each step is exact to second order in perturbation theory. A step may therefore be as long as the start's
    scale factor. Starting at D = 0 instead would let the lattice's discreteness grow.
    """
    cells = modes.shape[0]
    grown = linear.growth(edges, Omega_m)
    first, second = displacements(modes, box)
    positions = lattice(cells, box, first.device)
    positions += grown.D[0] * first + grown.E[0] * second
    positions.remainder_(box)
    velocities = first + grown.slope[0] * second
    del first, second
    gravity = Gravity(mesh or cells, box, positions.device, cells)
    yield float(edges[0]), positions
    for step in range(len(edges) - 1):
        half = (grown.D[step + 1] - grown.D[step]) / 2
        middle = grown.D[step] + half
        slope, next_slope = grown.slope[step], grown.slope[step + 1]
        second_order_pull = (grown.E[step] + slope * half) / middle - middle
        keep = (next_slope - second_order_pull) / (slope - second_order_pull)
        positions.add_(velocities, alpha=half).remainder_(box)
        velocities.mul_(keep).add_(gravity(positions), alpha=(1 - keep) / middle)
        positions.add_(velocities, alpha=half).remainder_(box)
        yield float(edges[step + 1]), positions


def _wavenumbers(cells: int, box: float, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Wavenumbers in h/Mpc of a real transform, shaped to broadcast over the mesh."""
    unit = 2 * np.pi / box
    full = torch.fft.fftfreq(cells, 1 / cells, device=device) * unit
    half = torch.fft.rfftfreq(cells, 1 / cells, device=device) * unit
    return full[:, None, None], full[None, :, None], half[None, None, :]


def _inverse_square(k: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    squared = k[0] ** 2 + k[1] ** 2 + k[2] ** 2
    squared[0, 0, 0] = torch.inf  # the mean density pulls nowhere
    return 1 / squared


def _fall(modes: Modes, k: tuple[Tensor, Tensor, Tensor], inverse: Tensor) -> Positions:
    """-grad(laplacian^-1) of a field, as rows of three components."""
    cells = modes.shape[0]
    potential = modes * inverse
    field = torch.empty((cells, cells, cells, 3), device=modes.device)
    for axis in range(3):
        # At the Nyquist wavenumber i k phi has no real counterpart, so the derivative is zero there.
        derivative = torch.where(k[axis].abs() < k[axis].abs().max(), k[axis], 0.0) if cells % 2 == 0 else k[axis]
        field[..., axis] = torch.fft.irfftn(potential * (1j * derivative), s=(cells, cells, cells))
    return field.view(-1, 3)


def _corners(positions: Positions, cells: int, box: float, offset: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Flat index and cloud-in-cell weight of the eight mesh points around each particle."""
    scaled = (positions * (cells / box)).sub_(offset)
    lower = scaled.floor()
    upper_weight = scaled.sub_(lower)
    lower = lower.to(torch.int32).remainder_(cells)
    upper = (lower + 1).remainder_(cells)
    index = [((lower if side == 0 else upper) * _strides(cells, positions.device)).unbind(1) for side in (0, 1)]
    weight = [(1 - upper_weight).unbind(1), upper_weight.unbind(1)]
    for x, y, z in product((0, 1), repeat=3):
        yield index[x][0] + index[y][1] + index[z][2], weight[x][0] * weight[y][1] * weight[z][2]


def _strides(cells: int, device: torch.device) -> Tensor:
    return torch.tensor([cells**2, cells, 1], dtype=torch.int32, device=device)
