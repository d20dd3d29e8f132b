"""One case in a process of its own, so that neither memory nor kernels of the others are in its numbers.

    python -m climlab_dl.performance.alone CASE SIZE ROUNDS FOLDER        under mpiexec for a case of several ranks

Rank 0 leaves the measurement as FOLDER/measurement.json.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from climlab_dl.performance.measure import Measurement, Ratio

_REPLY = "measurement.json"


def measure_alone(case: str, size: str, rounds: int, *, launcher: Sequence[str] = (), threads: int = 1) -> Measurement:
    """Measure a case in a process of its own, or on ranks of their own.

    Parameters
    ----------
    case, size, rounds
        As in :mod:`climlab_dl.performance.cases` and :func:`climlab_dl.performance.measure.measure`.
    launcher
        Command that starts ranks, such as ``("mpiexec", "-n", "2")``.
    threads
        Of each rank.

    Raises
    ------
    RuntimeError
        If the process failed, with the end of what it said.
    """
    with TemporaryDirectory(prefix="climlab-dl-bench-") as folder:
        command = [*launcher, sys.executable, "-m", __name__, case, size, str(rounds), folder]
        done = subprocess.run(
            command, env=os.environ | {"OMP_NUM_THREADS": str(threads)}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = "\n".join((done.stderr or done.stdout).splitlines()[-12:])
            raise RuntimeError(f"the case {case!r} ended with exit code {done.returncode}:\n{said}")
        return from_dict(json.loads((Path(folder) / _REPLY).read_text(encoding="utf-8")))


def from_dict(facts: dict[str, Any]) -> Measurement:
    """Rebuild a measurement from ``dataclasses.asdict``."""
    shares = {name: Ratio(**share) for name, share in facts["of_ceilings"].items()}
    return Measurement(**{**facts, "of_ceilings": shares})


def main() -> None:
    """Measure what the command line names."""
    from climlab_dl.parallel import ranks
    from climlab_dl.parallel.memory import keep_freed
    from climlab_dl.performance.cases import CASES
    from climlab_dl.performance.measure import measure

    name, size, rounds, folder = sys.argv[1:]
    with ranks.joined() as world:
        mine = Path(folder) / f"rank{world.rank}"
        mine.mkdir()
        case = CASES[name](size, mine)  # pyright: ignore[reportArgumentType]
        keep_freed()  # as processes that train or detect do; from now on, so that the peak is not hidden
        found = measure(name, case.work, rounds=int(rounds), ceilings=case.ceilings, notes=case.notes)
        if world.rank == 0:
            (Path(folder) / _REPLY).write_text(json.dumps(asdict(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
