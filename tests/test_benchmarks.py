"""Benchmarks still run, at the size of a toy: what they measure is recorded beside them, not asserted here.

Of the faults one is tried, the others in tests/parallel; of the maps the static ones, the explorer in tests/browser.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import h5py
import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

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
def test_steps_of_a_network_are_measured_beside_a_plain_one_and_counted_as_torch_counts_them(benchmark):
    steps, said = benchmark("steps", "--case", "tiramisu", "--rows", 96, "--rounds", 1)
    row = [cell.split()[0] for cell in said.splitlines()[-1].strip("| ").split("|")]
    reference, ours, ratio, rate = map(float, row[1:5])
    assert ratio == pytest.approx(ours / reference, abs=0.05)
    network = steps.CASES["tiramisu"][0]()
    with FlopCounterMode(display=False) as counter:
        network(torch.zeros(steps.shape("tiramisu", 96))).sum().backward()
    # torch leaves out the gradient of the input, for which nobody asked; seconds are printed to 0.01.
    assert rate * ours == pytest.approx(counter.get_total_flops() / 1e9, rel=0.01 / ours + 0.05)
    _, said = benchmark("steps", "--case", "tiramisu", "--rows", 96, "--rounds", 1, "--infer")
    seconds, rate, products, share = map(float, said.splitlines()[-1].strip("| ").split("|")[1:5])
    assert share == pytest.approx(rate / products, abs=0.02)
    assert seconds > 0


@pytest.mark.slow
@pytest.mark.mpi
def test_detection_is_measured_killed_and_repeated(benchmark, tmp_path):
    _, said = benchmark("detect", "--snapshots", 40, "--rows", 48, "--folder", tmp_path, PIECE=4)
    assert "40 snapshots" in said
    assert "10 files" in said
    assert "all 10 are byte-equal" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.mpi
def test_killed_ranks_cost_the_steps_since_the_checkpoint_and_nothing_else(benchmark):
    _, said = benchmark("killed", "--kills", 2, "--seed", 8)  # rank 0 after step 2, then rank 1
    assert "2 kills in" in said
    assert "last runs ended with 0 and 0" in said
    assert "tensors after 8 steps, of which 0 differ []" in said
    assert "8 steps reported, with losses as without kills" in said


@pytest.mark.slow
@pytest.mark.mpi
def test_a_fault_is_noticed_and_leaves_no_process(benchmark, tmp_path):
    _, said = benchmark("faults", "--fault", "exception", "--out", tmp_path / "faults.md")
    [row] = [line for line in (tmp_path / "faults.md").read_text().splitlines() if "exception on one rank" in line]
    assert "“the loss of rank 1 stumbled”, with the note “Raised on rank 1”; ranks usable afterwards" in row
    assert row.endswith("| 0 |")
    # The loss fails at its twelfth use; a checkpoint is left every fifth step.
    assert "2 steps since checkpoint 10" in said


@pytest.mark.slow
@pytest.mark.mpi
def test_engines_and_mpiexec_are_compared_in_turn(benchmark, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(BENCHMARKS)
    size = importlib.import_module("overhead").Size(shape=(16, 32), first=2, last=6)
    benchmark("overhead", "--pairs", 1, "--out", tmp_path / "overhead.md", SIZES=(size,))
    rows = (tmp_path / "overhead.md").read_text().splitlines()[-3:]
    assert [row.split(" | ")[1] for row in rows] == [
        "processor of rank 0",
        "clock",
        "processor of the watching process",
    ]
    # Of one pair the ratio is that of the two numbers beside it, which are rounded to a tenth of a millisecond.
    ours, plain, ratio = (float(cell.split()[0]) for cell in rows[0].split(" | ")[2:5])
    assert ratio == pytest.approx(ours / plain, rel=0.1 / ours + 0.1 / plain + 1e-3)


@pytest.mark.slow
def test_a_study_of_universes_is_simulated_trained_and_told(benchmark, tmp_path):
    benchmark("universes", "simulate", tmp_path, "--universes", 64, PRESET="tour")
    assert len(list((tmp_path / "universes").glob("universe*.h5"))) == 64
    _, trained = benchmark("universes", "train", tmp_path, "--epochs", 1)
    with pytest.warns(UserWarning, match="can hardly tell whether posteriors are calibrated"):
        _, said = benchmark("universes", "report", tmp_path, "--symmetries", 1)
    # 15% to calibrate with, 15% held out: 44 to train on, or one or two more; 8 a step.
    universes = int(said.split(" universes trained on")[0])
    assert 44 <= universes <= 46
    assert int(trained.splitlines()[-1].split()[0]) == universes // 8
    assert "posterior mean, all held out" in said


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
    assert (tmp_path / "out" / "small_deeplab.png").stat().st_size > 10_000


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


def test_a_gpu_trains_every_network_in_every_way_and_what_matters_most_first(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    gpu = importlib.import_module("gpu")
    networks = list(gpu.PUBLISHED)
    ways = list(gpu.variants(networks, list(gpu.EXECUTIONS)))
    # Four precisions, channels apart and together, four executions.
    assert len({str(way) for way in ways}) == len(ways) == len(networks) * 4 * 2 * 4
    assert {(way.precision, way.together) for way in ways[: len(networks) * 4]} == {("bf16", True)}


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
def test_static_maps_are_timed(benchmark, tmp_path):
    made = tmp_path / "coarse.nc"
    _, said = benchmark("maps", "--archive", made, "--snapshots", 12, "--rows", 48, "--case", "static")
    assert dict(archive.open(made).sizes) == {"time": 12, "lat": 48, "lon": 72}
    assert [row.split(" | ")[0] for row in said.splitlines()[-2:]] == [
        "| static Robinson, first", "| static Robinson, second to sixth"
    ]  # fmt: skip


@pytest.mark.slow
def test_universes_are_timed(benchmark):
    _, said = benchmark("simulate", CASES=("tour",))
    assert "GFLOP/s" in said
