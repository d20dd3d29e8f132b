"""Numbers in tables are as long as they are read, and what must be scrolled says so."""

import numpy as np
import pytest

from climlab_dl import events, maps, synthetic
from climlab_dl.plot import tables


@pytest.mark.parametrize(
    ("value", "said"),
    [(1060225.4, "1,060,225"), (281.66655, "281.7"), (0.031195, "0.0312"), (-34.739994, "-34.74"), (0.0, "0")],
)
def test_numbers_have_four_digits_or_all_before_the_point(value, said):
    assert tables.number(value) == said


@pytest.mark.parametrize(("storms", "said"), [(8, False), (12, True)])
def test_a_table_that_has_to_be_scrolled_says_so(storms, said, tmp_path):
    fields = synthetic.atmosphere(times=1, shape=(24, 48), seed=0)[["TMQ", "mask"]].compute()
    mask = fields.mask.copy(data=np.zeros_like(fields.mask))
    mask[0, 12, : 4 * storms : 4] = 2
    page = maps.explore(fields, mask, storms=events.find(mask, fields)).save(tmp_path / "map.html").read_text()
    assert (f"Up to {storms} storms at a time; scroll the table for those beyond 8." in page) == said
