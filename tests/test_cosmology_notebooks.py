"""The notebooks of universes and posteriors run from the first cell to the last, small, and leave what they promise."""

import os

import numpy as np
import pytest

from climlab_dl import notebook, volumes

pytestmark = [pytest.mark.slow, pytest.mark.mpi, pytest.mark.timeout(600)]


def said(book) -> str:
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    return "\n".join(output.get("text", "") + output.get("data", {}).get("text/plain", "") for output in outputs)


def test_simulating_leaves_universes_that_can_be_made_again(tmp_path):
    book = notebook.execute(
        notebook.find("05_simulate_universes"), tmp_path, {"OUT": ".", "UNIVERSES": 16, "VOXELS": 16}
    )
    assert len(volumes.files(tmp_path / "universes")) == 16
    assert "True" in said(book)
    assert "ridge ln P + PDF" in said(book)


def test_posteriors_are_checked_and_so_are_the_published_ones(tmp_path):
    # What the published files hold: many estimates for each universe. These are right, but for what all share.
    random = np.random.default_rng(0)
    truth = np.repeat(random.uniform((0.26, 0.79), (0.34, 0.94), (21, 2)), 30, axis=0)
    found = truth + np.repeat(random.normal(0, 0.01, (21, 2)), 30, axis=0) + random.normal(0, 0.003, truth.shape)
    np.savez(tmp_path / "pred_made.npz", T=truth, P=found)
    parameters = {"OUT": ".", "UNIVERSES": 48, "STEPS": 8, "PUBLISHED": tmp_path}
    book = notebook.execute(notebook.find("07_parameter_posteriors"), tmp_path, parameters)
    for name in ("calibration.png", "predicted.png"):
        assert (tmp_path / name).stat().st_size > 10_000
    assert "pred_made" in said(book)
    assert "covered by 68%" in said(book)


def test_without_the_published_files_the_notebook_says_so(tmp_path, monkeypatch):
    # Only the cells of section 4, which need nothing of the others but the imports.
    import nbformat

    monkeypatch.setitem(os.environ, "CLIMLAB_SHARED", str(tmp_path))
    book = nbformat.read(notebook.find("07_parameter_posteriors"), as_version=4)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    book.cells = [code[0], code[1], *(cell for cell in code if "tables" in cell.source)]
    nbformat.write(book, tmp_path / "part.ipynb")
    done = notebook.execute(tmp_path / "part.ipynb", tmp_path / "out")
    assert "no published predictions" in said(done)
