"""The notebook on scaling, run: it starts no ranks."""

from pathlib import Path

import pytest

from climlab_dl import notebook

pytestmark = pytest.mark.slow


def test_the_notebook_on_scaling_shows_the_past_the_present_and_what_helps(tmp_path: Path) -> None:
    book = notebook.execute(notebook.find("08_scaling"), tmp_path, {"OUT": "."})
    shown = {
        cell.source.splitlines()[-1]: next(output["data"] for output in cell.outputs if "data" in output)
        for cell in book.cells
        if cell.cell_type == "code" and cell.outputs
    }
    tables = [page for data in shown.values() if "<table" in (page := data.get("text/html", ""))]
    assert len(tables) == 4
    assert "Mathuriya et al. 2018" in tables[0]
    assert [name for name, data in shown.items() if "image/png" in data] == [
        "efficiency.against(published)",
        'efficiency.curves(today, path=out / "scaling.png")',
        "efficiency.parts(today)",
    ]
    assert (tmp_path / "scaling.png").stat().st_size > 10_000
