"""Saved maps, opened with the network off: they draw, move, choose, toggle and tell."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl import events, maps
from climlab_dl.plot import styles

pytestmark = pytest.mark.browser

LAT, LON = np.arange(-87.5, 90, 5), np.arange(0.0, 360, 5)


# Left, top, width and height of the map's frame on the page.
FRAME = """() => { const view = Bokeh.index.roots[0];
    const find = v => v.frame ? v : [...(v.child_views ?? [])].map(find).find(x => x);
    const f = find(view), r = f.el.getBoundingClientRect(), b = f.frame.bbox;
    return [r.left + b.left, r.top + b.top, b.width, b.height]; }"""


def dataset():
    """Four steps of a smooth field and of a wind, with a storm that walks east across the dateline."""
    times = np.datetime64("2001-07-01T00") + np.arange(4) * np.timedelta64(6, "h")
    rise = np.cos(np.radians(LAT))[None, :, None] * (40 + 5 * np.arange(4))[:, None, None] * np.ones(72)
    wind = 20 * np.sin(np.radians(LON))[None, None] * np.ones((4, 36, 1))
    mask = np.zeros((4, 36, 72), np.int8)
    for step in range(4):
        mask[step, 20:24, [34 + step, 35 + step, 36 + step]] = 1
        mask[step, 26:28, 10 : 20 + step] = 2
    coords = {"time": times, "lat": LAT, "lon": LON}
    dims = ("time", "lat", "lon")
    return xr.Dataset(
        {
            "TMQ": (dims, rise.astype(np.float32), {"units": "kg m-2"}),
            "U850": (dims, wind.astype(np.float32), {"units": "m s-1"}),
            "mask": (dims, mask),
        },
        coords,
    )


@pytest.fixture(scope="module")
def fields():
    return dataset()


@pytest.fixture(scope="module")
def saved(fields, tmp_path_factory):
    folder = tmp_path_factory.mktemp("maps")
    truth = fields.mask.roll(lat=1, roll_coords=False)
    return maps.explore(fields, fields.mask, truth).save(folder / "map.html")


def near(pixels, color, tolerance=40):
    wanted = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)])
    return (np.abs(pixels - wanted).max(axis=-1) < tolerance).sum()


def changed(before, after):
    return (np.abs(before - after).max(axis=-1) > 8).sum()


def hover(opened, lat, lon):
    """Text under the pointer at a place, by the map's own frame: x from 180 W, y from 90 N."""
    box = opened.page.evaluate(FRAME)
    x = box[0] + ((lon + 180) % 360) / 360 * box[2]
    y = box[1] + (90 - lat) / 180 * box[3]
    opened.page.mouse.move(x + 4, y)
    opened.page.mouse.move(x + 1, y)
    opened.page.wait_for_timeout(300)
    return opened.page.locator(".bk-tooltip-content").first.inner_text()


def press(opened, key, times=1):
    handle = opened.page.locator(".noUi-handle").first
    handle.focus()
    for _ in range(times):
        handle.press(key)
    opened.page.wait_for_timeout(200)


def test_a_saved_map_draws_field_mask_and_coastlines_without_a_network(saved, offline):
    opened = offline(saved)
    before = opened.pixels()
    opened.keep("map")
    # River cells over the field: 60 % orange on the palette's greens and blues.
    assert len(np.unique(before.reshape(-1, 3), axis=0)) > 200
    opened.page.evaluate("Bokeh.documents[0].get_model_by_name('coastline').visible = false")
    without = opened.pixels()
    # The 110m coastlines are some 5,000 pixels on a map of 820 x 410.
    assert changed(before, without) > 2000
    assert opened.clean()


def test_the_slider_moves_field_mask_and_date(saved, offline):
    opened = offline(saved)
    first = opened.pixels()
    assert "2001-07-01 00:00 UTC (1 of 4)" in opened.page.locator(".bk-slider-title").first.inner_text()
    press(opened, "ArrowRight", 2)
    assert "2001-07-01 12:00 UTC (3 of 4)" in opened.page.locator(".bk-slider-title").first.inner_text()
    third = opened.pixels()
    assert changed(first, third) > 10_000
    press(opened, "ArrowLeft", 2)
    # What the page's script draws is what Python drew into the page.
    assert changed(first, opened.pixels()) == 0
    assert opened.clean()


def test_the_channel_choice_changes_field_palette_and_colour_bar(saved, offline):
    opened = offline(saved)
    before = opened.pixels()
    opened.page.locator("select").first.select_option("U850")
    after = opened.pixels()
    opened.keep("wind")
    assert changed(before, after) > 50_000
    # A diverging map: both ends' colours, which the other palette does not have, are there.
    look = styles.style(xr.DataArray(np.zeros((1, 1)), dims=("lat", "lon"), name="U850")).palette()
    assert near(after, look[int(255 * 0.82)], 12) > 500
    assert near(after, look[int(255 * 0.18)], 12) > 500
    assert opened.clean()


def test_the_pointer_reads_place_value_unit_and_class(saved, fields, offline):
    opened = offline(saved)
    press(opened, "ArrowRight", 1)
    text = hover(opened, 22.5, 180)
    assert "22.50°N" in text
    assert "180.00°E" in text
    value = float(fields.TMQ[1].sel(lat=22.5, lon=180))
    assert f"TMQ {value:.5g}"[:9] in text
    assert "kg m-2" in text
    assert "cyclone" in text
    opened.keep("hover")
    opened.page.locator("select").first.select_option("U850")
    text = hover(opened, -42.5, 90)
    assert "42.50°S" in text
    assert "U850 20" in text
    assert "background" in text
    assert opened.clean()


def test_a_class_can_be_taken_off_and_put_back(saved, offline):
    opened = offline(saved)
    before = opened.pixels()
    opened.page.get_by_role("button", name="river").click()
    without = opened.pixels()
    assert changed(before, without) > 1000
    opened.page.get_by_role("button", name="river").click()
    assert changed(before, opened.pixels()) == 0
    assert opened.clean()


def test_hits_and_misses_have_their_colours(saved, offline):
    opened = offline(saved)
    opened.page.get_by_role("button", name="hits and misses").click()
    opened.page.evaluate("Bokeh.documents[0].get_model_by_name('overlay').glyph.global_alpha = 1")
    pixels = opened.pixels()
    opened.keep("hits")
    for color in styles.VERDICT_COLORS.values():
        # One row of 5 by 5 degree cells of the river at the least: 10 cells of 11 x 11 pixels.
        assert near(pixels, color, 6) > 500
    assert opened.clean()


def test_a_storm_across_the_dateline_is_whole_on_a_pacific_map(fields, offline, tmp_path):
    opened = offline(maps.explore(fields, fields.mask, central_longitude=180).save(tmp_path / "pacific.html"))
    opened.page.evaluate("Bokeh.documents[0].get_model_by_name('overlay').glyph.global_alpha = 1")
    pixels = opened.pixels()
    opened.keep("pacific")
    magenta = np.abs(pixels - [0xD0, 0x1C, 0x8B]).max(axis=-1) < 6
    columns = np.flatnonzero(magenta.sum(axis=0) > 20)
    # 15 degrees of longitude of 820 pixels for 360, in one piece but for the coastlines' and dotted lines' pixels.
    assert columns[-1] - columns[0] == pytest.approx(15 / 360 * 820, abs=3)
    assert opened.clean()


@pytest.mark.parametrize(("projection", "center"), [("Robinson", 0), ("PlateCarree", 180), ("NorthPolarStereo", 0)])
def test_no_white_seam_is_drawn(projection, center, fields, offline, tmp_path):
    even = (fields[["TMQ"]] * 0 + 30).assign_attrs(fields.attrs)
    explorer = maps.explore(even, times=1, projection=projection, central_longitude=center)
    opened = offline(explorer.save(tmp_path / "even.html"))
    document = "Bokeh.documents[0]"
    opened.page.evaluate(f"for (const n of ['coastline', 'graticule']) {document}.get_model_by_name(n).visible = false")
    pixels = opened.pixels()
    opened.keep(f"even_{projection}")
    inside = pixels[60:-60, 60:-180]
    middle = inside[inside.shape[0] // 2]
    values, counts = np.unique(middle, axis=0, return_counts=True)
    # A row across the middle of a map of one value has one colour but for a few pixels at its rim.
    assert counts.max() > 0.97 * len(middle), dict(zip(map(tuple, values), counts, strict=True))
    assert opened.clean()


def test_a_row_picked_moves_the_map_to_its_storm_and_a_storm_tapped_picks_its_row(fields, offline, tmp_path):
    table = events.find(fields.mask, fields)
    opened = offline(maps.explore(fields, fields.mask, storms=table).save(tmp_path / "storms.html"))
    model = "Bokeh.documents[0].get_model_by_name('storms')"
    first = table[table.time == fields.time.values[0]]
    assert opened.page.evaluate(f"{model}.data.track.length") == len(first) == 2
    whole = opened.pixels()
    opened.page.locator(".slick-row").nth(1).locator(".slick-cell").first.click()
    opened.keep("storm_row")
    assert opened.page.evaluate(f"{model}.selected.indices.length") == 1
    assert changed(whole, opened.pixels()) > 50_000
    # The row picked is the storm in the middle of the map now: its class is under the pointer there.
    picked = opened.page.evaluate(f"{model}.data['class'][{model}.selected.indices[0]]")
    box = opened.page.evaluate(FRAME)
    opened.page.mouse.click(5, 5)
    opened.page.evaluate(f"{model}.selected.indices = []")
    opened.page.mouse.click(box[0] + box[2] / 2, box[1] + box[3] / 2)
    opened.page.wait_for_timeout(300)
    again = opened.page.evaluate(f"{model}.selected.indices.map(row => {model}.data['class'][row])")
    assert again == [picked]
    assert opened.page.locator(".slick-row .slick-cell.selected").count() > 0
    press(opened, "ArrowRight", 1)
    second = table[table.time == fields.time.values[1]]
    assert opened.page.evaluate(f"{model}.data.track") == second.track.tolist()
    assert opened.clean()
