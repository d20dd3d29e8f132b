"""Runs side by side, from folders whose content is known."""

import json
from pathlib import Path

import pytest

from climlab_dl import runs
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.summary import Summary


def write(
    path: Path,
    rate: float,
    scores: list[float],
    metric: str = "iou_mean",
    seconds: tuple[float, ...] = (30.0, 60.0),
    steps: int = 20,
) -> None:
    folder = RunFolder(path)
    description = {"class": "climlab_dl.training.run.Run", "optimizer": {"class": "a.Adam", "learning_rate": rate}}
    folder.begin(json.dumps({**description, "steps": steps, "channels": ["TMQ", "PSL"]}), steps=steps)
    for number, score in enumerate(scores):
        row = {"step": 10 * (number + 1), "steps": steps, "epoch": 1, "loss": 0.5, "learning_rate": rate, "rate": 4.0}
        folder.append_progress({**row, "seconds": seconds[number], "metrics": {metric: score}})
    folder.write_status("finished", step=10 * len(scores), steps=steps)


def test_the_best_score_and_what_differs_stand_side_by_side(tmp_path: Path) -> None:
    write(tmp_path / "a", 0.1, [0.4, 0.3])
    write(tmp_path / "b", 0.2, [0.1, 0.2], steps=40)
    table = runs.table(tmp_path)
    assert list(table.index) == ["a", "b"]
    assert list(table["steps"]) == [20, 40]
    assert list(table["best"]) == [0.4, 0.2]
    assert list(table["best_step"]) == [10, 20]
    assert list(table["optimizer.learning_rate"]) == [0.1, 0.2]
    # What is the same in both is not in the table.
    assert "optimizer" not in table
    assert "channels" not in table
    assert table.sort_values("best", ascending=False).index[0] == "a"


def test_the_best_error_is_the_smallest(tmp_path: Path) -> None:
    write(tmp_path / "a", 0.1, [0.9, 0.7], metric="mae_mean")
    row = runs.table(tmp_path / "a").loc["a"]
    assert (row["best"], row["best_step"], row["score"]) == (0.7, 20, "mae_mean")


def test_minutes_are_those_of_all_starts_together(tmp_path: Path) -> None:
    # 90 s, then resumed and 30 s more.
    write(tmp_path / "a", 0.1, [0.1, 0.2], seconds=(90.0, 30.0))
    assert runs.table([tmp_path / "a"])["minutes"].item() == 2.0
    write(tmp_path / "b", 0.1, [0.1, 0.2], seconds=(45.0, 90.0))
    assert runs.table([tmp_path / "b"])["minutes"].item() == 1.5


def test_a_run_that_has_only_begun_has_its_row(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "a", 0.1, [])
    write(tmp_path / "b", 0.1, [0.2])
    table = runs.table(tmp_path)
    assert list(table.index) == ["b", "deep/a"]
    assert table.loc["deep/a", ["best", "loss"]].isna().all()


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"a run's folder has a run\.json"):
        runs.table(tmp_path)


def test_a_notebook_sees_bars_and_words_in_place_of_bare_numbers(tmp_path: Path) -> None:
    write(tmp_path / "a<b", 0.1, [0.4, 0.3], steps=40)
    write(tmp_path / "c", 0.2, [])
    page = runs.table(tmp_path)._repr_html_()
    assert "<progress value='20' max='40'" in page
    assert "20 of 40" in page
    assert ">best iou_mean<" in page
    assert ">0.4<" in page
    assert "a&lt;b" in page
    assert "a<b" not in page
    # What is not known yet is an empty cell.
    assert ">nan<" not in page.lower()
    assert "<NA>" not in page


def test_a_sorted_or_filtered_table_still_shows_itself_so(tmp_path: Path) -> None:
    write(tmp_path / "a", 0.1, [0.1])
    write(tmp_path / "b", 0.2, [0.4])
    table = runs.table(tmp_path).sort_values("best", ascending=False)
    assert table._repr_html_().index(">b<") < table._repr_html_().index(">a<")
    assert "click to sort" in table[["state", "best"]].head(1)._repr_html_()


def test_the_rate_is_not_that_of_a_last_interval_of_a_step(tmp_path: Path) -> None:
    write(tmp_path / "a", 0.1, [0.1, 0.2])
    folder = RunFolder(tmp_path / "a")
    row = {"step": 20, "steps": 21, "epoch": 1, "loss": 0.5, "learning_rate": 0.1, "metrics": {}}
    for rate in (4.2, 4.1, 90.0):
        folder.append_progress({**row, "rate": rate, "seconds": 61.0})
    # The median of 4, 4, 4.2, 4.1 and 90.
    assert runs.table(tmp_path / "a").loc["a", "rate"] == 4.1
    assert Summary.of(folder.status(), folder.progress()).rate == 4.1


def test_from_where_a_run_was_started_is_no_difference(tmp_path: Path) -> None:
    for name in ("a", "b"):
        RunFolder(tmp_path / name).begin(json.dumps({"class": "x.Run", "started_in": name}))
    assert "started_in" not in runs.table(tmp_path)
