"""Benchmarks still run, at the size of a toy: what they measure is recorded beside them, not asserted here.

Those that start trainings on ranks to break or compare them (faults, killed, overhead, trials) or train for a study
(universes) take minutes at any size, and maps drives a browser through an archive; their parts are tested in
tests/parallel, tests/training, tests/inference and tests/plot.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import h5py
import numpy as np
import pytest

from climlab_dl import archive, synthetic
from climlab_dl.performance import records
from climlab_dl.performance.measure import Measurement

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch, capsys):
    """Run a benchmark's main with arguments, some of its constants made small; gives the module and what it printed."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    before = set(sys.modules)

    def run(name: str, *arguments: object, **small: object) -> tuple[ModuleType, str]:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        module = importlib.import_module(name)
        for constant, value in small.items():
            assert hasattr(module, constant)
            monkeypatch.setattr(module, constant, value)
        module.main()
        return module, capsys.readouterr().out

    yield run
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCHMARKS)):
            del sys.modules[name]


@pytest.mark.slow
@pytest.mark.mpi
def test_detection_is_measured_killed_and_repeated(benchmark, tmp_path):
    _, said = benchmark("detect", "--snapshots", 40, "--rows", 48, "--folder", tmp_path, PIECE=4)
    assert "40 snapshots" in said
    assert "10 files" in said
    assert "all 10 are byte-equal" in said
    assert not list(tmp_path.iterdir())


def test_labelling_is_timed(benchmark):
    _, said = benchmark("label", "--snapshots", 8, "--workers", 1, ROWS=32, COLUMNS=48)
    assert "both classes, Kurth" in said
    assert "8 snapshots" in said


def test_events_are_timed(benchmark):
    _, said = benchmark("events", "--snapshots", 4, ROWS=64, COLUMNS=128)
    assert "events a snapshot" in said


@pytest.mark.slow
def test_networks_are_timed(benchmark):
    _, said = benchmark("models", "--lat", 32, "--lon", 48, "--rounds", 1, "--case", "small, 2 snapshots of 96 x 192")
    assert "Tiramisu.small()" in said


def test_small_networks_are_scored(benchmark, tmp_path):
    source = archive.save(synthetic.atmosphere(times=9, shape=(32, 64), seed=0).drop_vars("mask"), tmp_path / "in.nc")
    _, said = benchmark("small_networks", tmp_path / "out", "--archive", source, "--run", "small_deeplab", "--steps", 1)
    assert "small_deeplab step 1: river" in said


def test_input_is_timed_and_its_bytes_are_those_of_the_files(benchmark, tmp_path):
    module, said = benchmark("input", "--rows", 24, "--side", 8, "--rounds", 1, "--folder", tmp_path)
    found = module.sources(tmp_path, 24, 8)
    for name in found:
        assert f"| {name} | " in said
    with h5py.File(found["DeepCAM HDF5, 16 fields"].files[0]) as file:
        read = [np.asarray(file[name]).nbytes for name in ("climate/data", "climate/labels_0")]
    assert found["DeepCAM HDF5, 16 fields"].payload == sum(read)
    with h5py.File(found["ClimateNet NetCDF, 4 fields"].files[0]) as file:
        read = [np.asarray(file[name]).nbytes for name in (*module.FOUR, "LABELS")]
    assert found["ClimateNet NetCDF, 4 fields"].payload == sum(read)


@pytest.mark.slow
def test_archives_are_timed(benchmark, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    large = importlib.import_module("archive").snapshot
    _, said = benchmark("archive", FILES=6, snapshot=lambda rows, columns: large(min(rows, 24), min(columns, 48)))
    assert "open 6 nc files" in said
    assert "deepcam: check" in said


@pytest.mark.slow
def test_the_one_call_for_a_gpu_leaves_a_table_and_a_record(benchmark, tmp_path):
    networks = ("--network", "tiramisu", "--network", "cosmoflow_mlperf")
    executions = ("--execution", "eager", "--execution", "graphs")
    module, said = benchmark("gpu", "--toy", *networks, *executions, "--out", tmp_path, ROUNDS=1)
    [table], [record] = tmp_path.glob("*.md"), tmp_path.glob("*.json")
    measured = [each.case for each in records.load(record).measurements]
    trained = [str(variant) for variant in module.variants(["tiramisu", "cosmoflow_mlperf"], ["eager"])]
    assert measured == [*trained, "tiramisu bf16 fed from files", "detect deepcam"]
    assert f"| {measured[0]} |" in table.read_text()
    assert "- tiramisu bf16 channels_last graphs: CUDA graphs need a GPU" in table.read_text()
    assert str(table) in said


def test_the_call_for_a_gpu_begins_nothing_when_its_minutes_are_over(benchmark, tmp_path):
    benchmark("gpu", "--toy", "--network", "cosmoflow", "--minutes", 0, "--out", tmp_path)
    [table] = tmp_path.glob("*.md")
    assert "cosmoflow bf16 channels_last eager: not begun" in table.read_text()


def test_pages_show_what_is_stored(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    tables = importlib.import_module("tables")
    for page in tables.PAGES:
        assert page.read_text() == tables.filled(page.read_text(), tables.measured()), "run benchmarks/tables.py"


def test_of_each_case_the_newest_measurement_is_shown(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    tables = importlib.import_module("tables")

    def record(date: str, *cases: Measurement) -> records.Record:
        return records.Record(
            date=date, machine="a CPU, 2 cores", commit="abcdef0", command="climlab-dl bench", threads=1, load=0.0,
            versions={"python": "3", "torch": "2"}, measurements=cases,
        )  # fmt: skip

    def measured(case: str, cpu: float) -> Measurement:
        return Measurement(case=case, samples=1, wall=cpu, cpu=cpu, notes={"input": [1, 2]})

    old = record("2026-01-01T0000", measured("simulate", 1.0), measured("step tiramisu", 2.0))
    rows = tables.rows([record("2026-02-01T0000", measured("step tiramisu", 1.5)), old])
    assert [(row[0], row[2]) for row in rows] == [("step tiramisu", "1500"), ("simulate", "1000")]
    page = tables.filled(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n", tables.table([old]))
    assert page.startswith(f"before\n{tables.BEGIN}\n\na CPU, 2 cores; 1 thread; torch 2, Python 3.\n\n| case |")
    assert page.endswith(f"|\n\n{tables.END}\nafter\n")


def test_profiles_are_drawn(benchmark, tmp_path):
    _, said = benchmark("profiles", "--case", "simulate", "--size", "toy", "--out", tmp_path)
    assert (tmp_path / "simulate.png").exists()
    assert "aten::" in said


@pytest.mark.slow
def test_universes_are_timed(benchmark):
    _, said = benchmark("simulate", CASES=("tour",))
    assert "GFLOP/s" in said
