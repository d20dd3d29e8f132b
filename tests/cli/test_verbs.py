"""The verbs from the shell."""

import json
import re
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl import archive, synthetic, volumes
from climlab_dl.training.folder import RunFolder

PROGRAM = Path(sys.executable).with_name("climlab-dl")


@pytest.fixture(scope="module")
def fields_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    atmosphere = synthetic.atmosphere(times=3, seed=1).drop_vars("mask")
    return archive.save(atmosphere, tmp_path_factory.mktemp("cli") / "fields.nc")


def test_check_reports_and_accepts_what_is_right(run, fields_file):
    report = run("check", fields_file).stdout
    assert "TMQ" in report
    assert "48 x 96" in report


def test_check_exits_with_1_where_pressure_is_in_the_wrong_unit(run, fields_file, tmp_path):
    with xr.open_dataset(fields_file) as good:
        wrong = good.load()
    wrong["PSL"] = (wrong["PSL"] / 100).assign_attrs(wrong["PSL"].attrs)  # hPa, while the unit says Pa
    wrong.to_netcdf(tmp_path / "wrong.nc")
    assert "PSL" in run("check", tmp_path / "wrong.nc", code=1).stdout


def test_a_missing_file_is_one_line_and_exit_code_1():
    # In a process of its own, which shows that no traceback follows.
    command = [PROGRAM, "convert", "nowhere.nc", "--out", "x.nc"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "nowhere.nc" in done.stderr


def test_no_files_is_wrong_use(run):
    assert "FILES" in run("check", code=2).stderr


def test_a_wrong_verb_is_answered_with_the_right_ones(run):
    assert "events" in run("evens", code=2).stderr


def test_the_tour_says_what_is_wrong_with_data_before_it_starts(run, tmp_path):
    done = run("tour", "--data", tmp_path / "nothere.nc", "--out", tmp_path / "out", code=1)
    assert done.stderr.count("\n") == 1
    assert "nothere.nc" in done.stderr
    assert not (tmp_path / "out").exists()


def test_labels_become_a_row_and_a_shape_for_each_storm(run, fields_file, tmp_path):
    labelled = tmp_path / "labelled.nc"
    run("label", fields_file, "--out", labelled)
    run("events", labelled, "--csv", tmp_path / "storms.csv", "--geojson", tmp_path / "storms.geojson")
    storms = pd.read_csv(tmp_path / "storms.csv")
    features = json.loads((tmp_path / "storms.geojson").read_text())["features"]
    assert {"cyclone", "river"} == set(storms["class"])
    assert len(features) == len(storms)


def test_convert_keeps_the_fields(run, fields_file, tmp_path):
    run("convert", fields_file, "--out", tmp_path / "fields.zarr")
    xr.testing.assert_allclose(archive.open(tmp_path / "fields.zarr").load(), archive.open(fields_file).load())


@pytest.mark.mpi
@pytest.mark.slow
def test_universes_do_not_depend_on_the_number_of_ranks(run, mpiexec, tmp_path):
    # The program is a Python script, so mpiexec starts it as it would start any.
    mpiexec(2, PROGRAM, "simulate", "--out", str(tmp_path / "two"), "--universes", "3", "--preset", "tour")
    run("simulate", "--out", tmp_path / "one", "--universes", "3", "--preset", "tour")
    for path in sorted((tmp_path / "one").glob("*.h5")):
        ours, theirs = next(volumes.read(path)), next(volumes.read(tmp_path / "two" / path.name))
        np.testing.assert_array_equal(ours.counts, theirs.counts)
        assert ours.parameters == theirs.parameters


def test_a_training_ends_with_where_it_lies_and_what_is_next(run, fields_file, tmp_path, monkeypatch):
    monkeypatch.setattr("climlab_dl.parallel.memory.keep_freed", lambda: True)
    run("label", fields_file, "--out", tmp_path / "labelled.nc")
    folder = tmp_path / "my run"
    verb = ("train", tmp_path / "labelled.nc", "--folder", folder, "small-deeplab", "--steps", 1, "--batch-size", 1)
    *_, last = run(*verb).stdout.splitlines()
    assert last.startswith("finished · step 1 of 1 · loss ")
    assert "· IoU (mean of classes) 0." in last
    assert last.endswith(f" · {folder}; next: climlab-dl detect YOUR_FIELDS --detector '{folder}' --out masks")
    assert run(*verb).stdout.splitlines() == [last]  # once more, which has nothing to do


def test_a_training_that_is_stopped_does_not_pass_for_done(run, fields_file, tmp_path, monkeypatch):
    # `train ... && detect ...` went on with a network that had learnt by half.
    monkeypatch.setattr("climlab_dl.parallel.memory.keep_freed", lambda: True)
    run("label", fields_file, "--out", tmp_path / "labelled.nc")
    folder = RunFolder(tmp_path / "run")

    def stop() -> None:
        while not (folder.path / "progress.jsonl").exists():
            time.sleep(0.05)
        folder.request_stop()

    threading.Thread(target=stop, daemon=True).start()
    verb = ("train", tmp_path / "labelled.nc", "--folder", folder.path, "small-deeplab", "--batch-size", 1)
    *before, last = run(*verb, "--steps", 5000, "--report-every", 1, code=130).stdout.splitlines()
    assert last.startswith("stopped: stopped on request after step ")
    assert before
    assert not [line for line in before if "stopped" in line]
    later = ("--steps", folder.status()["step"] + 2, "--report-every", 1)
    assert [line.split(" after ")[0] for line in run(*verb, *later).stdout.splitlines()] == [
        "running: resumed", "running: resumed", "finished: resumed",
    ]  # fmt: skip
    assert "next:" not in last


def test_universes_are_next_inferred_from(run, tmp_path, monkeypatch):
    monkeypatch.setattr("climlab_dl.parallel.memory.keep_freed", lambda: True)
    run("simulate", "--out", tmp_path / "universes", "-n", 13, "--preset", "tour")
    for share, there in (("0.1", 1), ("0.7", 9)):
        folder = tmp_path / share
        verb = ("train", tmp_path / "universes", "--folder", folder, "small-cosmoflow", "--steps", 1, "--batch-size", 1)
        *_, last = run(*verb, "--data.calibration", share, "--data.held-out", "0.1").stdout.splitlines()
        assert last.startswith("finished · step 1 of 1 · ")
        look = f"climlab-dl infer YOUR_VOLUMES --network {folder}"
        if there < 9:
            look = (
                "train on more universes or with a larger --data.calibration; a posterior of 3 parameters needs 9 "
                f"universes kept for calibration, here are {there}"
            )
        assert last.endswith(f"; next: {look}")


@pytest.mark.mpi
@pytest.mark.slow
def test_a_run_trains_under_mpiexec_and_resumes(run, mpiexec, fields_file, tmp_path):
    run("label", fields_file, "--out", tmp_path / "labelled.nc")
    verb = (
        "train",
        str(tmp_path / "labelled.nc"),
        "--folder",
        str(tmp_path / "run"),
        "small-deeplab",
        "--batch-size",
        "1",
    )
    first = mpiexec(2, PROGRAM, *verb, "--batch-size", "1", "--steps", "2", "--report-every", "1")
    assert "step 2 of 2" in first
    again = mpiexec(2, PROGRAM, *verb, "--batch-size", "1", "--steps", "3", "--report-every", "1")
    assert "step 3 of 3" in again
    assert "step 1 of 3" not in again


def test_rules_can_be_chosen(run, shared, tmp_path):
    # The forecast of 2011-10-11 has hurricanes Jova (17.5 N 255 E) and Irwin (17.5 N 242.5 E).
    forecast = shared / "climate" / "gfs_f072_valid_20111011T00_camnames.nc"
    rules = ("--cyclones", "teca", "--rivers", "none", "--mask-only")
    run("label", forecast, "--out", tmp_path / "mask.nc", *rules)
    mask = archive.open(tmp_path / "mask.nc").mask.isel(time=0)
    assert set(np.unique(mask)) == {0, 1}
    for lon in (255, 242.5):
        assert (mask.sel(lat=slice(12.5, 22.5), lon=slice(lon - 5, lon + 5)) == 1).any()


@pytest.mark.mpi
@pytest.mark.slow
def test_detection_makes_one_output_for_each_input_and_not_twice(run, mpiexec, tour, sample, tmp_path):
    files = [str(path) for path in sorted(sample.glob("*.nc"))[-2:]]
    verb = ("detect", *files, "--detector", str(tour / "runs" / "tiramisu"), "--out", str(tmp_path / "masks"))
    mpiexec(2, PROGRAM, *verb)
    made = sorted((tmp_path / "masks").glob("*.nc"))
    assert [path.name for path in made] == [Path(file).name for file in files]
    before = [path.stat().st_mtime_ns for path in made]
    run(*verb)
    assert [path.stat().st_mtime_ns for path in made] == before


@pytest.mark.mpi
def test_statistics_of_an_archive_are_those_of_numpy(mpiexec, fields_file, tmp_path):
    said = mpiexec(2, PROGRAM, "stats", str(fields_file), "--json", "--out", str(tmp_path / "stats.h5"))
    rows = {row["channel"]: row for row in json.loads(said)}
    with xr.open_dataset(fields_file) as fields, h5py.File(tmp_path / "stats.h5") as file:
        np.testing.assert_allclose(rows["PSL"]["mean"], fields.PSL.astype("f8").mean(), rtol=1e-6)
        np.testing.assert_allclose(rows["U850"]["std"], fields.U850.astype("f8").std(), rtol=1e-6)
        np.testing.assert_allclose(rows["TMQ"]["max"], fields.TMQ.max(), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(file["climate/mean"]), [row["mean"] for row in rows.values()], rtol=1e-6)


@pytest.mark.mpi
def test_doctor_prints_what_a_script_can_read(run, tmp_path):
    findings = json.loads(run("doctor", tmp_path, "--json").stdout)
    assert {"MPI", "torch", "coastlines"} <= {finding["name"] for finding in findings}


@pytest.mark.mpi
@pytest.mark.slow
def test_what_trainings_leave_is_compared_reported_and_inferred_from(run, tour, tmp_path, caplog, monkeypatch):
    rows = json.loads(run("runs", tour / "runs", "--json").stdout)
    assert {row["run"]: row["state"] for row in rows} == dict.fromkeys(("cosmoflow", "deeplab", "tiramisu"), "finished")
    # What differs between these three would make lines of 600 characters.
    said = run("runs", tour / "runs").stdout
    assert max(map(len, said.splitlines())) <= 100
    results, differences = said.split("\nwhere they differ\n")
    assert len(results.splitlines()) == 5  # two of heads, and a run a row
    assert "\noptimizer.learning_rate" in differences or "\nbatch_size" in differences
    assert "best_step" in run("runs", tour / "runs", "--sort", "beste", code=2).stderr
    page = tmp_path / "report.html"
    run("report", tour / "runs" / "deeplab", "--out", page, "--snapshots", 1)
    assert "<h2>Learning</h2>" in page.read_text()
    observed, draws = max((tour / "universes").glob("*.h5")), tmp_path / "draws.csv"
    verb = ("infer", observed, "--network", tour / "runs" / "cosmoflow", "--draws", 500, "--out", draws)
    intervals = {row["parameter"]: row for row in json.loads(run(*verb, "--json").stdout)}
    drawn = pd.read_csv(draws)
    assert len(drawn) == 500
    np.testing.assert_allclose(intervals["Omega_m"]["median"], drawn.Omega_m.median(), rtol=1e-4)
    assert not caplog.text
    # The prior of the universes gives the same draws, but for rounding; one that does not hold them is refused.
    ends = ("Omega_m=0.1:0.5", "sigma_8=0.6:1.0", "n_s=0.8:1.2")
    given = json.loads(run(*verb, "--json", "--prior", *ends).stdout)
    for row in given:
        assert row["median"] == pytest.approx(intervals[row["parameter"]]["median"], rel=1e-4)
    assert "outside the prior" in run(*verb, "--prior", "Omega_m=0.3:0.31", *ends[1:], code=1).stderr
    assert "prior has no n_s" in run(*verb, "--prior", *ends[:2], code=1).stderr
    # A file with too few redshifts is refused before the posterior is learnt.
    first = volumes.save(next(volumes.read(observed)).at([0.0]), tmp_path / "first.h5")
    with monkeypatch.context() as later:
        later.setattr("climlab_dl.inference.posterior.fit", None)
        said = run("infer", first, *verb[2:], code=1).stderr
    assert "first.h5 has 1 redshift (0), the network was trained on 2 (0, 1.5): give the counts at 1.5 as well" in said
    assert "--data.redshifts 0" in said
    # Networks that are averaged; here one with itself.
    ensemble = ("--network", tour / "runs" / "cosmoflow", tour / "runs" / "cosmoflow")
    said = run("infer", observed, observed.with_stem("universe_00001"), *ensemble, "-n", 500).stdout
    assert said.startswith("2 volumes, taken to share their parameters; ")
    assert "the files tell 2 sets of them" in caplog.text
    assert f"too sure of itself: {observed.with_stem('universe_00001')}; held out" in caplog.text


def test_the_fields_of_a_runs_parts_are_options(run, tmp_path):
    # The union of kinds of data once was a choice of its own, in the way of the fields of the one that a run has.
    verb = ("train", tmp_path / "nothing.h5", "--folder", tmp_path / "run", "small-cosmoflow", "--data.targets")
    assert "no volumes" in run(*verb, "unit", code=1).stderr
    assert "targets" in run(*verb, "other", code=2).stderr


def test_every_option_of_a_training_on_universes_is_explained(run):
    # Of "a, b" in a docstring the help would tell of neither.
    said = run("train", "universes", "--folder", "run", "small-cosmoflow", "--help").stdout
    text = "\n".join(line.strip("│| ") for line in said.splitlines())
    options = re.split(r"\n(?=--)", text)[1:]
    bare = [option.split()[0] for option in options if re.match(r".*\n\((default|fixed)", option)]
    assert len(options) > 30, text[:3000]
    assert bare == ["--schedule"]


def test_no_verb_puts_what_it_writes_in_the_place_of_an_input(run, fields_file, tmp_path):
    labelled, link = tmp_path / "labelled.nc", tmp_path / "link.nc"
    run("label", fields_file, "--out", labelled)
    link.symlink_to(labelled)
    before = labelled.read_bytes()
    for verb in (
        ("label", labelled, "--mask-only", "--out", labelled), ("convert", labelled, "--out", link),
        ("stats", labelled, "--out", link), ("events", labelled, "--csv", labelled),
        ("events", labelled, "--geojson", link),
    ):  # fmt: skip
        assert "one of the inputs" in run(*verb, code=2).stderr
    assert labelled.read_bytes() == before


def test_the_version_is_that_of_the_package(run):
    assert run("--version").stdout == f"climlab-dl {version('climlab-dl')}\n"


def test_a_folder_of_runs_has_no_report(run, tmp_path):
    assert "no run.json" in run("report", tmp_path, code=1).stderr
    assert list(tmp_path.iterdir()) == []
