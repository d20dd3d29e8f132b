"""How a parameter of a universe looks: its symbol with its unit, and the colours of what is drawn of several."""

from collections.abc import Iterable, Mapping
from typing import Any

# Of posteriors, or of parameters, that are drawn over each other.
COLORS = ("#1f77b4", "#d95f02", "#7570b3", "#1b9e77")
_LABELS = {"Omega_m": "Ωₘ", "sigma_8": "σ₈", "n_s": "nₛ", "N_spec": "nₛ", "H_0": "H₀ (km/s/Mpc)", "Omega_b": "Ω_b"}


def label(name: str) -> str:
    """Symbol of a parameter, with its unit where it has one."""
    return _LABELS.get(name, name)


def refuse_unknown(what: str, given: Mapping[str, Any] | None, names: Iterable[str]) -> None:
    """Refuse values by the names of parameters where these are others than the draws'.

    A universe may tell more parameters than were drawn, and one may know fewer; not both.

    Parameters
    ----------
    what
        The values are called, for messages.
    given
        Values by name, if any.
    names
        Of the parameters that were drawn.

    Raises
    ------
    TypeError
        If they are not by name.
    ValueError
        If a name is unknown.
    """
    if given is None:
        return
    names = list(names)
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{what} is a {type(given).__name__}; give it by name, as a dict of {', '.join(map(str, names))}"
        )
    unknown = [str(name) for name in given if name not in names]
    if unknown and set(names) - set(given):
        raise ValueError(
            f"{what} has {', '.join(unknown)}, which was not drawn; the draws have {', '.join(map(str, names))}"
        )
