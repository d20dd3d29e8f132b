"""Maps from the shell: a picture, a page, an animation, or one line that says what is wrong."""

import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive, maps, synthetic
from climlab_dl.cli import drawing
from climlab_dl.climate.fields import CLASSES
from climlab_dl.climate.labels import DETECTED
from climlab_dl.inference import netcdf

PROGRAM = Path(sys.executable).with_name("climlab-dl")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fields = synthetic.atmosphere(times=3, shape=(24, 48), seed=1)
    return archive.save(fields, tmp_path_factory.mktemp("map") / "labelled.nc")


def test_the_shell_draws_a_picture(labelled, tmp_path):
    out = tmp_path / "map.png"
    verb = (PROGRAM, "map", labelled, "--out", out, "-c", "PSL", "--time", "-1", "--wind", "--projection", "Robinson")
    done = subprocess.run(verb, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{out}\n"
    assert matplotlib.image.imread(out).shape[1] > 1000


def test_a_picture_is_by_default_the_same_in_the_shell_as_in_python(labelled, tmp_path):
    fields = archive.open(labelled)
    drawing.draw((str(labelled),), out=tmp_path / "shell.png", time="0")
    maps.static(fields, fields.mask, channel="TMQ", path=tmp_path / "python.png")
    assert (tmp_path / "shell.png").read_bytes() == (tmp_path / "python.png").read_bytes()


def test_a_mask_that_lies_over_what_is_to_be_seen_is_left_out(labelled, tmp_path):
    fields = archive.open(labelled)
    drawing.draw((str(labelled),), out=tmp_path / "shell.png", channel=("PSL",), time="0", hide_mask=True)
    maps.static(fields, channel="PSL", path=tmp_path / "python.png")
    assert (tmp_path / "shell.png").read_bytes() == (tmp_path / "python.png").read_bytes()


def test_a_picture_of_many_times_says_which_it_is_of_where_nobody_chose(labelled, tmp_path, capsys):
    drawing.draw((str(labelled),), out=tmp_path / "map.png")
    said = capsys.readouterr().err
    assert said.startswith("drawn is ")
    assert said.endswith(", the first of 3 times; --time chooses another\n")
    drawing.draw((str(labelled),), out=tmp_path / "map.png", time="0")
    assert capsys.readouterr().err == ""


def test_a_page_holds_all_times_and_lists_the_storms(labelled, tmp_path, capsys):
    drawing.draw((str(labelled),), out=tmp_path / "map.html", channel=("TMQ",), storms=True)
    page = (tmp_path / "map.html").read_text()
    assert capsys.readouterr().out == f"{tmp_path / 'map.html'}\n"
    assert "(${step + 1} of ${dates.length}" in page
    assert "storm marks" in page


def test_a_channel_may_be_called_as_in_the_files_of_others(labelled, tmp_path):
    for channel in ("mslp", "PSL"):
        drawing.draw((str(labelled),), out=tmp_path / f"{channel}.png", channel=(channel,), time="0")
    assert (tmp_path / "mslp.png").read_bytes() == (tmp_path / "PSL.png").read_bytes()


def test_an_animation_has_a_picture_a_snapshot(labelled, tmp_path):
    from PIL import Image

    drawing.draw((str(labelled),), out=tmp_path / "map.gif")
    with Image.open(tmp_path / "map.gif") as film:
        assert getattr(film, "n_frames") == 3  # noqa: B009  (GIFs have it, Pillow's base class does not)


def test_a_mask_may_lie_in_a_file_of_its_own(labelled, tmp_path):
    fields = archive.open(labelled)
    archive.save(fields.drop_vars("mask"), tmp_path / "fields.nc")
    archive.save(fields[["mask"]], tmp_path / "masks.nc")
    drawing.draw((str(tmp_path / "fields.nc"),), out=tmp_path / "with.png", mask=(str(tmp_path / "masks.nc"),))
    drawing.draw((str(labelled),), out=tmp_path / "same.png")
    assert (tmp_path / "with.png").read_bytes() == (tmp_path / "same.png").read_bytes()
    with pytest.raises(ValueError, match=r"fields\.nc has no mask; climlab-dl label or detect makes one"):
        drawing.draw((str(tmp_path / "fields.nc"),), out=tmp_path / "map.html", storms=True)


def test_masks_alone_are_to_be_drawn_over_their_fields(run, labelled, tmp_path):
    fields = archive.open(labelled)
    archive.save(fields.drop_vars("mask"), tmp_path / "fields.nc")
    masks = [archive.save(fields[["mask"]].isel(time=[k]), tmp_path / f"masks/{k}.nc") for k in range(3)]
    out = tmp_path / "map.html"
    said = run("map", *masks, "--out", out, "--storms", code=1).stderr
    advice = f"climlab-dl map YOUR_FIELDS --mask {' '.join(map(str, masks))} --storms --out {out}"
    assert said == f"climlab-dl: these are masks only; draw them over their fields: {advice}\n"
    words = advice.replace("YOUR_FIELDS", str(tmp_path / "fields.nc")).split()[1:]
    assert run(*words, "-c", "TMQ").stdout == f"{out}\n"


@pytest.mark.parametrize(
    ("time", "said"),
    [("7", "found 3 snapshots, numbered from 0 to 2"), ("1999-01-01", "no snapshot is of that time; there are ")],
)
def test_a_time_that_is_not_there_is_said(labelled, tmp_path, time, said):
    with pytest.raises(ValueError, match=said):
        drawing.draw((str(labelled),), out=tmp_path / "map.png", time=time)


def test_a_time_is_named_by_its_position_or_its_date():
    dates = ["2001-08-14 06:00 UTC", "2001-08-14 12:00 UTC", "2001-08-15 06:00 UTC"]
    named = {"1": 1, "-1": -1, "2001-08-14T12": 1, "2001-08-15": 2, "2001-08-14 06:00": 0}
    assert {time: drawing._position(dates, time) for time in named} == named


def test_an_ending_that_is_no_map_is_said(run, labelled, tmp_path):
    assert "written as .gif, .html" in run("map", labelled, "--out", tmp_path / "map.doc", code=2).stderr


def test_probabilities_and_entropy_of_a_detection_are_drawn(labelled, tmp_path):
    dims, fields = ("time", "lat", "lon"), archive.open(labelled)
    chances = xr.concat([fields.mask == kind for kind in range(3)], "class").astype(np.float32) * 0.7 + 0.1
    found = xr.Dataset(
        {
            "probabilities": chances.transpose("time", "class", "lat", "lon").assign_attrs(DETECTED["probabilities"]),
            "mask": fields.mask,
            "entropy": (dims, fields.mask.values.astype(np.float32), DETECTED["entropy"]),
        }
    ).assign_coords({"class": list(CLASSES)})
    netcdf.write(found, tmp_path / "found.nc", packed=True)
    drawing.draw((str(tmp_path / "found.nc"),), out=tmp_path / "entropy.png", channel=("entropy",))
    assert matplotlib.image.imread(tmp_path / "entropy.png").shape[1] > 1000
    drawing.draw((str(tmp_path / "found.nc"),), out=tmp_path / "all.html")
    assert "probability_of_cyclone" in (tmp_path / "all.html").read_text()
