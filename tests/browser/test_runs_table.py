"""The table of runs in a page: a click on a column's head sorts it, as numbers where they are."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from climlab_dl.training.table import Runs

pytestmark = pytest.mark.browser


def test_a_click_sorts_by_number_and_a_second_one_the_other_way(browser: Any, tmp_path: Path) -> None:
    table = Runs(
        {"state": ["finished", "waiting", "stopped"], "step": [9, None, 100], "steps": [100, None, 100]},
        index=pd.Index(["b", "c", "a"], name="run"),
    )
    (tmp_path / "table.html").write_text(table._repr_html_())
    page = browser.new_page()
    page.goto((tmp_path / "table.html").as_uri())
    names = page.locator("tbody tr td:first-child")
    assert names.all_inner_texts() == ["b", "c", "a"]
    page.get_by_text("step", exact=True).click()
    # 9 before 100, which as text would be the other way round; what has no step is last either way.
    assert names.all_inner_texts() == ["b", "a", "c"]
    page.get_by_text("step", exact=True).click()
    assert names.all_inner_texts() == ["a", "b", "c"]
    page.get_by_text("state", exact=True).click()
    assert names.all_inner_texts() == ["b", "a", "c"]
    page.get_by_text("run", exact=True).click()
    assert names.all_inner_texts() == ["a", "b", "c"]
    page.close()
