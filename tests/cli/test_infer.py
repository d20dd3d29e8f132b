"""One posterior of volumes that share their parameters, or one of each."""

import json

import pandas as pd
import pytest

from climlab_dl.cosmology import volumes


@pytest.fixture
def trained(run, tmp_path, monkeypatch):
    """Folder of a network that has learnt nothing in its one step, and files of two universes."""
    monkeypatch.setattr("climlab_dl.parallel.memory.keep_freed", lambda: True)
    run("simulate", "--out", tmp_path / "universes", "-n", 13, "--preset", "tour")
    verb = ("train", tmp_path / "universes", "--folder", tmp_path / "run", "small-cosmoflow", "--steps", 1)
    run(*verb, "--batch-size", 1, "--data.calibration", "0.7", "--data.held-out", "0.1")
    return tmp_path / "run", sorted((tmp_path / "universes").glob("*.h5"))[-2:]


@pytest.mark.slow
def test_several_volumes_have_one_posterior_or_one_each(run, trained, tmp_path):
    folder, files = trained
    options = ("--network", folder, "-n", 300)
    said = run("infer", *files, *options).stdout
    assert said.startswith("2 volumes, taken to share their parameters; ")
    together = json.loads(run("infer", *files, *options, "--json").stdout)
    assert {row["volume"] for row in together} == {"2 volumes, taken to share their parameters"}
    alone = [row for file in files for row in json.loads(run("infer", file, *options, "--json").stdout)]
    assert [row["volume"] for row in alone] == [str(file) for file in files for _ in range(3)]
    assert run("infer", files[0], *options).stdout.startswith("1 volume; ")
    out = tmp_path / "draws.csv"
    assert json.loads(run("infer", *files, *options, "--apart", "--json", "--out", out).stdout) == alone
    drawn = pd.read_csv(out)
    names = next(volumes.read(files[0])).names
    assert list(drawn) == ["volume", *names]
    assert dict(drawn["volume"].value_counts()) == {str(file): 300 for file in files}
    said = run("infer", *files, *options, "--apart").stdout
    assert said.startswith("2 volumes, each of a universe of its own; ")
    assert all(str(file) in said for file in files)
