"""Tables of what `climlab-dl bench` has stored, written into the pages that show them.

    python benchmarks/tables.py            # benchmarks/README.md and docs/explanation/speed.md

Of each case and size the newest measurement is shown, whichever run it is of: a case can be measured again alone.
"""

from pathlib import Path

from climlab_dl.performance.records import Record, load

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGES = (HERE / "README.md", HERE.parent / "docs" / "explanation" / "speed.md")
BEGIN, END = "<!-- measured: benchmarks/tables.py writes from here -->", "<!-- to here -->"
COLUMNS = ("case", "input", "CPU ms", "by the clock, ms", "GFLOP/s", "GB/s", "of its ceilings", "peak MiB", "measured")


def rows(records: list[Record]) -> list[list[str]]:
    """One row a case and size, in the order of the cases, from the newest record that has it."""
    from climlab_dl.performance.cases import CASES

    newest: dict[tuple[str, str], list[str]] = {}
    for record in sorted(records, key=lambda record: record.date):
        for each in record.measurements:
            size = "x".join(map(str, each.notes.get("input", []))) or _words(each.notes)
            newest[each.case, size] = [
                each.case,
                size,
                f"{each.cpu * 1e3:.4g}",
                f"{each.wall * 1e3:.4g}",
                f"{each.flops_per_second / 1e9:.3g}" if each.flops_per_second else "",
                f"{each.bytes_per_second / 1e9:.3g}" if each.bytes_per_second else "",
                "; ".join(f"{share} {name}" for name, share in each.of_ceilings.items()),
                "" if each.peak_bytes is None else f"{each.peak_bytes / 2**20:.0f}",
                f"{record.date[:10]}, {record.commit}",
            ]
    order = list(CASES)
    return sorted(newest.values(), key=lambda row: (order.index(row[0]), row[1]))


def table(records: list[Record]) -> str:
    """Markdown, with the machine above it: what was measured on several machines is not mixed."""
    parts = []
    for machine in dict.fromkeys(record.machine for record in records):
        mine = [record for record in records if record.machine == machine]
        lines = [COLUMNS, ["---"] * len(COLUMNS), *rows(mine)]
        versions = mine[-1].versions
        about = f"{machine}; {mine[-1].threads} thread; torch {versions['torch']}, Python {versions['python']}."
        parts.append("\n".join([about, "", *(f"| {' | '.join(line)} |" for line in lines)]))
    return "\n\n".join(parts)


def filled(page: str, measured: str) -> str:
    """Put a table where the page wants it."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{measured}\n\n{END}{rest.split(END)[1]}"


def _words(notes: dict) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value:,}" for key, value in notes.items())


def measured() -> str:
    """Table of what is stored; the call for a GPU has a page of its own beside its record."""
    stored = [load(path) for path in sorted(RESULTS.glob("*.json"))]
    return table([record for record in stored if record.command.startswith("climlab-dl bench")])


def main() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8"), measured()), encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
