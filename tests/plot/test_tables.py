"""Numbers in tables are as long as they are read."""

import pytest

from climlab_dl.plot import tables


@pytest.mark.parametrize(
    ("value", "said"),
    [(1060225.4, "1,060,225"), (281.66655, "281.7"), (0.031195, "0.0312"), (-34.739994, "-34.74"), (0.0, "0")],
)
def test_numbers_have_four_digits_or_all_before_the_point(value, said):
    assert tables.number(value) == said
