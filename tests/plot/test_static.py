"""The static twin: what is drawn is what is in the field, on every projection, seam and pole."""

from typing import Any

import matplotlib.image
import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_rgb

from climlab_dl import events, maps, synthetic
from climlab_dl.plot import canvas, styles
from climlab_dl.plot.outlines import CORNERS


@pytest.fixture(scope="module")
def fields():
    return synthetic.atmosphere(times=2, shape=(24, 48), seed=0).load()


def picture(path):
    return matplotlib.image.imread(path)[..., :3]


def share(pixels, color, tolerance=0.02):
    return (np.abs(pixels - np.array(to_rgb(color))).max(axis=-1) < tolerance).mean()


@pytest.mark.parametrize("projection", canvas.PROJECTIONS)
def test_every_projection_draws_field_mask_truth_and_coast(projection, fields, tmp_path):
    figure = maps.static(fields, fields.mask, fields.mask, projection=projection, path=tmp_path / "map.png", dpi=60)
    [axes] = [axes for axes in figure.axes if hasattr(axes, "projection")]
    assert len(axes.images) == 2
    assert len(axes.collections) == 4
    pixels = picture(tmp_path / "map.png")
    # Dark coastline pixels, and few of no data: the grid covers the globe.
    assert share(pixels, "#202020", 0.2) > 0.003
    assert share(pixels, styles.NO_DATA, 0.004) < 0.01


@pytest.mark.parametrize("center", [0, 180])
def test_a_field_of_one_value_has_one_colour_across_the_seam(center, fields, tmp_path):
    # SciTools/cartopy#361, #1400, #946: a white line at longitude 0.
    even = xr.full_like(fields.TMQ.isel(time=0), 35.0)
    figure = maps.static(even, projection="PlateCarree", central_longitude=center, dpi=80)
    [axes] = [axes for axes in figure.axes if hasattr(axes, "projection")]
    for collection in axes.collections:
        collection.set_visible(False)
    figure.savefig(tmp_path / "even.png", dpi=80)
    pixels = picture(tmp_path / "even.png")
    row = pixels[pixels.shape[0] // 2]
    colors, counts = np.unique(row, axis=0, return_counts=True)
    even_color = colors[counts.argmax()]
    inside = np.flatnonzero((row == even_color).all(axis=1))
    inside = inside[inside < 0.85 * row.shape[0]]
    assert (np.diff(inside) == 1).all()


def test_classes_are_never_mixed_with_their_neighbours(fields, tmp_path):
    # holoviz/holoviews#6203: rasterized classes are averaged; class 1 appears between 0 and 2.
    mask = xr.zeros_like(fields.mask)
    mask[:, 10:14, 10:20] = 2
    figure = maps.static(fields, mask, opacity=1.0)
    [axes] = [axes for axes in figure.axes if hasattr(axes, "projection")]
    painted = axes.images[1].get_array()
    kinds = np.unique(np.asarray(painted).reshape(-1, 4), axis=0)
    assert len(kinds) == 2
    np.testing.assert_allclose(kinds[kinds[:, 3] == 1][0, :3], to_rgb(styles.CLASS_COLORS["river"]))


def test_missing_data_are_grey(fields, tmp_path):
    holed = fields.TMQ.isel(time=0).copy()
    holed[5:19, 5:43] = np.nan
    maps.static(holed, path=tmp_path / "holed.png", dpi=60)
    assert share(picture(tmp_path / "holed.png"), styles.NO_DATA, 0.01) > 0.2


def test_the_title_has_the_field_and_its_date(fields):
    figure = maps.static(fields, channel="PSL", time=1)
    assert styles.dates(fields)[1] in figure.axes[0].get_title()
    assert maps.static(fields, channel="PSL", title="Mine").axes[0].get_title() == "Mine"


def test_only_the_snapshot_drawn_is_read_and_the_first_for_the_colours(fields):
    read = []

    def block(values, block_info: Any = None):
        read.append(block_info[0]["array-location"][0][0])
        return values

    data = fields.TMQ.chunk({"time": 1}).data.map_blocks(block, dtype=np.float32, meta=np.empty((0, 0, 0), np.float32))
    maps.static(fields.TMQ.copy(data=data), time=1)
    assert set(read) == {0, 1}
    read.clear()
    maps.static(fields.TMQ.copy(data=data), time=1, look=styles.style(fields.TMQ))
    assert set(read) == {1}


def test_a_region_is_drawn_with_finer_coasts(fields, tmp_path):
    lat, lon = np.arange(-49.0, 1), np.arange(90.0, 171)
    region = xr.DataArray(
        np.ones((50, 81), np.float32), dims=("lat", "lon"), coords={"lat": lat, "lon": lon}, name="IVT"
    )
    figure = maps.static(region)
    [axes] = [axes for axes in figure.axes if hasattr(axes, "projection")]
    # Degrees from 130 E, the middle.
    assert axes.get_xlim() == (-40.5, 40.5)
    assert axes.get_ylim() == (-49.5, 0.5)


def test_a_picture_takes_the_old_ones_place_whole(fields, tmp_path):
    path = tmp_path / "map.png"
    path.write_bytes(b"old")
    maps.static(fields, path=path, dpi=40)
    assert picture(path).ndim == 3
    assert list(tmp_path.iterdir()) == [path]


def test_tracks_grow_with_time_and_only_classes_sought_are_in_the_legend(fields):
    storms = events.find(fields.mask, fields)
    rivers = fields.mask.where(fields.mask == 2, 0).astype(np.int8)
    rivers.attrs = {"flag_values": np.array([0, 2], np.int8), "flag_meanings": "background river"}
    lines, first = [], storms.loc[storms["time"] == fields.time.values[0]]
    for time in (0, 1):
        [axes] = [a for a in maps.static(fields, rivers, time=time, storms=storms).axes if hasattr(a, "projection")]
        lines.append(len(axes.collections[-1].get_paths()))
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["river"]
    # At first each storm is a dot.
    assert lines[0] == CORNERS * len(first) > 0
    assert lines[1] > lines[0]


def test_a_snapshot_that_is_not_there_is_said(fields):
    with pytest.raises(ValueError, match="time=2: found 2 snapshots, numbered from 0 to 1"):
        maps.static(fields, time=2)


def test_the_colours_go_on_only_where_the_field_does(fields):
    style = styles.style(fields.TMQ.isel(time=0))
    for low, high, ends in ((0, 0, "neither"), (-99, 0, "min"), (0, 99, "max"), (-99, 99, "both")):
        field = fields.TMQ.isel(time=[0]).clip(style.low, style.high)
        field[0, 0, 0], field[0, 1, 1] = style.low + low, style.high + high
        figure = maps.static(field.to_dataset(), look=style)
        (bar,) = [axes for axes in figure.axes if not hasattr(axes, "projection")]
        assert bar._colorbar.extend == ends


def test_a_picture_says_how_fast_its_arrows_are_and_what_its_dots_mean(fields):
    storms = events.find(fields.mask, fields)
    for mask in (fields.mask, None):
        figure = maps.static(fields, mask, wind=("U850", "V850"), storms=storms)
        (legend,) = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
        texts = [text.get_text() for text in legend.get_texts()]
        assert texts == ["cyclone", "river", "wind: an arrow as long as the way to the next is 25 m/s"]
