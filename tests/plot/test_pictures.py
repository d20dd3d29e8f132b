"""Pictures say in words what they show, in a file and in memory."""

import io
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from PIL import Image

from climlab_dl.plot import pictures


@pytest.fixture
def figure() -> Figure:
    """Two panels with titles, names of axes, and a key each for the figure and a panel."""
    figure = Figure(figsize=(4, 3))
    left, right = figure.subplots(1, 2)
    left.plot([0, 1], label="ours")
    left.set(title="a line", xlabel="step", ylabel="loss")
    left.legend()
    right.set_title("nothing")
    figure.suptitle("two\npanels")
    figure.legend(["all"])
    return figure


def test_words_are_titles_axes_and_keys_in_the_order_of_reading(figure: Figure) -> None:
    assert pictures.in_words(figure) == "two panels; a line; loss against step; nothing; all; ours"


@pytest.mark.parametrize(("ending", "mark"), [("svg", b"<dc:description>two panels"), ("pdf", b"/Subject (two panels")])
def test_a_file_has_the_words_in_its_metadata(figure: Figure, tmp_path: Path, ending: str, mark: bytes) -> None:
    assert pictures.written(figure, tmp_path / f"picture.{ending}") is figure
    assert mark in (tmp_path / f"picture.{ending}").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [f"picture.{ending}"]


def test_a_png_has_the_words_whether_it_is_a_file_or_not(figure: Figure, tmp_path: Path) -> None:
    pictures.written(figure, tmp_path / "picture.png", 96)
    for picture in (tmp_path / "picture.png", io.BytesIO(pictures.png(figure))):
        with Image.open(picture) as opened:
            assert opened.size == (384, 288)
            assert opened.info["Description"].startswith("two panels; a line")
