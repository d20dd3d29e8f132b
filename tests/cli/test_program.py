"""The program as a whole: its help, its words and numbers, its completion, and how it ends."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from climlab_dl import archive, synthetic
from climlab_dl.cli.app import app
from climlab_dl.cli.shell import in_shell

PROGRAM = Path(sys.executable).with_name("climlab-dl")


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_the_help_of_the_program_has_every_verb_on_one_line_of_a_terminal(run, words):
    lines = run(*words).stdout.splitlines()
    described = {match[1]: match[2] for line in lines if (match := re.fullmatch(r"  ([a-z]+) +(.+\.)", line))}
    assert described == app.verbs
    assert "train" in described
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("Exit codes: 0 done, 1 ") for line in lines)


def test_help_is_broken_where_the_terminal_ends(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    lines = run("events", "--help").stdout.splitlines()
    assert any(
        "IVT, precipitation and scales are taken; by default what FILES hold besides the mask" in line for line in lines
    )
    assert any("FILES " in line and "Files with a ``mask``" in line for line in lines)


@pytest.mark.parametrize("words", [("check",), ("check", "--json")], ids=" ".join)
def test_who_has_read_enough_is_told_nothing(sample, words):
    verb = [PROGRAM, *words, sample / "gcm_t63_2001-08-14T06.nc"]
    with subprocess.Popen(verb, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        program.stdout.close()
        _, told = program.communicate(timeout=120)
    assert program.returncode == 128 + signal.SIGPIPE
    assert "roken" not in told


@pytest.mark.parametrize(
    "words",
    [("label", "x.nc", "--out", "y.nc", "--river-threshold", "nan"), ("events", "x.nc", "--min-area-km2", "NaN"),
     ("map", "x.nc", "--out", "y.png", "--central-longitude", "nan"),
     ("train", "x.nc", "--folder", "f", "small-deeplab", "--optimizer.learning-rate", "nan")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_nan_is_no_number_to_give(run, words):
    # Neither below nor above any bound, it passed all that is asked of a number.
    assert "is not a number" in run(*words, code=2).stderr


@pytest.mark.parametrize(
    ("option", "wanted"),
    [("--steps", "a whole number or None"), ("--batch-size", "a whole number"), ("--clip-norm", "a number or None")],
)
def test_what_is_no_number_is_said_in_plain_words(run, option, wanted):
    # And not that "no type matching {None}|INT could be instantiated from ['ten']".
    said = run("train", "x.nc", "--folder", "f", "small-deeplab", option, "ten", code=2).stderr
    assert f"Error parsing {option}: ten is not {wanted} " in said
    assert "type" not in said.split("\n")[1]


@pytest.mark.parametrize(
    "words",
    [("infer", "x.h5", "--network", "n", "-n", "0"), ("simulate", "--out", "u", "--universes", "-3"),
     ("report", "r", "--snapshots", "0"), ("map", "x.nc", "--out", "y.png", "--dpi", "0.5")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_how_many_is_a_whole_number_above_0(run, words):
    assert "is not a whole number above 0" in run(*words, code=2).stderr


def test_an_interruption_that_does_not_say_where_it_came_from_is_called_one(run, monkeypatch):
    # Where a library notes Ctrl-C, its exception holds no text, and is true all the same.
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("climlab_dl.performance.published.table", interrupted)
    assert run("flops", code=130).stderr == "climlab-dl: interrupted\n"


@pytest.mark.parametrize("imported", ["tyro", "torch"])
def test_ctrl_c_while_the_program_is_still_importing_ends_it_in_one_line(tmp_path, imported):
    # What is first imported by the program, and by the verb that lists the runs: there it comes when it is imported.
    (tmp_path / f"{imported}.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    verb = [PROGRAM, "train", "x.nc", "--folder", tmp_path / "run", "small-deeplab"]
    done = subprocess.run(verb, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "climlab-dl: interrupted\n")


def test_an_archive_is_named_once(run):
    # The run's own option would have been listened to as little as it was refused.
    words = ("train", "x.nc", "--folder", "f", "small-deeplab", "--data.source", "y.nc")
    assert "not with --data.source y.nc" in run(*words, code=2).stderr


@pytest.mark.parametrize("wrong", ["Omega_m", "Omega_m=0.1", "Omega_m=0.1:x", "Omega_m=1:2:3"])
def test_a_prior_has_two_ends(run, wrong):
    said = run("infer", "x.h5", "--network", "n", "--prior", "sigma_8=0.5:1.1", wrong, code=2).stderr
    assert said == f"climlab-dl: --prior {wrong}: expected NAME=LOW:HIGH, e.g. Omega_m=0.1:0.5\n"


@pytest.mark.parametrize("wrong", ["Omega_m=0.5:0.1", "Omega_m=0.1:0.1", "Omega_m=0.1:inf", "Omega_m=nan:0.5"])
def test_the_low_end_of_a_prior_comes_first(run, wrong):
    said = run("infer", "x.h5", "--network", "n", "--prior", wrong, code=2).stderr
    assert said == f"climlab-dl: --prior {wrong}: the ends are two numbers, of which the low one comes first\n"


@pytest.mark.parametrize(
    ("python", "verb", "shell"),
    [
        ("pass names={'tcw': 'TMQ'} to archive.open.", "label", "pass --names tcw=TMQ."),
        ("pass names={'tcw': 'TMQ'} to archive.open.", "tour", "pass --names tcw=TMQ to climlab-dl convert."),
        ("leave it out with names={'their name': None}.", "check", "leave it out with --names 'their name='."),
        ("with Universes(redshifts=(0.0,))", "infer", "with --data.redshifts 0.0"),
        ("with Universes(redshifts=(0, 1.5))", "infer", "with --data.redshifts 0 1.5"),
        ("lie in a file: redshifts=(0.0, 1.5)", "train", "lie in a file: --data.redshifts 0.0 1.5"),
        ("lie in a file: parameters=('sigma_8',)", "train", "lie in a file: --data.parameters sigma_8"),
        ("it has: parameters=('n_s', 'sigma_8')", "train", "it has: --data.parameters n_s sigma_8"),
        ("on; choose batch_size=3 or less", "train", "on; choose --batch-size 3 or less"),
        (
            "without it: ClimateArchive(channels=('TMQ', 'U850')).",
            "train",
            "without it: --data.channels TMQ U850.",
        ),
        ("without it: ClimateArchive(channels=('TMQ',)).", "train", "without it: --data.channels TMQ."),
        ("take preset=simulate.tour(); or choose", "simulate", "take --preset tour; or choose"),
        ("missing='mean' would take", "detect", "--missing mean would take"),
        (
            "no unitPar; learn from it with targets='unit'",
            "train",
            "no unitPar; learn from it with --data.targets unit",
        ),
        (
            'give posterior.fit the ends, as prior={"Omega_m": (0.1, 0.5), ...}, or write',
            "infer",
            "give the ends, as --prior Omega_m=0.1:0.5 ..., or write",
        ),
        (
            "train with Universes(calibration=0.2), or pass calibration= universes that it has not seen (else sure)",
            "infer",
            "train with --data.calibration 0.2 (else sure)",
        ),
        (
            "save it with them: archive.save(fields.assign(mask=heuristics.label(fields)), folder)",
            "train",
            "save it with them: climlab-dl label SOURCE --out labelled.nc",
        ),
        (
            "has no run.json: engines.train(run, folder) makes one",
            "report",
            "has no run.json: climlab-dl train SOURCE --folder FOLDER RUN makes one",
        ),
    ],
)
def test_advice_is_given_in_the_words_of_the_shell(python, verb, shell):
    assert in_shell(python, verb) == shell


def test_a_map_of_another_size_is_cropped_by_the_line_that_the_failure_tells(run, tmp_path):
    # 27 rows: the small DeepLab halves the map down to a multiple of 8.
    archive.save(synthetic.atmosphere(times=3, shape=(27, 48), seed=1)[["TMQ", "mask"]], tmp_path / "odd.nc")
    words = ("small-deeplab", "--steps", 1, "--batch-size", 1, "--data.channels", "TMQ")
    said = run("train", tmp_path / "odd.nc", "--folder", tmp_path / "run", *words, code=1).stderr
    line = re.search("python (-c .*), or pad", said)
    assert line is not None
    command = shlex.split(line[1].replace("FILES", str(tmp_path / "odd.nc")))
    subprocess.run([sys.executable, *command], cwd=tmp_path, check=True)
    assert archive.open(tmp_path / "crop.nc").sizes["lat"] == 24
    run("train", tmp_path / "crop.nc", "--folder", tmp_path / "other", *words)


def test_a_unit_that_is_not_so_is_corrected_by_the_line_that_the_failure_tells(run, tmp_path):
    fields = synthetic.atmosphere(times=3, shape=(24, 48), seed=1)[["PSL"]]
    fields["PSL"] = fields.PSL / 100
    fields.to_netcdf(tmp_path / "theirs.nc")
    for said in (
        run("label", tmp_path / "theirs.nc", "--out", tmp_path / "marked.nc", code=1).stderr,
        run("check", tmp_path / "theirs.nc", code=1).stdout,
    ):
        line = re.search(r'python (-c ".*?"); for a fill value', said)
        assert line is not None, said
        words = line[1].replace("FILE", "theirs.nc").replace("NAME", "PSL")
        subprocess.run([sys.executable, *shlex.split(words)], cwd=tmp_path, check=True)
        np.testing.assert_allclose(archive.open(tmp_path / "mended.nc").PSL, 100 * fields.PSL, rtol=1e-6)
        assert "with --names NAME=." in said


def test_the_address_that_the_lab_prints_leads_to_the_tour(tmp_path):
    # No browser is started, and nothing of the user's own Jupyter is read or written.
    homes = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    lab = [str(PROGRAM), "lab", "--folder", str(tmp_path / "mine")]
    process = subprocess.Popen(
        lab, env=os.environ | homes | {"BROWSER": "true"}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stderr is not None
        address = next((line for line in process.stderr if "http://127.0.0.1" in line), "")
    finally:
        # JupyterLab loses a signal that comes in the midst of a line that it writes.
        while process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=10)
    assert "/lab/tree/notebooks/00_tour.ipynb?token=" in address
    assert (tmp_path / "mine" / "notebooks" / "00_tour.ipynb").is_file()


def test_a_failure_tells_what_to_type(run, tmp_path):
    fields = synthetic.atmosphere(times=3, shape=(24, 48), seed=1)[["TMQ", "PSL"]]
    archive.save(fields, tmp_path / "unlabelled.nc")
    verb = ("train", tmp_path / "unlabelled.nc", "--folder", tmp_path / "run", "small-deeplab")
    said = run(*verb, code=1).stderr
    assert "climlab-dl label SOURCE --out labelled.nc" in said
    assert "archive." not in said
    # What could not begin leaves no run behind, which later would be listed as failed.
    assert not (tmp_path / "run").exists()


def test_a_shell_completes_verbs_and_options(run, tmp_path):
    script = tmp_path / "completion.bash"
    script.write_text(run("--tyro-print-completion", "bash").stdout)
    ask = (
        f"source {script}; "
        'ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); '
        '$(complete -p climlab-dl | sed "s/.*-F \\([^ ]*\\).*/\\1/"); echo "${COMPREPLY[@]}"; }; '
        "ask climlab-dl ev; ask climlab-dl label --river-th; ask climlab-dl label --cyclones te"
    )
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=60, check=False)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["events"],
        ["--river-threshold"],
        ["teca", "tempest"],
    ]


@pytest.mark.parametrize("layout", ["cf", "deepcam"])
def test_sigterm_leaves_nothing_half_written(tmp_path, layout):
    fields = synthetic.atmosphere(times=4, shape=(96, 192), seed=0).drop_vars("mask")
    archive.save(fields, tmp_path / "in" / "fields.nc")
    out = tmp_path / "out" / ("out.nc" if layout == "cf" else "folder")
    command = [PROGRAM, "convert", tmp_path / "in", "--out", out, "--layout", layout]
    with subprocess.Popen([*map(str, command)], stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not list(tmp_path.glob("out/**/.*")):
            time.sleep(0.001)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (130, "climlab-dl: stopped by SIGTERM\n")
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
