"""A training whose words stand in another order ends with the line as it should be."""

import pytest

from climlab_dl.cli.order import refuse_another

RUNS = ["deeplab", "small-deeplab"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("small_deeplab my.nc --folder mine --steps 5", "my.nc --folder mine small-deeplab --steps 5"),
        ("my.nc small-deeplab mine", "my.nc --folder mine small-deeplab"),
        ("my.nc small_deeplab --folder=mine", "my.nc --folder mine small-deeplab"),
        ("small-deeplab --folder mine", "SOURCE --folder mine small-deeplab"),
        ("my.nc --folder deeplab", "my.nc --folder deeplab RUN (RUN is one of deeplab, small-deeplab)"),
        ("my.nc mine", "my.nc --folder mine RUN (RUN is one of deeplab, small-deeplab)"),
        ("", "SOURCE --folder FOLDER RUN (RUN is one of deeplab, small-deeplab)"),
    ],
)
def test_another_order_is_refused_with_the_line_that_was_meant(words, line, capsys):
    with pytest.raises(SystemExit, match="2"):
        refuse_another(words.split(), RUNS)
    assert capsys.readouterr().err.endswith(f"options: climlab-dl train {line}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("my.nc --folder mine small-deepla --steps 5", "'small-deepla' is no run; did you mean small-deeplab? There"),
        ("my.nc --folder=mine small_deepLab", "'small_deepLab' is no run; did you mean small-deeplab? There"),
        ("my.nc --folder mine --names tcw=TMQ dplab", "'dplab' is no run; did you mean deeplab? There"),
        ("my.nc deeplb mine", "'deeplb' is no run; did you mean deeplab? There"),
        ("my.nc --folder mine unet --steps 5", "'unet' is no run; there"),
    ],
)
def test_a_run_of_another_name_is_said_to_be_unknown(words, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        refuse_another(words.split(), RUNS)
    assert capsys.readouterr().err == f"climlab-dl: {said} are deeplab, small-deeplab\n"


@pytest.mark.parametrize(
    "words",
    [
        "my.nc --folder mine small-deeplab --steps 5",
        "--folder mine my.nc small_deeplab",
        "deeplab --folder deeplab --names tcw=TMQ deeplab",
        "my.nc small-deeplab --help",
    ],
)
def test_what_can_be_read_is_left_alone(words):
    refuse_another(words.split(), RUNS)


def test_the_program_says_the_order_before_it_looks_at_anything(run):
    said = run("train", "nowhere.nc", "small_deeplab", "mine", code=2).stderr
    assert said.endswith("climlab-dl train nowhere.nc --folder mine small-deeplab\n")
