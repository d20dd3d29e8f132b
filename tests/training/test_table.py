"""Runs side by side, from folders whose content is known."""

import json
from pathlib import Path

import pytest

from climlab_dl.training.folder import RunFolder
from climlab_dl.training.table import runs_table


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
    table = runs_table(tmp_path)
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
    row = runs_table(tmp_path / "a").loc["a"]
    assert (row["best"], row["best_step"], row["score"]) == (0.7, 20, "mae_mean")


def test_minutes_are_those_of_all_starts_together(tmp_path: Path) -> None:
    # 90 s, then resumed and 30 s more.
    write(tmp_path / "a", 0.1, [0.1, 0.2], seconds=(90.0, 30.0))
    assert runs_table([tmp_path / "a"])["minutes"].item() == 2.0
    write(tmp_path / "b", 0.1, [0.1, 0.2], seconds=(45.0, 90.0))
    assert runs_table([tmp_path / "b"])["minutes"].item() == 1.5


def test_a_run_that_has_only_begun_has_its_row(tmp_path: Path) -> None:
    write(tmp_path / "deep" / "a", 0.1, [])
    write(tmp_path / "b", 0.1, [0.2])
    table = runs_table(tmp_path)
    assert list(table.index) == ["b", "deep/a"]
    assert table.loc["deep/a", ["best", "loss"]].isna().all()


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"a run's folder has a run\.json"):
        runs_table(tmp_path)
