"""Measurements of one run on one machine: kept as JSON, shown as a table, compared with another's."""

import json
import os
import platform
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from climlab_dl.files import write_text
from climlab_dl.parallel.cores import cores
from climlab_dl.performance.alone import from_dict
from climlab_dl.performance.measure import Measurement
from climlab_dl.words import counted

_COLUMNS = ["case", "wall ms", "CPU ms", "GFLOP/s", "GB/s", "of ceiling", "peak MiB", "samples"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """What was measured, when, with which code, and on what kind of machine.

    Parameters
    ----------
    date
        ISO 8601, UTC, to the second.
    machine
        Model and number of cores, and the GPU; not the machine's name.
    commit
        Of the code, seven digits; the version where there is no checkout.
    command
        That makes it again.
    threads
        Of a rank.
    load
        Processes that wanted a core, on average over the last minute, when it began.
    versions
        Of Python and the packages.
    measurements
        One a case.
    """

    date: str
    machine: str
    commit: str
    command: str
    threads: int
    load: float
    versions: dict[str, str]
    measurements: tuple[Measurement, ...] = ()

    @property
    def name(self) -> str:
        """DATE-MACHINE-COMMIT, as a file's name."""
        return "-".join(re.sub(r"[^\w.-]+", "_", part).strip("_") for part in (self.date, self.machine, self.commit))

    def save(self, folder: Path) -> Path:
        """Write ``DATE-MACHINE-COMMIT.json``."""
        path = folder / f"{self.name}.json"
        write_text(path, json.dumps(asdict(self), indent=1) + "\n")
        return path

    def table(self) -> pd.DataFrame:
        """One row a case, in units that people read."""
        return pd.DataFrame([_row(each) for each in self.measurements], columns=_COLUMNS).set_index("case")


def begin(command: str, threads: int) -> Record:
    """Start a record of here and now, still without measurements."""
    from climlab_dl.training.environment import environment

    facts = environment(0)
    return Record(
        date=f"{datetime.now(UTC):%Y-%m-%dT%H%M%S}", machine=machine(),
        commit=(facts["commit"] or "")[:7] or facts["versions"]["climlab-dl"], command=command, threads=threads,
        load=round(os.getloadavg()[0], 1), versions={"python": facts["python"], **facts["versions"]},
    )  # fmt: skip


def load(path: Path) -> Record:
    """Read a record.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        If the file is something else.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; climlab-dl bench writes such files and says where")
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        return Record(**facts | {"measurements": tuple(map(from_dict, facts["measurements"]))})
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no record of climlab-dl bench ({type(error).__name__}: {error})") from error


def compare(before: Record, after: Record) -> pd.DataFrame:
    """Ratios of two records, case by case: above 1 the second one is faster, or holds more memory.

    Returns
    -------
    pandas.DataFrame
        For each case that both measured at the same size: ``cpu`` and ``wall``, the first's seconds over the second's;
        ``of_ceiling``, of the first bound that both have, in which the machines' speed has cancelled; ``memory``, the
        second's over the first's.

    Raises
    ------
    ValueError
        If they have no case in common.
    """
    known = {each.case: each for each in before.measurements}
    rows = []
    for now in after.measurements:
        then = known.get(now.case)
        if then is not None and then.notes == now.notes:
            bound = next((name for name in now.of_ceilings if name in then.of_ceilings), None)
            share = now.of_ceilings[bound].median / then.of_ceilings[bound].median if bound else float("nan")
            rows.append(
                {
                    "case": now.case,
                    "cpu": then.cpu / now.cpu,
                    "wall": then.wall / now.wall,
                    "of_ceiling": share,
                    "memory": _over(now.peak_bytes, then.peak_bytes),
                }
            )
    if not rows:
        raise ValueError(
            f"the two records have no case of one size in common: {', '.join(known)}; and "
            f"{', '.join(each.case for each in after.measurements)}"
        )
    return pd.DataFrame(rows).set_index("case")


def machine() -> str:
    """Describe this machine by its model and cores, and its GPU if it has one."""
    import torch

    parts = [_processor(), counted(cores(), "core")]
    if torch.cuda.is_available():
        parts.append(torch.cuda.get_device_name())
    return ", ".join(parts)


def markdown(table: pd.DataFrame) -> str:
    """Write a table in Markdown, numbers to three digits, nothing where there is none."""
    header = [table.index.name, *table.columns]
    rows = [[str(case), *map(_cell, values)] for case, values in zip(table.index, table.to_numpy(), strict=True)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in [header, ["---"] * len(header), *rows])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _row(each: Measurement) -> list[Any]:
    shares = "; ".join(f"{share} {name}" for name, share in each.of_ceilings.items())
    return [
        each.case, each.wall * 1e3, each.cpu * 1e3, _in(1e9, each.flops_per_second), _in(1e9, each.bytes_per_second),
        shares, _in(2**20, each.peak_bytes), each.samples,
    ]  # fmt: skip


def _in(unit: float, value: float | None) -> float:
    return float("nan") if value is None else value / unit


def _cell(value: object) -> str:
    if value is None or value != value:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _over(above: float | None, below: float | None) -> float:
    return above / below if above and below else float("nan")
