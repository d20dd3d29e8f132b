"""What the interactive map answers: under the pointer, to a click, and to a box."""

import re

import numpy as np
import pytest
import xarray as xr

from climlab_dl.plot import styles

pytestmark = pytest.mark.browser


def test_the_pointer_reads_place_value_unit_and_class(saved, fields, offline):
    opened = offline(saved)
    opened.press("ArrowRight", 1)
    text = opened.hover(22.5, 180)
    assert "22.50°N" in text
    assert "180.00°\n" in text
    value = float(fields.TMQ[1].sel(lat=22.5, lon=180))
    assert f"TMQ {value:.5g}"[:9] in text
    assert "kg m⁻²" in text
    assert "cyclone, truth cyclone" in text
    opened.keep("hover")
    opened.page.locator("select").first.select_option("U850")
    text = opened.hover(-42.5, 90)
    assert "42.50°S" in text
    assert "U850 20" in text
    assert "background" in text
    assert opened.clean()


def test_pointer_and_series_name_places_as_the_axes_do(saved, offline):
    opened = offline(saved)
    # Cell centres; on the equator's and the meridians' 0 and 180 degrees neither letter is true.
    for lat, lon, said in ((-12.5, 295, "12.50°S 65.00°W"), (12.5, 65, "12.50°N 65.00°E"), (2.5, 0, "2.50°N 0.00°")):
        assert opened.hover(lat, lon).split("\n")[0] == said
        opened.page.mouse.click(*opened.at(lat, lon + 1))
        opened.page.wait_for_timeout(200)
        titles = "Bokeh.documents[0].get_model_by_name('panel').title.text"
        assert opened.page.evaluate(titles) == f"TMQ (kg m⁻²) at {said}"
    opened.keep("series_west")
    assert opened.clean()


def test_a_click_draws_the_series_at_the_place(saved, fields, offline):
    opened = offline(saved)
    series = opened.model("series")
    opened.page.mouse.click(*opened.at(22.5, 180))
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
    (x0, y0), (x1, y1) = opened.at(59, 31), opened.at(21, 69)
    opened.page.mouse.move(x0, y0)
    opened.page.mouse.down()
    opened.page.mouse.move(x1, y1, steps=5)
    opened.page.mouse.up()
    opened.page.wait_for_timeout(300)
    text = opened.page.evaluate(f"{opened.model('region')}.text")
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
    assert not opened.page.evaluate(f"{opened.model('region')}.visible")
    assert opened.clean()
