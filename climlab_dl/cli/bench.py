"""The verb that measures: speed and memory beside what this machine can do at most."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from climlab_dl.cli.app import AsJson, Count, app, taking_options, wrong_use

_CHECKOUT = Path(__file__).parents[2]


@app.command
def bench(
    case: Positional[str],
    records: Positional[tuple[Path, ...]] = (),
    /,
    *,
    short: bool = False,
    rounds: Annotated[Count | None, arg(aliases=["-n"])] = None,
    ranks: Count = 2,
    threads: Count = 1,
    out: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Measure speed and memory beside this machine's ceilings, or compare two records.

    Each case runs in a process of its own and in turn with its ceiling: the product of matrices for arithmetic, copies
    and reads from memory for bytes. Seconds are medians of a sample; FLOPs are counted as the papers count them.

    Example: climlab-dl bench step --short
             climlab-dl bench compare before.json after.json

    Args:
        case: ceiling, step, input, allreduce, detect, simulate or all; one case of them, such as "step tiramisu"; or
            compare, with two records.
        records: With compare: what two runs have stored.
        short: Smaller maps and universes, for minutes; the published sizes take up to half an hour.
        rounds: How often case and ceiling take turns; by default 5, or 3 at published sizes.
        ranks: For allreduce.
        threads: Of each process.
        out: Folder for the record; by default benchmarks/results in a checkout, else here.
        as_json: Print the record, or the comparison, as JSON for a script.
    """
    from climlab_dl.performance.records import compare, load

    if case == "compare":
        if len(records) != 2:
            wrong_use(
                f"compare takes two records, and {len(records)} are given: climlab-dl bench compare A.json B.json"
            )
        ratios = compare(load(records[0]), load(records[1]))
        print(
            ratios.reset_index().to_json(orient="records", indent=1)
            if as_json
            else ratios.to_string(float_format="%.2f")
        )
        return
    if records:
        wrong_use(f"{case} takes no files; records are for compare")
    _measure(case, "short" if short else "full", rounds or (5 if short else 3), ranks, threads, out, as_json)


def _measure(
    group: str, size: Literal["short", "full"], rounds: int, ranks: int, threads: int, out: Path | None, as_json: bool
) -> None:
    import sys
    import time

    from climlab_dl.parallel.cluster.processes import mpiexec
    from climlab_dl.performance.alone import measure_alone
    from climlab_dl.performance.cases import named
    from climlab_dl.performance.records import begin

    with taking_options():
        cases = named(group)
    found, path = [], Path()
    folder = out or (_CHECKOUT / "benchmarks" / "results" if (_CHECKOUT / ".git").exists() else Path())
    record, began = begin(f"climlab-dl bench {group}{' --short' * (size == 'short')}", threads), time.monotonic()
    for number, case in enumerate(cases, 1):
        start = time.monotonic()
        launcher = (mpiexec(), "-n", str(ranks)) if case.startswith("allreduce") else ()
        found.append(measure_alone(case, size, rounds, launcher=launcher, threads=threads))
        record = replace(record, measurements=tuple(found))
        path = record.save(folder)  # after each, so that an interrupted run keeps what it has
        # A line a case, so that minutes do not pass in silence; a script's output has the record alone.
        print(f"{number:2}/{len(cases)}  {time.monotonic() - start:4.0f} s  {found[-1]}", file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps(asdict(record), indent=1))
    else:
        print(f"{record.machine}, {record.date} UTC, commit {record.commit}, load {record.load}")
        print(record.table().to_string(float_format="%.3g", na_rep=""))
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(f"{len(cases)} case{'s' * (len(cases) > 1)} in {minutes} min {seconds} s; record: {path}", file=sys.stderr)
