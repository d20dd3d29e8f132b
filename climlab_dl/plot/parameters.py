"""How a parameter of a universe looks: its symbol with its unit, and the colours of what is drawn of several."""

# Of posteriors, or of parameters, that are drawn over each other.
COLORS = ("#1f77b4", "#d95f02", "#7570b3", "#1b9e77")
_LABELS = {"Omega_m": "Ωₘ", "sigma_8": "σ₈", "n_s": "nₛ", "N_spec": "nₛ", "H_0": "H₀ (km/s/Mpc)", "Omega_b": "Ω_b"}


def label(name: str) -> str:
    """Symbol of a parameter, with its unit where it has one."""
    return _LABELS.get(name, name)
