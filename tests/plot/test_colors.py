"""Colours tell as much as the numbers do: in even steps, in grey, and to who sees no red or green."""

import numpy as np
import pytest

from climlab_dl.plot import colors, styles


def test_lightness_and_hue_are_those_of_the_standard():
    # CIE 1976 for sRGB's white, black, mid grey and red, e.g. Lindbloom's calculator: L* 100, 0, 53.585, 53.24.
    found = colors.lab(["#ffffff", "#000000", "#808080", "#ff0000"])
    np.testing.assert_allclose(found[:, 0], [100, 0, 53.585, 53.24], atol=0.02)
    np.testing.assert_allclose(found[:3, 1:], 0, atol=0.02)
    np.testing.assert_allclose(found[3, 1:], [80.09, 67.20], atol=0.1)


@pytest.mark.parametrize(("name", "diverging"), [(styles.SEQUENTIAL, False), (styles.DIVERGING, True)])
def test_equal_steps_of_a_number_look_equally_large(name, diverging):
    look = styles.Style(name="x", long_name="x", unit="", low=0.0, high=1.0, colormap=name)
    # Along the curve of 65 colours, a sixteenth at a time: of more, neighbours differ by less than a screen can show.
    seen = colors.lab(look.palette(65))
    steps = np.linalg.norm(np.diff(seen, axis=0), axis=1).reshape(16, 4).sum(axis=1)
    for half in (steps[:8], steps[8:]) if diverging else (steps,):
        assert half.max() < 1.25 * half.min()
    # Lightness never turns but in the middle of a diverging map, so that no two numbers are the same grey.
    rises = np.diff(seen[::4, 0]) > 0
    assert rises.tolist() == ([True] * 8 + [False] * 8 if diverging else [False] * 16)


@pytest.mark.parametrize("chosen", [styles.CLASS_COLORS, styles.VERDICT_COLORS], ids=["classes", "verdicts"])
def test_classes_and_verdicts_are_told_apart_in_grey(chosen):
    # A difference of 2 can be seen side by side; with 15 and more, across a map.
    lightness = np.sort(colors.lab([color for name, color in chosen.items() if name != "background"])[:, 0])
    assert np.diff(lightness).min() > 15
