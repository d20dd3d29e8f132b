"""Saved maps, opened with the network off: they draw, move, choose, toggle and tell."""

import re

import numpy as np
import pandas as pd
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
    """Text under the pointer at a place."""
    x, y = at(opened, lat, lon)
    opened.page.mouse.move(x + 4, y)
    opened.page.mouse.move(x + 1, y)
    opened.page.wait_for_timeout(300)
    return opened.page.locator(".bk-tooltip-content").first.inner_text()


def at(opened, lat, lon):
    """Where a place is on the page, on a flat map around 0."""
    left, top, width, height = opened.page.evaluate(FRAME)
    return left + ((lon + 180) % 360) / 360 * width, top + (90 - lat) / 180 * height


def model(opened, name):
    """Expression of the page's script for a model of the map."""
    return f"Bokeh.documents[0].get_model_by_name('{name}')"


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
    assert "kg m⁻²" in text
    assert "cyclone, truth cyclone" in text
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


@pytest.fixture(scope="module")
def stormy(fields, tmp_path_factory):
    chances = xr.concat([(fields.mask == kind) * 0.9 for kind in range(3)], dim="class").astype(np.float32)
    explorer = maps.explore(
        fields, fields.mask, storms=events.find(fields.mask, fields), probabilities=chances, wind=("U850", "U850")
    )
    return explorer.save(tmp_path_factory.mktemp("stormy") / "storms.html")


def test_a_row_picked_moves_the_map_to_its_storm_and_time_leaves_it_there(stormy, fields, offline):
    table = events.find(fields.mask, fields)
    opened = offline(stormy)
    storms = model(opened, "storms")
    first = table[table.time == fields.time.values[0]]
    assert opened.page.evaluate(f"{storms}.data.track.length") == len(first) == 2
    whole = opened.pixels()
    opened.page.locator(".slick-row").nth(1).locator(".slick-cell").first.click()
    assert opened.page.evaluate(f"{storms}.selected.indices.length") == 1
    moved = opened.pixels()
    opened.keep("storm_row")
    assert changed(whole, moved) > 50_000
    # The storm picked is in the middle of the map now.
    row = opened.page.evaluate(f"{storms}.selected.indices[0]")
    middle = opened.page.evaluate(
        """() => { const find = v => v.frame ? v : [...(v.child_views ?? [])].map(find).find(x => x);
        const {x_range, y_range} = find(Bokeh.index.roots[0]).model;
        return [(x_range.start + x_range.end) / 2, (y_range.start + y_range.end) / 2]; }"""
    )
    place = opened.page.evaluate(f"[{storms}.data.x[{row}], {storms}.data.y[{row}]]")
    assert middle == pytest.approx(place)
    assert opened.clean()


def test_the_tables_rows_are_those_of_the_time_shown(stormy, fields, offline):
    # As many storms at each time: BokehJS draws other rows by itself only if their number changes.
    table = events.find(fields.mask, fields)
    opened = offline(stormy)
    for step in range(3):
        rows = table[table.time == fields.time.values[step]]
        said = [text.split("\n") for text in opened.page.locator(".slick-row").all_inner_texts()]
        assert [row[3] for row in said] == [f"{lon:.1f}" for lon in rows.lon]
        press(opened, "ArrowRight", 1)
    assert opened.clean()


def test_a_storm_clicked_shows_its_row_and_card_and_the_map_stays(stormy, fields, offline):
    table = events.find(fields.mask, fields)
    opened = offline(stormy)
    row = table[(table.time == fields.time.values[0]) & (table["class"] == "river")].iloc[0]
    x, y = at(opened, row.lat, row.lon)
    before = opened.page.evaluate(FRAME)
    opened.page.mouse.click(x, y)
    opened.page.wait_for_timeout(300)
    assert opened.page.locator(".slick-row .slick-cell.selected").first.inner_text() == str(row.track)
    card = opened.page.evaluate(f"{model(opened, 'card')}.text")
    assert f"area 10³ km²: {row.area_km2 / 1000:.0f}" in card
    assert "seen 4 times, 2001-07-01 00:00 UTC to 2001-07-01 18:00 UTC" in card
    opened.keep("storm_card")
    # Still the whole world: a click is no journey.
    x_range = """() => { const find = v => v.frame ? v : [...(v.child_views ?? [])].map(find).find(x => x);
        return find(Bokeh.index.roots[0]).model.x_range.start; }"""
    assert opened.page.evaluate(x_range) == -180
    assert opened.page.evaluate(FRAME) == before
    # It stays picked as time goes on, and its card follows it.
    press(opened, "ArrowRight", 1)
    opened.page.wait_for_timeout(300)
    later = table[(table.time == fields.time.values[1]) & (table.track == row.track)].iloc[0]
    assert f"{later.area_km2 / 1000:.0f}" in opened.page.evaluate(f"{model(opened, 'card')}.text")
    assert opened.page.evaluate(x_range) == -180
    assert opened.clean()


def test_the_pointer_tells_probability_and_event(stormy, fields, offline):
    table = events.find(fields.mask, fields)
    opened = offline(stormy)
    row = table[(table.time == fields.time.values[0]) & (table["class"] == "cyclone")].iloc[0]
    text = hover(opened, row.lat, row.lon)
    opened.keep("hover_storm")
    assert "probability: cyclone 90.0 %, river 0.0 %" in text
    assert f"event {row.event}, track {row.track}" in text
    assert "event" not in hover(opened, -42.5, 92.5)
    assert opened.clean()


def test_a_click_draws_the_series_at_the_place(saved, fields, offline):
    opened = offline(saved)
    series = model(opened, "series")
    opened.page.mouse.click(*at(opened, 22.5, 180))
    opened.page.wait_for_timeout(300)
    there = fields.TMQ.sel(lat=22.5, lon=180)
    values = opened.page.evaluate(f"{series}.data.value")
    assert values == pytest.approx(there.values.tolist(), rel=1e-4)
    assert opened.page.evaluate(f"{series}.data.day") == [0, 0.25, 0.5, 0.75]
    # A storm is over the place in the first three of four snapshots.
    assert opened.page.evaluate(f"{series}.data.color").count(styles.CLASS_COLORS["cyclone"]) == 3
    opened.keep("series")
    opened.page.locator("select").first.select_option("U850")
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate(f"{series}.data.value") == pytest.approx([0] * 4, abs=1e-3)
    assert opened.clean()


def test_a_box_tells_the_regions_figures_by_area(saved, fields, offline):
    opened = offline(saved)
    opened.page.locator(".bk-tool-icon-box-select").first.click()
    (x0, y0), (x1, y1) = at(opened, 59, 31), at(opened, 21, 69)
    opened.page.mouse.move(x0, y0)
    opened.page.mouse.down()
    opened.page.mouse.move(x1, y1, steps=5)
    opened.page.mouse.up()
    opened.page.wait_for_timeout(300)
    text = opened.page.evaluate(f"{model(opened, 'region')}.text")
    opened.keep("box")
    # Cells of 5 degrees whose pixels the box touches: centres 22.5 to 57.5 N, 30 to 70 E.
    part = fields.isel(time=0).sel(lat=slice(21, 59), lon=slice(30, 70))
    weights = np.cos(np.radians(part.lat)) * xr.ones_like(part.lon)
    mean = float((part.TMQ * weights).sum() / weights.sum())
    river = float(((part.mask == 2) * weights).sum() / weights.sum())
    assert f"{part.TMQ.size} cells" in text
    said = re.search(r"mean ([\d.]+), lowest ([\d.]+), highest ([\d.]+) kg m⁻²", text)
    assert said is not None
    expected = [mean, float(part.TMQ.min()), float(part.TMQ.max())]
    assert [float(number) for number in said.groups()] == pytest.approx(expected, rel=1e-4)
    assert f"river {100 * river:.1f} %" in text
    opened.page.locator(".bk-tool-icon-reset").first.click()
    opened.page.wait_for_timeout(200)
    assert not opened.page.evaluate(f"{model(opened, 'region')}.visible")
    assert opened.clean()


def test_truth_can_be_taken_off_and_put_on_in_both_views(saved, offline):
    opened = offline(saved)
    button = opened.page.get_by_role("button", name="truth")
    for view in ("detected", "hits and misses"):
        opened.page.get_by_role("button", name=view).click()
        outlined = opened.pixels()
        button.click()
        assert changed(outlined, opened.pixels()) > 500, view
        button.click()
        assert changed(outlined, opened.pixels()) == 0, view
    assert opened.clean()


def test_a_class_that_was_not_looked_for_is_not_offered(fields, offline, tmp_path):
    rivers = fields.mask.where(fields.mask == 2, 0).astype(np.int8)
    rivers.attrs = {"flag_values": np.array([0, 2], np.int8), "flag_meanings": "background river"}
    opened = offline(maps.explore(fields, rivers, channels=["TMQ"]).save(tmp_path / "rivers.html"))
    assert opened.page.get_by_text("cyclone").count() == 0
    before = opened.pixels()
    opened.page.get_by_role("button", name="river").click()
    assert changed(before, opened.pixels()) > 1000
    assert opened.clean()


def test_missing_snapshots_are_told_beside_the_date(fields, offline, tmp_path):
    gap = fields.isel(time=[0, 1, 2, 3, 3])
    hours = np.array([0, 6, 12, 36, 42]).astype("timedelta64[h]")
    gap = gap.assign_coords(time=np.datetime64("2001-07-01T00") + hours)
    opened = offline(maps.explore(gap, channels=["TMQ"]).save(tmp_path / "gap.html"))
    press(opened, "ArrowRight", 3)
    assert "(4 of 5, 3 missing before)" in opened.page.locator(".bk-slider-title").first.inner_text()
    assert opened.clean()


def test_of_storms_that_share_a_region_the_closest_is_picked(fields, offline, tmp_path):
    # Two cyclones whose cells touch are one region with a row for each, as `events.find` divides it.
    mask = xr.zeros_like(fields.mask.isel(time=[0]))
    mask[0, 20:24, 10:20] = 1  # 12.5 to 27.5 N, 50 to 95 E
    found = events.find(mask)
    storms = pd.concat([found.assign(lon=55.0), found.assign(lon=90.0, track=2, event=2)], ignore_index=True)
    shown = maps.explore(fields.isel(time=[0]), mask, channels=["TMQ"], storms=storms)
    opened = offline(shown.save(tmp_path / "touching.html"))
    for lon, track in ((62, 1), (83, 2)):
        assert f"event {track}, track {track}" in hover(opened, 20, lon)
        opened.page.mouse.click(*at(opened, 20, lon))
        opened.page.wait_for_timeout(200)
        picked = f"{model(opened, 'storms')}.selected.indices.map(row => {model(opened, 'storms')}.data.track[row])"
        assert opened.page.evaluate(picked) == [track]
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
    (x0, y0), (x1, y1) = at(opened, 0, 40), at(opened, -20, 150)
    box = opened.page.locator(".bk-Figure:visible").first.bounding_box()
    assert box is not None
    part = pixels[round(y0 - box["y"]) : round(y1 - box["y"]), round(x0 - box["x"]) : round(x1 - box["x"])]
    seen = {tuple(int(number) for number in color) for color in np.unique(part.reshape(-1, 3), axis=0)}
    assert len(seen) == 3
    for name in ("cyclone", "river"):
        assert near(part, styles.CLASS_COLORS[name], 3) > 1000
