"""Figures of scaling draw the numbers of their tables."""

from typing import Any

import pytest

from climlab_dl.performance import machines
from climlab_dl.plot import efficiency


def test_figures_show_what_is_in_the_tables(tmp_path: Any) -> None:
    table = machines.today([8, 100_000])
    names = list(table["technique"].unique())
    lines: Any = efficiency.curves(table, path=tmp_path / "curves.png").axes[0].get_lines()
    assert [line.get_label() for line in lines] == names
    assert list(lines[0].get_ydata()) == list(table["efficiency"][:2])
    bars: Any = efficiency.parts(table).axes[0].patches
    # The four parts of each bar are the whole of it.
    assert sum(bar.get_width() for bar in bars) == pytest.approx(len(names))
    dots: Any = efficiency.against(machines.published()).axes[0].get_lines()[1:]
    assert sum(len(dot.get_xdata()) for dot in dots) == 13
    assert (tmp_path / "curves.png").stat().st_size > 10_000
