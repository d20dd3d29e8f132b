"""Numbers are written with their nouns as one says them."""

import pytest

from climlab_dl.words import counted


@pytest.mark.parametrize(
    ("number", "noun", "plural", "said"),
    [
        (0, "file", "", "0 files"),
        (1, "file", "", "1 file"),
        (2, "file", "", "2 files"),
        (1, "class", "classes", "1 class"),
        (3, "class", "classes", "3 classes"),
    ],
)
def test_one_has_no_plural(number, noun, plural, said):
    assert counted(number, noun, plural) == said
