"""The tour's page, opened with the network off."""

import numpy as np
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.mpi, pytest.mark.timeout(900)]


def test_maps_draw_coastlines_and_their_sliders_move(tour, offline):
    opened = offline(tour / "tour.html")
    maps = opened.page.locator(".bk-Figure:visible")
    assert maps.count() >= 3  # fields, labels, detections; the corner plot has more
    opened.keep("tour")
    # Each map has a time slider; those with masks have one of opacity after it.
    for number, slider in ((0, 0), (1, 1), (2, 3)):
        before = opened.pixels(number=number)
        # A coastline is a dark line on a bright field.
        assert (before.max(axis=-1) < 70).mean() > 0.005
        handle = opened.page.locator(".noUi-handle:visible").nth(slider)
        handle.scroll_into_view_if_needed()
        handle.focus()
        handle.press("ArrowRight")
        after = opened.pixels(number=number)
        assert (np.abs(after - before).max(axis=-1) > 8).mean() > 0.01
    assert opened.clean()


def test_no_slider_lies_beyond_the_page_and_no_heading_of_a_table_is_broken(tour, offline):
    page = offline(tour / "tour.html").page
    page.set_viewport_size({"width": 1100, "height": 720})
    right = page.locator(".noUi-target:visible").evaluate_all("all => all.map(x => x.getBoundingClientRect().right)")
    assert len(right) >= 4  # times, opacities, and redshifts beside whose pictures there is no room
    assert max(right) < page.evaluate("document.querySelector('main').getBoundingClientRect().right")
    lines = """all => all.map(one => {
        const text = document.createRange()
        text.selectNodeContents(one)
        return [one.textContent, text.getClientRects().length]
    })"""
    headings = page.locator("table.dataframe thead th").evaluate_all(lines)
    assert len(headings) > 20
    assert [text for text, count in headings if count > 1] == []
