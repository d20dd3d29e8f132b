"""A failure that ends all ranks is printed once, by the rank concerned."""

import subprocess
import sys
from pathlib import Path

import pytest

from climlab_dl.parallel import failures
from climlab_dl.parallel.cluster.processes import mpiexec


def said(tmp_path: Path, body: str) -> str:
    """Run a script on three ranks, which fail, and give what they print."""
    script = tmp_path / "script.py"
    lines = [
        "from climlab_dl.parallel import failures, ranks",
        "with ranks.joined(timeout=30) as world:",
        *(f"    {line}" for line in body.splitlines()),
    ]
    script.write_text("\n".join(lines))
    done = subprocess.run(
        [mpiexec(), "-n", "3", sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    return done.stderr


@pytest.mark.mpi
@pytest.mark.slow
def test_what_all_ranks_say_is_printed_once(tmp_path: Path) -> None:
    assert said(tmp_path, "open('/nowhere')").count("No such file or directory: '/nowhere'") == 1
    words = said(tmp_path, "raise OSError(f'disk {world.rank} is full')")
    assert [words.count(f"disk {rank} is full") for rank in range(3)] == [1, 1, 1]


@pytest.mark.mpi
@pytest.mark.slow
def test_what_one_rank_says_is_printed_by_that_rank_alone(tmp_path: Path) -> None:
    words = said(
        tmp_path,
        "error = ZeroDivisionError('on one') if world.rank == 1 else None\n"
        "try:\n"
        "    ranks.agree([], 'a test', error)\n"
        "except RuntimeError as told:\n"
        "    assert 'rank 1 failed in' in str(told) and 'on one' in str(told)\n"
        "    raise",
    )
    assert words.count("Traceback") == 1
    assert words.count("ZeroDivisionError: on one") == 1


def test_an_error_is_told_unless_another_rank_does() -> None:
    error = ValueError("same")
    assert failures.tells(error)
    failures.silence(error)
    assert not failures.tells(error)
    assert failures.tells(ValueError("same"))
