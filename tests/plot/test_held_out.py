"""Pictures of what was held out, from masks and estimates that are known."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from climlab_dl.plot.held_out import held_out
from climlab_dl.plot.styles import CLASS_COLORS

LAT, LON = np.arange(-87.5, 90, 5), np.arange(0.0, 360, 5)


def masks(**changes: np.ndarray) -> xr.Dataset:
    truth = np.zeros((36, 72), np.int8)
    truth[20:24, 30:34] = 1
    truth[26:28, 70:] = 2  # up to the edge of the grid
    flags = {"flag_values": np.arange(3, dtype=np.int8), "flag_meanings": "background cyclone river"}
    layers = {name: (("lat", "lon"), changes.get(name, truth), flags) for name in ("mask", "truth")}
    return xr.Dataset(layers, {"lat": LAT, "lon": LON}, {"step": 50, "sample": "2001-08-14T06:00 of /some/where.nc"})


def drawn(figure: Figure, panel: int) -> np.ndarray:
    return np.asarray(figure.axes[panel].images[0].get_array())


def cells(picture: np.ndarray, name: str) -> int:
    """How many cells of a picture have the colour of a class."""
    same = np.all(np.isclose(picture[..., :3], to_rgb(CLASS_COLORS[name])), axis=-1)
    return int(np.count_nonzero(same & (picture[..., 3] > 0)))


def test_the_networks_mask_stands_beside_the_truth_with_the_iou_of_each_class() -> None:
    # The network moves the cyclone by one column of its four: 12 cells in both, 20 in either. It misses half the river.
    found = masks().mask.values.copy()
    found[20:24, 30:35] = 0
    found[20:24, 31:35] = 1
    found[27, 70:] = 0
    figure = held_out(masks(mask=found))
    assert [axes.get_title() for axes in figure.axes] == ["network, step 50", "truth"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["cyclone, IoU 0.60", "river, IoU 0.50"]
    assert figure.get_suptitle() == "held-out snapshot 2001-08-14 06:00"
    network, truth = (drawn(figure, panel) for panel in (0, 1))
    assert cells(network, "cyclone") == cells(truth, "cyclone") > 0
    assert cells(network, "river") == cells(truth, "river") / 2 > 0
    assert all(axes.collections for axes in figure.axes)  # coastlines


def test_the_map_does_not_depend_on_where_the_grid_begins_or_which_way_latitude_runs() -> None:
    turned = masks().assign_coords(lon=(LON + 180) % 360 - 180).sortby("lon").sortby("lat", ascending=False)
    np.testing.assert_array_equal(drawn(held_out(turned), 0), drawn(held_out(masks()), 0))


def test_what_nobody_labelled_and_a_class_that_is_nowhere_are_said() -> None:
    figure = held_out(masks(mask=np.zeros((36, 72), np.int8), truth=np.full((36, 72), -1, np.int8)))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "cyclone, IoU – (none there)",
        "river, IoU – (none there)",
    ]
    assert not (drawn(figure, 1)[..., 3] > 0).any()


@pytest.mark.parametrize("names", [("Omega_m", "sigma_8", "n_s"), ("Omega_m", "sigma_8", "N_spec", "H_0")])
def test_estimates_stand_against_the_truth_with_symbol_and_unit_of_each_parameter(names: tuple[str, ...]) -> None:
    truth = np.linspace(1, 2, 5)[:, None] * np.ones(len(names))
    seen = xr.Dataset(
        {"estimate": (("universe", "parameter"), truth + 0.1), "truth": (("universe", "parameter"), truth)},
        {"parameter": list(names)},
        {"step": 7, "sample": "a file"},
    )
    figure = held_out(seen)
    assert len(figure.axes) == len(names)
    assert figure.axes[0].get_xlabel() == "true Ωₘ"
    assert figure.axes[-1].get_ylabel() == ("estimated H₀ (km/s/Mpc)" if "H_0" in names else "estimated nₛ")
    for axes in figure.axes:
        assert axes.get_title() == "mean error 0.10"
        points = axes.lines[-1]
        np.testing.assert_allclose(np.asarray(points.get_xdata(), float), truth[:, 0])
        # Within the frame, whose ends are 0.08 beyond the truths, an estimate is where it is; beyond it, on the edge.
        np.testing.assert_allclose(np.asarray(points.get_ydata(), float), np.minimum(truth[:, 0] + 0.1, 2.08))
    assert figure.get_suptitle().startswith("5 held-out universes, step 7")
