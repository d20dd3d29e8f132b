"""Diagrams draw the numbers that they were given."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl import evaluate
from climlab_dl.climate.fields import CLASSES
from climlab_dl.inference.reliability import reliability
from climlab_dl.plot import diagrams

LAT, LON = np.arange(-88.0, 90, 4), np.arange(0.0, 360, 4)
COORDS = {"time": [0, 1], "lat": LAT, "lon": LON}


@pytest.fixture
def told():
    """Probabilities of rivers that are twice too high, with what came true."""
    random = np.random.default_rng(0)
    river = random.random((2, 45, 90))
    chances = np.stack([1 - river, np.zeros_like(river), river], axis=1)
    truth = xr.DataArray(np.int8(2 * (random.random(river.shape) < river / 2)), COORDS, ("time", "lat", "lon"))
    return xr.DataArray(chances, {**COORDS, "class": list(CLASSES)}, ("time", "class", "lat", "lon")), truth


def test_a_network_that_is_too_sure_lies_below_the_diagonal(told, tmp_path):
    table = reliability(*told)
    figure = diagrams.reliability(table, path=tmp_path / "reliability.png")
    upper, lower = figure.axes
    line = next(line for line in upper.lines if str(line.get_label()).startswith("river"))
    said, true = line.get_xdata(), line.get_ydata()
    np.testing.assert_allclose(np.asarray(true, float), np.asarray(said, float) / 2, atol=0.1)
    assert f"Brier {table.attrs['brier']['river']:.2g}" in str(line.get_label())
    assert lower.get_yscale() == "log"
    # The key is on neither panel, where it would lie over the curves.
    [key] = figure.legends
    assert not any(key.get_window_extent().overlaps(axes.get_window_extent()) for axes in figure.axes)
    assert (tmp_path / "reliability.png").stat().st_size > 5000


def test_each_verdict_has_a_map_of_its_share_of_the_time(told, tmp_path):
    truth = told[1]
    found = truth.copy(data=np.zeros_like(truth))
    found[:, 10:20, 30:40] = 1
    counts = evaluate(found, truth, by="cell")
    figure = diagrams.verdicts(counts, path=tmp_path / "verdicts.png")
    maps = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in maps] == [
        f"{name}: {verdict}" for name in CLASSES[1:] for verdict in ("hit", "miss", "false alarm")
    ]
    shown = [np.ma.filled(axes.images[0].get_array(), np.nan) for axes in maps]  # pyright: ignore
    highest = [np.nanmax([0.0, *pixels.ravel()]) for pixels in shown]
    # No cyclone is there: 100 % of the time a false alarm in the box, nothing else; no river is found.
    assert highest[:4] == [0, 0, 100, 0]
    assert highest[4] > 0
    assert highest[5] == 0
