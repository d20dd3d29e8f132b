"""Nothing that a rank does or keeps grows with the number of ranks: the real loop as one rank of 10, and of 10,000."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / "mpi" / "one_of_many.py"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the script tells of each route."""
    command = [sys.executable, str(SCRIPT), str(tmp_path_factory.mktemp("ranks"))]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=250).stdout)


@pytest.mark.parametrize("route", ["flat", "hierarchical"])
def test_a_rank_of_ten_thousand_does_no_more_than_one_of_ten(route: str, trained: dict[str, Any]) -> None:
    few, many = trained[route]["10"], trained[route]["10000"]
    # Functions called from the first look at the folder to the last checkpoint; a loop over ranks would call thousands.
    assert many["calls"] == pytest.approx(few["calls"], abs=200)
    # A state of each rank would be 50 MB of random numbers alone.
    assert many["megabytes"] < 8
    # Files that hold numbers in decimals differ by a few digits.
    assert many["files"].keys() == few["files"].keys()
    for name, size in many["files"].items():
        assert size == pytest.approx(few["files"][name], abs=100), name
