"""Saved maps, opened with the network off: they draw, move, choose, toggle and tell."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl import maps
from climlab_dl.plot import styles

pytestmark = pytest.mark.browser


def test_a_saved_map_draws_field_mask_and_coastlines_without_a_network(saved, offline):
    opened = offline(saved)
    before = opened.pixels()
    opened.keep("map")
    # River cells over the field: 60 % orange on the palette's greens and blues.
    assert len(np.unique(before.reshape(-1, 3), axis=0)) > 200
    opened.page.evaluate("Bokeh.documents[0].get_model_by_name('coastline').visible = false")
    without = opened.pixels()
    # The 110m coastlines are some 5,000 pixels on a map of 820 x 410.
    assert opened.changed(before, without) > 2000
    assert opened.clean()


def test_the_slider_moves_field_mask_and_date(saved, offline):
    opened = offline(saved)
    first = opened.pixels()
    assert "2001-07-01 00:00 UTC (1 of 4)" in opened.page.locator(".bk-slider-title").first.inner_text()
    opened.press("ArrowRight", 2)
    assert "2001-07-01 12:00 UTC (3 of 4)" in opened.page.locator(".bk-slider-title").first.inner_text()
    third = opened.pixels()
    assert opened.changed(first, third) > 10_000
    opened.press("ArrowLeft", 2)
    # What the page's script draws is what Python drew into the page.
    assert opened.changed(first, opened.pixels()) == 0
    assert opened.clean()


def test_the_channel_choice_changes_field_palette_and_colour_bar(saved, offline):
    opened = offline(saved)
    before = opened.pixels()
    opened.page.locator("select").first.select_option("U850")
    after = opened.pixels()
    opened.keep("wind")
    assert opened.changed(before, after) > 50_000
    # A diverging map: both ends' colours, which the other palette does not have, are there.
    look = styles.style(xr.DataArray(np.zeros((1, 1)), dims=("lat", "lon"), name="U850")).palette()
    assert opened.near(after, look[int(255 * 0.82)], 12) > 500
    assert opened.near(after, look[int(255 * 0.18)], 12) > 500
    assert opened.clean()


def test_a_class_can_be_taken_off_and_put_back(saved, offline):
    opened = offline(saved)
    before = opened.pixels()
    opened.page.get_by_role("button", name="river").click()
    without = opened.pixels()
    assert opened.changed(before, without) > 1000
    opened.page.get_by_role("button", name="river").click()
    assert opened.changed(before, opened.pixels()) == 0
    assert opened.clean()


def test_hits_and_misses_have_their_colours(saved, offline):
    opened = offline(saved)
    opened.page.get_by_role("button", name="hits and misses").click()
    opened.page.evaluate("Bokeh.documents[0].get_model_by_name('overlay').glyph.global_alpha = 1")
    pixels = opened.pixels()
    opened.keep("hits")
    for color in styles.VERDICT_COLORS.values():
        # One row of 5 by 5 degree cells of the river at the least: 10 cells of 11 x 11 pixels.
        assert opened.near(pixels, color, 6) > 500
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


def test_truth_can_be_taken_off_and_put_on_in_both_views(saved, offline):
    opened = offline(saved)
    button = opened.page.get_by_role("button", name="truth")
    for view in ("detected", "hits and misses"):
        opened.page.get_by_role("button", name=view).click()
        outlined = opened.pixels()
        button.click()
        assert opened.changed(outlined, opened.pixels()) > 500, view
        button.click()
        assert opened.changed(outlined, opened.pixels()) == 0, view
    assert opened.clean()


def test_a_class_that_was_not_looked_for_is_not_offered(fields, offline, tmp_path):
    rivers = fields.mask.where(fields.mask == 2, 0).astype(np.int8)
    rivers.attrs = {"flag_values": np.array([0, 2], np.int8), "flag_meanings": "background river"}
    opened = offline(maps.explore(fields, rivers, channels=["TMQ"]).save(tmp_path / "rivers.html"))
    assert opened.page.get_by_text("cyclone").count() == 0
    before = opened.pixels()
    opened.page.get_by_role("button", name="river").click()
    assert opened.changed(before, opened.pixels()) > 1000
    assert opened.clean()


def test_missing_snapshots_are_told_beside_the_date(fields, offline, tmp_path):
    gap = fields.isel(time=[0, 1, 2, 3, 3])
    hours = np.array([0, 6, 12, 36, 42]).astype("timedelta64[h]")
    gap = gap.assign_coords(time=np.datetime64("2001-07-01T00") + hours)
    opened = offline(maps.explore(gap, channels=["TMQ"]).save(tmp_path / "gap.html"))
    opened.press("ArrowRight", 3)
    assert "(4 of 5, 3 missing before)" in opened.page.locator(".bk-slider-title").first.inner_text()
    assert opened.clean()


@pytest.mark.parametrize("projection", ["NorthPolarStereo", "SouthPolarStereo"])
def test_both_poles_are_clean(projection, fields, offline, tmp_path):
    # Cells at the pole reach it, in one colour, and no line crosses it: a storm around a pole is one disk.
    polar = fields.isel(time=[0])[["TMQ"]] * 0 + 30
    mask = xr.zeros_like(fields.mask.isel(time=[0]))
    mask[0, [0, 1, -2, -1]] = 1
    shown = maps.explore(polar, mask, projection=projection)
    opened = offline(shown.save(tmp_path / "pole.html"))
    document = "Bokeh.documents[0]"
    opened.page.evaluate(f"for (const n of ['coastline', 'graticule']) {document}.get_model_by_name(n).visible = false")
    opened.page.evaluate(f"{document}.get_model_by_name('overlay').glyph.global_alpha = 1")
    pixels = opened.pixels()
    opened.keep(f"pole_{projection}")
    inside = np.abs(pixels - [0xD0, 0x1C, 0x8B]).max(axis=-1) < 6
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    # A disk of 10 degrees: as high as wide, its area pi/4 of the square around it, without a hole or a wedge.
    high, wide = np.ptp(rows) + 1, np.ptp(columns) + 1
    assert high == pytest.approx(wide, abs=3)
    assert inside.sum() == pytest.approx(np.pi / 4 * high * wide, rel=0.03)
    assert opened.clean()


def test_classes_on_a_grid_finer_than_the_screen_are_never_mixed(offline, tmp_path):
    # 1152 columns on 820 pixels: a colour between two classes, or paler than its own, would be a mean.
    lat, lon = (np.arange(576) + 0.5) * 180 / 576 - 90, np.arange(1152) * 360 / 1152
    mask = xr.DataArray(np.zeros((576, 1152), np.int8), dims=("lat", "lon"), coords={"lat": lat, "lon": lon})
    mask[200:300:3, 100:500] = 1
    mask[201:300:3, 100:500] = 2
    even = xr.full_like(mask, 35.0, dtype=np.float32).rename("TMQ")
    opened = offline(maps.explore(even, mask).save(tmp_path / "fine.html"))
    document = "Bokeh.documents[0]"
    opened.page.evaluate(f"for (const n of ['coastline', 'graticule']) {document}.get_model_by_name(n).visible = false")
    opened.page.evaluate(f"{document}.get_model_by_name('overlay').glyph.global_alpha = 1")
    pixels = opened.pixels()
    opened.keep("fine")
    (x0, y0), (x1, y1) = opened.at(0, 40), opened.at(-20, 150)
    box = opened.page.locator(".bk-Figure:visible").first.bounding_box()
    assert box is not None
    part = pixels[round(y0 - box["y"]) : round(y1 - box["y"]), round(x0 - box["x"]) : round(x1 - box["x"])]
    seen = {tuple(int(number) for number in color) for color in np.unique(part.reshape(-1, 3), axis=0)}
    assert len(seen) == 3
    for name in ("cyclone", "river"):
        assert opened.near(part, styles.CLASS_COLORS[name], 3) > 1000
