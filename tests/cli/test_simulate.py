"""Universes from the shell go on with those that are there."""

import re
from pathlib import Path

import pytest

from climlab_dl import notebook, simulate

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    "page", [DOCS / "how-to" / "universes.md", notebook.find("05_simulate_universes")], ids=lambda page: page.stem
)
def test_a_batch_job_goes_on_with_the_universes_of_the_page_that_tells_of_it(run, tmp_path, monkeypatch, page):
    monkeypatch.chdir(tmp_path)
    (line,) = re.findall(r"climlab-dl (simulate --out \S+ [^`\n]*)", page.read_text())
    words = line.split()
    folder = Path(words[words.index("--out") + 1])
    first = simulate.simulate(simulate.design(1, seed=0, preset=simulate.tour()), folder, 0)
    made = first.stat().st_mtime_ns
    run(*words, "-n", "2")
    assert sorted(path.name for path in folder.iterdir()) == ["universe_00000.h5", "universe_00001.h5"]
    assert first.stat().st_mtime_ns == made


def test_the_preset_of_a_folder_is_told_in_the_words_of_the_shell(run, tmp_path):
    simulate.simulate(simulate.design(1, seed=0, preset=simulate.tour()), tmp_path, 0)
    said = run("simulate", "--out", tmp_path, "-n", "1", code=1).stderr
    assert "another preset" in said
    assert "take --preset tour; or choose an empty folder" in said
