"""Every verb has an example in its help, and the examples run."""

import inspect
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from climlab_dl import archive, synthetic
from climlab_dl.cli.batch import add_training
from climlab_dl.cli.program import app

PROGRAM = Path(sys.executable).with_name("climlab-dl")
# What makes an example short; of options that are given twice the last one counts.
SHORT = {
    "infer": ("-n", "500"),
    "report": ("--snapshots", "1"),
    "simulate": ("-n", "1", "--preset", "tour"),
    "train": ("--steps", "1", "--batch-size", "1"),
}
# These have tests of their own.
ELSEWHERE = {"bench", "lab", "scaling", "tour"}


def examples(verb: str) -> list[list[str]]:
    """The command lines in the help of a verb, each split into words."""
    add_training()
    function = app._subcommands[verb].target
    _, _, after = (inspect.getdoc(function) or "").partition("Example: ")
    return [shlex.split(line) for line in after.partition("\n\n")[0].splitlines()]


@pytest.fixture(scope="module")
def desk(tour, tmp_path_factory):
    """A folder with all that the examples name: climate files, labelled ones, universes and runs."""
    folder = tmp_path_factory.mktemp("desk")
    atmosphere = synthetic.atmosphere(times=4, seed=1)
    for name in ("cam5/a.nc", "era5/a.nc"):
        archive.save(atmosphere.drop_vars("mask"), folder / name)
    archive.save(atmosphere, folder / "labelled.nc")
    for name in ("universes", "runs"):
        shutil.copytree(tour / name, folder / name)
    shutil.copy(folder / "universes/universe_00000.h5", folder / "observed.h5")
    return folder


def test_every_verb_has_an_example_that_calls_it():
    add_training()
    for verb in app.verbs:
        assert examples(verb), verb
        for words in examples(verb):
            assert words[words.index("climlab-dl") + 1] == verb


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.parametrize("verb", sorted({*app.verbs} - ELSEWHERE))
def test_the_example_runs(run, desk, monkeypatch, verb):
    monkeypatch.chdir(desk)
    for words in examples(verb):
        assert run(*words[words.index("climlab-dl") + 1 :], *SHORT.get(verb, ())).stdout
        if "--out" in words:
            assert Path(words[words.index("--out") + 1]).exists()


@pytest.mark.mpi
@pytest.mark.slow
def test_the_tours_example_is_what_the_other_tests_look_at(tour):
    assert examples("tour") == [["climlab-dl", "tour", "--out", "out"]]
    assert (tour / "tour.html").exists()


@pytest.mark.slow
def test_the_laboratory_opens_with_the_notebooks_in_a_folder_of_ones_own(tmp_path):
    runtime = tmp_path / "runtime"
    environment = os.environ | {"JUPYTER_RUNTIME_DIR": str(runtime), "BROWSER": "true", "HOME": str(tmp_path)}
    (words,) = examples("lab")
    with (
        (tmp_path / "said").open("w") as said,
        subprocess.Popen([PROGRAM, *words[1:]], cwd=tmp_path, env=environment, stdout=said, stderr=said) as server,
    ):
        try:
            while not (found := list(runtime.glob("jpserver-*.json"))):
                assert server.poll() is None, (tmp_path / "said").read_text()
                time.sleep(0.1)
            facts = json.loads(found[0].read_text())
            assert facts["hostname"] == "127.0.0.1"
            address, names = f"{facts['url']}api/contents/notebooks?token={facts['token']}", set()
            while not names:
                assert server.poll() is None, (tmp_path / "said").read_text()
                # Its file is there a moment before it answers.
                with suppress(urllib.error.URLError), urllib.request.urlopen(address) as answer:
                    names = {entry["name"] for entry in json.load(answer)["content"]}
            assert "00_tour.ipynb" in names
        finally:
            server.terminate()
            server.wait(30)
