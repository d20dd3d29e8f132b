"""Storms on the interactive map: their table, their card, their regions."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl import events, maps

pytestmark = pytest.mark.browser


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
    storms = opened.model("storms")
    first = table[table.time == fields.time.values[0]]
    assert opened.page.evaluate(f"{storms}.data.track.length") == len(first) == 2
    whole = opened.pixels()
    opened.page.locator(".slick-row").nth(1).locator(".slick-cell").first.click()
    assert opened.page.evaluate(f"{storms}.selected.indices.length") == 1
    moved = opened.pixels()
    opened.keep("storm_row")
    assert opened.changed(whole, moved) > 50_000
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
    for step in range(4):
        rows = table[table.time == fields.time.values[step]]
        said = [text.split("\n") for text in opened.page.locator(".slick-row").all_inner_texts()]
        assert [row[3] for row in said] == [f"{lon - 360 * (lon > 180):.1f}" for lon in rows.lon]
        opened.press("ArrowRight", 1)
    assert opened.clean()


def test_a_storm_clicked_shows_its_row_and_card_and_the_map_stays(stormy, fields, offline):
    table = events.find(fields.mask, fields)
    opened = offline(stormy)
    row = table[(table.time == fields.time.values[0]) & (table["class"] == "river")].iloc[0]
    x, y = opened.at(row.lat, row.lon)
    before = opened.frame()
    opened.page.mouse.click(x, y)
    opened.page.wait_for_timeout(300)
    assert opened.page.locator(".slick-row .slick-cell.selected").first.inner_text() == str(row.track)
    card = opened.page.evaluate(f"{opened.model('card')}.text")
    assert f"area 10³ km²: {row.area_km2 / 1000:.0f}" in card
    assert f"{row.lat:.1f}°N {row.lon:.1f}°E<br>" in card
    assert "seen 4 times, 2001-07-01 00:00 UTC to 2001-07-01 18:00 UTC" in card
    opened.keep("storm_card")
    # Still the whole world: a click is no journey.
    x_range = """() => { const find = v => v.frame ? v : [...(v.child_views ?? [])].map(find).find(x => x);
        return find(Bokeh.index.roots[0]).model.x_range.start; }"""
    assert opened.page.evaluate(x_range) == -180
    assert opened.frame() == before
    # It stays picked as time goes on, and its card follows it.
    opened.press("ArrowRight", 1)
    opened.page.wait_for_timeout(300)
    later = table[(table.time == fields.time.values[1]) & (table.track == row.track)].iloc[0]
    assert f"{later.area_km2 / 1000:.0f}" in opened.page.evaluate(f"{opened.model('card')}.text")
    assert opened.page.evaluate(x_range) == -180
    assert opened.clean()


@pytest.mark.parametrize(("width", "beside"), [(1400, True), (1000, False)])
def test_answers_stand_beside_the_map_on_wide_pages_and_the_table_is_whole(width, beside, stormy, offline):
    opened = offline(stormy)
    opened.page.set_viewport_size({"width": width, "height": 900})
    opened.page.mouse.click(*opened.at(22.5, 175))
    opened.page.wait_for_timeout(500)
    opened.keep(f"wide_{width}")
    shown, series = (opened.page.locator(".bk-Figure:visible").nth(k).bounding_box() for k in (0, 1))
    assert shown
    assert series
    assert (series["x"] >= shown["x"] + shown["width"]) == beside
    assert (series["y"] >= shown["y"] + shown["height"]) != beside
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    # Each heading is as wide as it is read, and the window for the rows ends with a row.
    beyond = opened.page.locator(".slick-column-name").evaluate_all(
        """names => names.map(name =>
            name.getBoundingClientRect().right - name.parentElement.getBoundingClientRect().right)"""
    )
    assert len(beyond) > 5
    assert max(beyond) <= 0
    rows = opened.page.locator(".slick-viewport-top.slick-viewport-left").first.evaluate("view => view.clientHeight")
    assert rows == 2 * opened.page.locator(".slick-row").first.evaluate("row => row.offsetHeight")
    assert opened.clean()


def test_the_pointer_tells_probability_and_event(stormy, fields, offline):
    table = events.find(fields.mask, fields)
    opened = offline(stormy)
    row = table[(table.time == fields.time.values[0]) & (table["class"] == "cyclone")].iloc[0]
    text = opened.hover(row.lat, row.lon)
    opened.keep("hover_storm")
    assert "probability: cyclone 90.0 %, river 0.0 %" in text
    assert f"event {row.event}, track {row.track}" in text
    assert "event" not in opened.hover(-42.5, 92.5)
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
        assert f"event {track}, track {track}" in opened.hover(20, lon)
        opened.page.mouse.click(*opened.at(20, lon))
        opened.page.wait_for_timeout(200)
        picked = f"{opened.model('storms')}.selected.indices.map(row => {opened.model('storms')}.data.track[row])"
        assert opened.page.evaluate(picked) == [track]
    assert opened.clean()
