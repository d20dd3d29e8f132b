"""A notebook that was run and exported, opened with the network off: its maps draw and answer."""

import nbformat
import pytest

from climlab_dl import notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELLS = (
    "from climlab_dl import archive, events, heuristics, maps\nmaps.setup()",
    "fields = archive.open(archive.sample()).isel(time=slice(0, 3))\nmask = heuristics.label(fields)",
    "maps.explore(fields, mask, channels=['TMQ', 'U850'])",
    "first = fields.isel(time=0)\nmaps.field(first.PSL, projection='Robinson') * maps.coastline(projection='Robinson')",
    "maps.setup()",
    "maps.static(fields, mask)",
    "events.find(mask.compute(), fields)",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    nbformat.write(book, folder / "story.ipynb")
    return notebook.export(notebook.execute(folder / "story.ipynb", folder / "out"), folder / "story.html")


def test_a_saved_notebooks_maps_draw_and_answer_without_kernel_or_network(page, offline):
    assert page.stat().st_size < 15_000_000
    opened = offline(page)
    opened.page.locator(".bk-Figure:visible").nth(1).wait_for(timeout=60_000)
    first = opened.pixels()
    assert len({tuple(color) for color in first.reshape(-1, 3)}) > 200
    opened.page.locator(".noUi-handle").first.focus()
    opened.page.keyboard.press("ArrowRight")
    moved = opened.pixels()
    assert (abs(moved - first).max(axis=-1) > 8).sum() > 5000
    opened.page.locator("select").first.select_option("U850")
    assert (abs(opened.pixels() - moved).max(axis=-1) > 8).sum() > 50_000
    # The composed map, in its own projection, and the static twin as a picture.
    assert len({tuple(color) for color in opened.pixels(number=1).reshape(-1, 3)}) > 100
    assert opened.page.locator("img[src^='data:image/png']").count() >= 1
    assert opened.clean()


def test_the_drawing_library_is_in_the_page_once(page):
    # BokehJS and Panel together are about three megabytes; a second run of setup sends them again, the page keeps one.
    scripts = page.read_text().split("<script")
    assert sum(len(script) > 2_000_000 for script in scripts) == 1


def test_a_table_of_many_columns_fits_the_page_and_shows_no_more_digits_than_are_read(page, offline):
    opened = offline(page)
    table = opened.page.locator("table.dataframe")
    assert table.locator("thead th").count() > 15
    width, room = table.evaluate("table => [table.offsetWidth, table.parentElement.clientWidth]")
    assert width <= room + 1
    cells = table.locator("tbody td").all_inner_texts()
    assert [cell for cell in cells if len(cell) > 11 and ":" not in cell] == []
    opened.keep("table")
