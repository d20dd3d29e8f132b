"""Notebooks are held to their manners, and run."""

import ast
from pathlib import Path
from statistics import median

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


def code_cells(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def lines_of_code(source: str) -> int:
    return sum(1 for line in source.splitlines() if line.strip() and not line.strip().startswith("#"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_cells_are_short_sentences(path):
    lengths = [lines_of_code(source) for source in code_cells(path)]
    assert max(lengths) <= 12
    assert median(lengths) <= 4


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_nothing_is_defined_in_a_notebook(path):
    for source in code_cells(path):
        for node in ast.walk(ast.parse(source)):
            assert not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda), source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_no_output_is_committed(path):
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_cluster_that_is_started_is_closed_by_the_last_cell(path):
    cells = code_cells(path)
    if any("cluster.start" in source for source in cells):
        assert "engines.close()" in cells[-1]


def test_notebooks_that_keep_a_run_in_the_same_folder_ask_for_the_same_run():
    # A folder holds one run: a notebook after another ended in "holds another run", or in fewer steps than there are.
    asked: dict[tuple[str, str], set[str]] = {}
    for path in NOTEBOOKS:
        lines = [line for source in code_cells(path) for line in source.splitlines()]
        out = next(line for line in lines if line.startswith("OUT = "))
        told = "; ".join(
            line.split("  #")[0] for line in lines if line.startswith(("run = ", "STEPS = ", "UNIVERSES = "))
        )
        for line in lines:
            if "engines.train(run, " in line:
                asked.setdefault((out, line.partition("engines.train(run, ")[2]), set()).add(told)
    assert asked
    assert {place: runs for place, runs in asked.items() if len(runs) > 1} == {}
