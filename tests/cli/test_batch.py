"""Detection from the shell: of files together or one by one, on ranks, to the end whatever one file holds."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from climlab_dl import archive, synthetic
from climlab_dl.cli import batch
from climlab_dl.climate.fields import CLASSES
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.training import checkpoint
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.run import Run

PROGRAM = Path(sys.executable).with_name("climlab-dl")


def detect(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, "detect", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Two checkpoints of a network with dropout."""
    folder, paths = tmp_path_factory.mktemp("weights"), []
    model = Tiramisu(blocks=(1, 1), growth=4, kernel=3, stem=4, dropout=0.5, norm="batch")
    for seed in (1, 2):
        torch.manual_seed(seed)
        data = ClimateArchive(source="sample", channels=("TMQ", "PSL"))
        run = Run(data=data, model=model, loss=WeightedCrossEntropy(), steps=1)
        facts = {"channels": ["TMQ", "PSL"], "classes": list(CLASSES)}
        facts |= {"mean": torch.tensor([20.0, 101000.0]), "std": torch.tensor([10.0, 1000.0])}
        state = {"run": run.to_json(), "model": model.build(2, 3).state_dict(), "statistics": facts, "step": seed}
        paths.append(folder / f"{seed}.pt")
        checkpoint.save(paths[-1], state)
    return paths


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    fields = synthetic.atmosphere(times=4, shape=(24, 48), seed=0)[["TMQ", "PSL"]]
    return [archive.save(fields.isel(time=slice(k, k + 2)), folder / f"day{k}.nc") for k in (0, 2)]


@pytest.mark.slow
@pytest.mark.mpi
def test_two_ranks_finish_the_good_files_and_exit_with_the_bad_ones(mpiexec, weights, files, tmp_path):
    bad = tmp_path / "bad.nc"
    bad.write_bytes(files[0].read_bytes()[:1000])
    beside = Path(sys.executable).parent / "mpiexec"
    program = str(beside) if beside.exists() else "mpiexec"
    verb = [PROGRAM, "detect", files[0], bad, files[1], "--detector", weights[0], "--out", tmp_path / "masks"]
    command = [program, "-n", "2", sys.executable, *map(str, verb)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1, done.stderr
    assert "1 of 3 files failed" in done.stderr
    assert "bad.nc" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in (tmp_path / "masks").iterdir()) == ["day0.nc", "day2.nc"]
    assert "2 files in" in mpiexec(2, *verb[:1], *map(str, ["detect", *files, *verb[5:]]))


@pytest.mark.slow
def test_an_ensemble_passes_with_dropout_into_one_file_with_its_uncertainty(weights, files, tmp_path):
    out = tmp_path / "all.nc"
    options = ("--probabilities", "packed", "--uncertainty", "--dropout-passes", "2", "--seed", "3")
    done = detect(*files, "--detector", *weights, "--out", out, *options)
    assert "all.nc" in done.stdout
    assert "1.0/1" in done.stderr
    with xr.open_dataset(out) as found:
        assert found.sizes["time"] == 4
        assert found.probabilities.encoding["dtype"] == np.int8
        assert float(found.mutual_information.max()) > 0
        assert "2 passes with dropout from seed 3" in found.attrs["history"]


def test_shares_that_round_up_do_not_push_the_bar_beyond_its_end():
    # Six sixths are less than one as computers add, and 49 forty-ninths are more: tqdm would warn of the latter.
    most = 0.0
    for count in range(2, 60):
        with batch._files_bar(1, 0) as bar:
            advance = batch._part_of(bar)
            for _ in range(count):
                advance(1 / count)
            most = max(most, bar.n)
    assert most == 1


def test_one_file_is_not_called_files(files, weights, tmp_path, run, monkeypatch):
    # What a job's process keeps to its end would be kept by that of the tests.
    monkeypatch.setattr("climlab_dl.parallel.memory.keep_freed", lambda: True)
    assert run("detect", files[0], "--detector", weights[0], "--out", tmp_path / "masks").stdout.startswith("1 file in")


def test_a_channel_under_a_name_that_is_not_known_is_asked_for_and_named(files, weights, tmp_path, run, monkeypatch):
    monkeypatch.setattr("climlab_dl.parallel.memory.keep_freed", lambda: True)
    with xr.open_dataset(files[0]) as fields:
        theirs = fields.load().rename(TMQ="precipitable_water")
    theirs["precipitable_water"].attrs = {"units": "kg m-2"}  # a standard name would say what it is
    theirs.to_netcdf(tmp_path / "theirs.nc")
    verb = ("detect", tmp_path / "theirs.nc", "--detector", weights[0], "--out")
    for missing in ("refuse", "mean"):
        said = run(*verb, tmp_path / "none", "--missing", missing, code=1).stderr
        assert "pass --names precipitable_water=TMQ" in said.replace("Pass", "pass")
    with_names, ours = tmp_path / "names" / "theirs.nc", tmp_path / "ours" / "day0.nc"
    run(*verb, with_names.parent, "--names", "precipitable_water=TMQ")
    run("detect", files[0], "--detector", weights[0], "--out", ours.parent)
    with xr.open_dataset(with_names) as found, xr.open_dataset(ours) as expected:
        np.testing.assert_array_equal(found.mask, expected.mask)
    before = with_names.stat().st_mtime_ns
    run(*verb, with_names.parent, "--names", "precipitable_water=TMQ")
    assert with_names.stat().st_mtime_ns == before
    run(*verb, with_names.parent, "--names", "precipitable_water=", "--missing", "mean")  # other names, made anew
    assert with_names.stat().st_mtime_ns > before
    assert "expected THEIRS=OURS" in run(*verb, tmp_path / "none", "--names", "TMQ", code=2).stderr


def test_what_cannot_be_is_one_kind_line(files, tmp_path):
    said = detect(*files, "--detector", tmp_path / "runs" / "none", "--out", tmp_path / "masks", code=1).stderr
    assert said.count("\n") == 1
    assert "does not exist" in said
    assert "give a run's folder" in said
    assert not (tmp_path / "masks").exists()
