"""Units as files spell them, to SI: a unit is a product of powers, so spelling and order do not matter."""

import re
from typing import NamedTuple

from climlab_dl.climate.fields import GRAVITY

WATER_DENSITY = 1000.0
"""Density in kg/m3 that makes 1 kg/m2 of precipitation 1 mm."""

# Scale to SI, then the powers of (kg, m, s, K).
_SYMBOLS: dict[str, tuple[float, tuple[int, int, int, int]]] = {
    "kg": (1, (1, 0, 0, 0)),
    "g": (1e-3, (1, 0, 0, 0)),
    "m": (1, (0, 1, 0, 0)),
    "gpm": (1, (0, 1, 0, 0)),
    "mm": (1e-3, (0, 1, 0, 0)),
    "cm": (1e-2, (0, 1, 0, 0)),
    "in": (0.0254, (0, 1, 0, 0)),
    "dam": (10, (0, 1, 0, 0)),
    "km": (1e3, (0, 1, 0, 0)),
    "s": (1, (0, 0, 1, 0)),
    "min": (60, (0, 0, 1, 0)),
    "h": (3600, (0, 0, 1, 0)),
    "day": (86400, (0, 0, 1, 0)),
    "K": (1, (0, 0, 0, 1)),
    "Pa": (1, (1, -1, -2, 0)),
    "hPa": (100, (1, -1, -2, 0)),
    "kPa": (1000, (1, -1, -2, 0)),
    "bar": (1e5, (1, -1, -2, 0)),
    "N": (1, (1, 1, -2, 0)),
    "J": (1, (1, 2, -2, 0)),
    "W": (1, (1, 2, -3, 0)),
    "kt": (1852 / 3600, (0, 1, -1, 0)),
    "1": (1, (0, 0, 0, 0)),
}
_SPELLINGS = {
    "mb": "hPa", "mbar": "hPa", "millibar": "hPa", "millibars": "hPa", "hectopascal": "hPa", "pascal": "Pa",
    "pascals": "Pa", "sec": "s", "second": "s", "seconds": "s", "hr": "h", "hour": "h", "hours": "h", "d": "day",
    "days": "day", "meter": "m", "meters": "m", "metre": "m", "metres": "m", "kelvin": "K", "degk": "K", "deg_k": "K",
    "knot": "kt", "knots": "kt", "kts": "kt", "inch": "in", "inches": "in", "fraction": "1", "gp": "1",
}  # fmt: skip
_CELSIUS = {"c", "degc", "deg_c", "°c", "celsius", "degrees_celsius", "degree_celsius", "degreec"}
_TOKEN = re.compile(r"(?P<symbol>[A-Za-z_°]+|1)(?:\*\*|\^)?(?P<power>[+-]?\d+)?")


class Conversion(NamedTuple):
    """What makes SI of a file's numbers: ``value * scale + offset``."""

    scale: float
    offset: float = 0.0


SAME = Conversion(1.0)
"""The conversion of what is SI already."""


def _parse(text: str) -> tuple[float, list[int]] | None:
    """Give the scale and the powers of (kg, m, s, K), or None when the text is not a unit."""
    scale, powers = 1.0, [0, 0, 0, 0]
    # 'kg m-2 s-1', 'kg/m^2/s', 'kg m**-2 s**-1', 'kg.m-2': a slash divides by the one symbol after it.
    for part in re.split(r"(?=/)|(?<!\*)\*(?!\*)|[\s.·]+", text.strip().strip("[]()")):
        over = part.startswith("/")
        for piece in filter(None, [part.lstrip("/").strip("()")]):
            token = _TOKEN.fullmatch(piece)
            if token is None:
                return None
            symbol = _SPELLINGS.get(token["symbol"].lower(), token["symbol"])
            if symbol not in _SYMBOLS:
                return None
            factor, exponents = _SYMBOLS[symbol]
            power = int(token["power"] or 1) * (-1 if over else 1)
            scale *= factor**power
            powers = [old + power * new for old, new in zip(powers, exponents, strict=True)]
    return scale, powers


def conversion(unit: str, wanted: str) -> Conversion | None:
    """Give the conversion of numbers in ``unit`` to ``wanted``, or None where there is none.

    Besides units of the same dimension it knows what meteorology uses interchangeably: geopotential (m2/s2) for
    height, a depth of water (mm) for its mass per area, and a mass flux of precipitation for its depth rate.

    Parameters
    ----------
    unit : str
        As in the file: ``"hPa"``, ``"kg m**-2 s**-1"``, ``"mm/day"``, ``"degC"``.
    wanted : str
        SI unit of a `Field`.
    """
    if unit.strip().lower() in _CELSIUS:
        return Conversion(1.0, 273.15) if wanted == "K" else None
    have, want = _parse(unit), _parse(wanted)
    if have is None or want is None or not unit.strip():
        return None
    (scale, powers), (to, wanted_powers) = have, want
    kg, m, s, kelvin = (a - b for a, b in zip(powers, wanted_powers, strict=True))
    bridge = {
        (0, 0, 0, 0): 1.0,
        (0, 1, -2, 0): 1 / GRAVITY,  # m2 s-2 where m is wanted
        (-1, 3, 0, 0): WATER_DENSITY,  # m of water where kg m-2 is wanted
        (1, -3, 0, 0): 1 / WATER_DENSITY,  # kg m-2 s-1 where m s-1 is wanted
    }.get((kg, m, s, kelvin))
    return None if bridge is None else Conversion(scale * bridge / to)
