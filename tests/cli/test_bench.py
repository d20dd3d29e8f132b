"""The verb that measures."""

import json
import re

import pytest


def test_a_case_is_measured_and_recorded_and_two_records_are_compared(run, tmp_path):
    done = run("bench", "ceiling copy", "--short", "--rounds", "1", "--out", tmp_path)
    assert "ceiling copy" in done.stdout
    assert "1/1" in done.stderr
    [path] = tmp_path.glob("*.json")
    assert re.search(rf"1 case in \d+ min \d+ s; record: {re.escape(str(path))}", done.stderr)
    [measured] = json.loads(path.read_text())["measurements"]
    # 256 MiB by the second on the wall or on a core, whichever the case is timed by.
    assert measured["bytes_per_second"] == pytest.approx(2**28 / measured["cpu"])
    [ratios] = json.loads(run("bench", "compare", path, path, "--json").stdout)
    assert ratios["case"] == "ceiling copy"
    assert ratios["cpu"] == ratios["wall"] == 1.0


def test_wrong_use_is_told(run, tmp_path):
    assert "there is no case 'stpe'" in run("bench", "stpe", code=2).stderr
    assert "compare takes two records" in run("bench", "compare", tmp_path / "a.json", code=2).stderr
    assert "takes no files" in run("bench", "step", tmp_path / "a.json", code=2).stderr
