"""Records: kept whole, compared case by case, and silent about whose machine it was."""

import json
import platform
from dataclasses import replace

import pytest

from climlab_dl.performance.measure import Measurement, Ratio
from climlab_dl.performance.records import Record, begin, compare, load, machine, markdown


def measured(case: str, cpu: float, **more) -> Measurement:
    return Measurement(case=case, samples=5, wall=2 * cpu, cpu=cpu, **more)


def record(*measurements: Measurement) -> Record:
    return Record(
        date="2026-11-30T1612", machine="AMD EPYC, 2 cores", commit="1921a3c", command="climlab-dl bench all",
        threads=1, load=0.5, versions={"python": "3.11.7"}, measurements=measurements,
    )  # fmt: skip


def test_a_record_comes_back_as_it_was(tmp_path):
    kept = record(
        measured("step tiramisu", 0.5, flops_per_second=1e11, peak_bytes=2**20,
                 of_ceilings={"gemm": Ratio(median=0.8, low=0.7, high=0.9)}, notes={"input": [1, 16, 32, 48]}),
        measured("simulate", 1.0, bytes_per_second=1e9),
    )  # fmt: skip
    path = kept.save(tmp_path)
    assert path.name == "2026-11-30T1612-AMD_EPYC_2_cores-1921a3c.json"
    assert load(path) == kept
    assert not [left for left in tmp_path.iterdir() if left != path]


def test_two_records_are_compared_where_they_measured_the_same():
    def share(median: float) -> dict[str, Ratio]:
        return {"gemm": Ratio(median=median, low=median, high=median)}

    before = record(
        measured("a", 1.0, of_ceilings=share(0.2), peak_bytes=100),
        measured("b", 1.0),
        measured("c", 1.0, notes={"input": [1]}),
    )
    after = record(
        measured("a", 0.5, of_ceilings=share(0.3), peak_bytes=150),
        measured("c", 1.0, notes={"input": [2]}),  # another size: not comparable
    )
    table = compare(before, after)
    assert list(table.index) == ["a"]
    # Twice as fast, but on a machine of 4/3 the speed: its share of the ceiling grew by 1.5 alone.
    assert table.loc["a"].to_dict() == pytest.approx({"cpu": 2.0, "wall": 2.0, "of_ceiling": 1.5, "memory": 1.5})
    with pytest.raises(ValueError, match="no case of one size in common"):
        compare(record(measured("b", 1.0)), after)


def test_a_table_has_a_row_a_case_and_nothing_where_nothing_was_counted():
    lines = markdown(record(measured("simulate", 0.25, bytes_per_second=2e9)).table()).splitlines()
    assert lines[0].startswith("| case | wall ms | CPU ms | GFLOP/s | GB/s | of ceiling |")
    assert lines[2] == "| simulate | 500 | 250 |  | 2 |  |  | 5 |"


def test_a_record_of_here_tells_the_kind_of_machine_and_not_its_name():
    here = begin("climlab-dl bench", threads=1)
    assert here.machine == machine()
    assert "core" in here.machine
    assert platform.node() not in json.dumps(replace(here, command="").__dict__)
    assert here.commit
    assert here.versions["torch"]


def test_what_is_no_record_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="climlab-dl bench writes such files"):
        load(tmp_path / "a.json")
    (tmp_path / "a.json").write_text('{"date": 1}')
    with pytest.raises(ValueError, match="no record of climlab-dl bench"):
        load(tmp_path / "a.json")
