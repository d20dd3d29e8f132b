"""Linear theory: what the universe looked like before gravity made it interesting.

Lengths are in Mpc/h and wavenumbers in h/Mpc throughout the room; CAMB's ``kmax`` (1/Mpc) is the one exception and is
converted where it is called.
"""

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ALIASES = {"H_0": "h", "N_spec": "n_s"}
"""Names in the CosmoFlow files of parameters that are called otherwise here; ``H_0`` is in km/s/Mpc."""
TRANSFERS = ("eisenstein-hu", "camb")


@dataclass(frozen=True, kw_only=True)
class Cosmology:
    """A flat universe of cold matter, baryons and a cosmological constant.

    Parameters
    ----------
    Omega_m
        Matter density today, as a share of the critical density.
    sigma_8
        Standard deviation of the linear density today in spheres of 8 Mpc/h.
    n_s
        Slope of the primordial spectrum.
    Omega_b
        Baryon density today; 0.045 in the original CosmoFlow simulations.
    h
        Hubble constant in units of 100 km/s/Mpc.

    Raises
    ------
    ValueError
        If a parameter is outside what the transfer function is meant for.
    """

    Omega_m: float
    sigma_8: float
    n_s: float
    Omega_b: float = 0.045
    h: float = 0.7

    def __post_init__(self) -> None:
        allowed = {"Omega_m": (0.05, 1), "sigma_8": (0.1, 2), "n_s": (0.5, 1.5), "Omega_b": (0, 0.2), "h": (0.3, 1.2)}
        for field in fields(self):
            low, high = allowed[field.name]
            value = getattr(self, field.name)
            if not low < value <= high:
                raise ValueError(f"{field.name} = {value} is not in ({low}, {high}]; densities are shares, h is H0/100")
        if self.Omega_b >= self.Omega_m:
            raise ValueError(f"Omega_b = {self.Omega_b} leaves no dark matter in Omega_m = {self.Omega_m}; lower it")

    @classmethod
    def from_named(cls, parameters: "dict[str, float]") -> "Cosmology":
        """Build from parameters under the names of the CosmoFlow files (``H_0`` in km/s/Mpc, ``N_spec`` for n_s).

        Raises
        ------
        ValueError
            If a name is unknown, one that has no default is lacking, or a value is out of range.
        """
        named = dict(parameters)
        for theirs, ours in ALIASES.items():
            if theirs in named and ours in named:
                raise ValueError(f"{theirs} and {ours} are one parameter; give one of them")
        if "H_0" in named:
            named["h"] = named.pop("H_0") / 100
        if "N_spec" in named:
            named["n_s"] = named.pop("N_spec")
        if unknown := cls.unknown(named):
            known = ", ".join(field.name for field in fields(cls))
            raise ValueError(f"a cosmology has no {', '.join(unknown)}; it has {known} (or H_0 for h, N_spec for n_s)")
        if lacking := cls.lacking(named):
            raise ValueError(f"a cosmology needs {', '.join(lacking)} as well (it has {', '.join(named) or 'nothing'})")
        return cls(**named)

    @classmethod
    def unknown(cls, names: Iterable[str]) -> list[str]:
        """Names, as in the CosmoFlow files or here, of what is no parameter of a cosmology."""
        return sorted(set(names) - {field.name for field in fields(cls)} - set(ALIASES))

    @classmethod
    def lacking(cls, names: Iterable[str]) -> list[str]:
        """Parameters that have no default and are not among these names, be these as in the CosmoFlow files."""
        there = {ALIASES.get(name, name) for name in names}
        return [field.name for field in fields(cls) if field.default is MISSING and field.name not in there]


def eisenstein_hu(k: Array, cosmology: Cosmology) -> Array:
    """Transfer function of matter with baryon oscillations.

    Parameters
    ----------
    k
        Wavenumbers in h/Mpc, positive.
    cosmology
        Only Omega_m, Omega_b and h enter.

    Returns
    -------
    Array
        T(k), dimensionless, 1 at k -> 0; 1.5% rms and 4% at worst from a Boltzmann code for 0.01 < k < 1.

    References
    ----------
    Eisenstein & Hu 1998, ApJ 496, 605: equations 2-24 (T_cmb = 2.7255 K).
    """
    theta = 2.7255 / 2.7
    matter = cosmology.Omega_m * cosmology.h**2
    baryon = cosmology.Omega_b * cosmology.h**2
    baryon_share = baryon / matter
    cdm_share = 1 - baryon_share
    k_mpc = np.asarray(k, dtype=np.float64) * cosmology.h

    z_equal = 2.50e4 * matter / theta**4
    k_equal = 7.46e-2 * matter / theta**2
    b1 = 0.313 * matter**-0.419 * (1 + 0.607 * matter**0.674)
    b2 = 0.238 * matter**0.223
    z_drag = 1291 * matter**0.251 / (1 + 0.659 * matter**0.828) * (1 + b1 * baryon**b2)

    def momentum_ratio(z: float) -> float:
        return 31.5 * baryon / theta**4 * (1e3 / z)

    ratio_drag, ratio_equal = momentum_ratio(z_drag), momentum_ratio(z_equal)
    horizon = (2 / (3 * k_equal)) * np.sqrt(6 / ratio_equal)
    horizon *= np.log((np.sqrt(1 + ratio_drag) + np.sqrt(ratio_drag + ratio_equal)) / (1 + np.sqrt(ratio_equal)))
    k_silk = 1.6 * baryon**0.52 * matter**0.73 * (1 + (10.4 * matter) ** -0.95)
    q = k_mpc / (13.41 * k_equal)

    a1 = (46.9 * matter) ** 0.670 * (1 + (32.1 * matter) ** -0.532)
    a2 = (12.0 * matter) ** 0.424 * (1 + (45.0 * matter) ** -0.582)
    alpha_cdm = a1**-baryon_share * a2 ** -(baryon_share**3)
    c1 = 0.944 / (1 + (458 * matter) ** -0.708)
    c2 = (0.395 * matter) ** -0.0266
    beta_cdm = 1 / (1 + c1 * (cdm_share**c2 - 1))

    def pressureless(alpha: float, beta: float) -> Array:
        log = np.log(np.e + 1.8 * beta * q)
        return log / (log + (14.2 / alpha + 386 / (1 + 69.9 * q**1.08)) * q**2)

    ks = k_mpc * horizon
    blend = 1 / (1 + (ks / 5.4) ** 4)
    cdm = blend * pressureless(1, beta_cdm) + (1 - blend) * pressureless(alpha_cdm, beta_cdm)

    y = (1 + z_equal) / (1 + z_drag)
    root = np.sqrt(1 + y)
    alpha_baryon = 2.07 * k_equal * horizon * (1 + ratio_drag) ** -0.75
    alpha_baryon *= y * (-6 * root + (2 + 3 * y) * np.log((root + 1) / (root - 1)))
    beta_baryon = 0.5 + baryon_share + (3 - 2 * baryon_share) * np.sqrt((17.2 * matter) ** 2 + 1)
    beta_node = 8.41 * matter**0.435
    shifted = ks / (1 + (beta_node / ks) ** 3) ** (1 / 3)
    baryons = pressureless(1, 1) / (1 + (ks / 5.2) ** 2)
    baryons += alpha_baryon / (1 + (beta_baryon / ks) ** 3) * np.exp(-((k_mpc / k_silk) ** 1.4))
    baryons *= np.sinc(shifted / np.pi)
    return baryon_share * baryons + cdm_share * cdm


def linear_power(k: Array, cosmology: Cosmology, transfer: str = "eisenstein-hu") -> Array:
    """Linear power spectrum today, normalised to sigma_8.

    Parameters
    ----------
    k
        Wavenumbers in h/Mpc, positive.
    cosmology
        The universe.
    transfer
        ``"eisenstein-hu"`` (numpy; what the original CosmoFlow simulations used) or ``"camb"`` (extra ``sim``). The two
        differ by up to 4% around the baryon oscillations: never mix them in one data set.

    Returns
    -------
    Array
        P(k) in (Mpc/h)^3.
    """
    if transfer not in TRANSFERS:
        raise ValueError(f"transfer = {transfer!r} is not known; choose one of {', '.join(TRANSFERS)}")
    shape = _camb_shape(cosmology) if transfer == "camb" else _eisenstein_hu_shape(cosmology)
    fine = np.geomspace(1e-4, 20, 4000)
    variance = np.trapezoid(fine**3 * shape(fine) * tophat(8 * fine) ** 2 / (2 * np.pi**2), np.log(fine))
    return cosmology.sigma_8**2 / variance * shape(np.asarray(k, dtype=np.float64))


def tophat(x: Array) -> Array:
    """Fourier transform of a unit sphere of radius 1 at wavenumber x (1 at x -> 0)."""
    return 3 * (np.sin(x) - x * np.cos(x)) / x**3


def _eisenstein_hu_shape(cosmology: Cosmology):
    return lambda k: k**cosmology.n_s * eisenstein_hu(k, cosmology) ** 2


def _camb_shape(cosmology: Cosmology):
    try:
        import camb  # type: ignore[import-not-found]
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            "transfer='camb' needs the package camb: pip install 'climlab-dl[sim]', or use transfer='eisenstein-hu'"
        ) from missing
    h2 = cosmology.h**2
    parameters = camb.CAMBparams()
    parameters.set_cosmology(
        H0=100 * cosmology.h, ombh2=cosmology.Omega_b * h2, omch2=(cosmology.Omega_m - cosmology.Omega_b) * h2, mnu=0
    )
    parameters.InitPower.set_params(ns=cosmology.n_s)
    parameters.set_matter_power(redshifts=[0.0], kmax=30 * cosmology.h)  # kmax is in 1/Mpc
    kh, _, power = camb.get_results(parameters).get_matter_power_spectrum(minkh=1e-4, maxkh=29, npoints=1000)
    log_k, log_power = np.log(kh), np.log(power[0])
    return lambda k: np.exp(np.interp(np.log(k), log_k, log_power))


@dataclass(frozen=True)
class Growth:
    """Growth factors at scale factors ``a``: first order D (1 today), second order E (-> -3/7 D^2), its slope in D."""

    D: Array
    E: Array
    slope: Array


def growth(a: Array, Omega_m: float) -> Growth:
    """Solve the first- and second-order growth equations of a flat universe.

    Parameters
    ----------
    a
        Scale factors in (0.001, 1].
    Omega_m
        Matter density today.

    References
    ----------
    Bouchet et al. 1995, A&A 296, 575: equations for D and E (there with the opposite sign), integrated in ln a from
    deep matter domination, where D = a and E = -3/7 a^2.
    """
    from scipy.integrate import solve_ivp

    a = np.atleast_1d(np.asarray(a, dtype=np.float64))
    if a.min() <= 1e-3 or a.max() > 1:
        raise ValueError(f"scale factors from {a.min()} to {a.max()} are not in (0.001, 1]")

    def slopes(log_a: float, state: Array) -> list[float]:
        matter = Omega_m / (Omega_m + (1 - Omega_m) * np.exp(3 * log_a))
        D, dD, E, dE = state
        drag = 2 - 1.5 * matter
        return [dD, 1.5 * matter * D - drag * dD, dE, 1.5 * matter * (E - D**2) - drag * dE]

    start = 1e-3
    early = [start, start, -3 / 7 * start**2, -6 / 7 * start**2]
    solved = solve_ivp(slopes, (np.log(start), 0), early, dense_output=True, method="DOP853", rtol=1e-9, atol=1e-14)
    D, dD, E, dE = solved.sol(np.log(a))
    today = solved.y[0, -1]
    return Growth(D=D / today, E=E / today**2, slope=dE / dD / today)
