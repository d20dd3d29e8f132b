"""A notebook that was run and exported, opened with the network off: its maps draw and answer."""

import nbformat
import pytest

from climlab_dl import notebook

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELLS = (
    "from climlab_dl import archive, heuristics, maps\nmaps.setup()",
    "fields = archive.open(archive.sample()).isel(time=slice(0, 3))\nmask = heuristics.label(fields)",
    "maps.explore(fields, mask, channels=['TMQ', 'U850'])",
    "first = fields.isel(time=0)\nmaps.field(first.PSL, projection='Robinson') * maps.coastline(projection='Robinson')",
    "maps.setup()",
    "maps.static(fields, mask)",
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
    opened.page.locator(".bk-Figure").nth(1).wait_for(timeout=60_000)
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
