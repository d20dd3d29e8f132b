"""Colours by what the eye sees of them: lightness, difference, and colour maps whose steps look equally large."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FINE = 1025  # odd, so that a map has a middle
# From linear sRGB to CIE XYZ, each row in units of the white point D65's (IEC 61966-2-1).
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_TO_XYZ /= _TO_XYZ.sum(axis=1, keepdims=True)


def lab(colors: Any) -> NDArray[np.float64]:
    """Coordinates L*, a*, b* (CIE 1976) of colours; L* is the lightness, 0 to 100, which is all that grey leaves.

    Parameters
    ----------
    colors
        What matplotlib takes for one colour or several.

    Returns
    -------
    ndarray, shape (color, 3)
    """
    from matplotlib.colors import to_rgba_array

    coded = to_rgba_array(colors)[:, :3]
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    x, y, z = np.moveaxis(_root(linear @ _TO_XYZ.T), -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


@lru_cache
def even(name: str, count: int = 256, *, diverging: bool = False) -> tuple[str, ...]:
    """Colours of a map of matplotlib's, spaced so that equal steps of a number look equally large.

    Parameters
    ----------
    name
        Of the map.
    count
        How many colours.
    diverging
        Space each half by itself, so that the middle colour stays in the middle.

    Returns
    -------
    tuple of str
        Hexadecimal.
    """
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    fine = colormaps[name].resampled(_FINE)(np.linspace(0, 1, _FINE))
    steps = np.linalg.norm(np.diff(lab(fine), axis=0), axis=1)
    along = np.concatenate([[0], np.cumsum(steps)])
    middle = _FINE // 2
    ends, places = ([0, middle, -1], [0, 0.5, 1]) if diverging else ([0, -1], [0, 1])
    wanted = np.interp(np.linspace(0, 1, count), places, along[ends])
    return tuple(to_hex(tuple(fine[k])) for k in np.interp(wanted, along, np.arange(_FINE)).round().astype(int))


def _root(ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
