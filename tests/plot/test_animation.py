"""An animation has a picture a snapshot, all of one size, in the order of time."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from climlab_dl import synthetic
from climlab_dl.plot import styles
from climlab_dl.plot.animation import animate


def test_every_snapshot_is_a_picture_of_its_own(tmp_path):
    fields = synthetic.atmosphere(times=3, shape=(24, 48), seed=0)
    path = animate(fields, fields.mask, path=tmp_path / "storms.gif", channel="TMQ", seconds=0.2, dpi=50)
    with Image.open(path) as film:
        assert getattr(film, "n_frames") == 3  # noqa: B009  (GIFs have it, Pillow's base class does not)
        said = film.info["comment"].decode()
        frames = []
        for number in range(3):
            film.seek(number)
            assert film.info["duration"] == 200
            frames.append(np.asarray(film.convert("RGB"), int))
    for name in ("cyclone", "river"):
        # The key's colours are those of the classes, so that the map can be read by it.
        assert (np.abs(frames[1] - 255 * np.array(to_rgb(styles.CLASS_COLORS[name]))).max(axis=-1) < 4).sum() > 20
    assert said.startswith("total precipitable water  2001-08-01 00:00 UTC; TMQ (kg m⁻²); cyclone; river")
    assert said.endswith("the first of 3 pictures, 0.2 s each, until 2001-08-01 12:00 UTC")
    assert frames[0].shape == frames[2].shape
    # Storms have moved between them: a hundredth of the picture at the least.
    assert (np.abs(frames[0] - frames[2]).max(axis=-1) > 20).mean() > 0.01


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg on PATH (apt-get install ffmpeg)")
def test_a_film_shows_the_same_pictures(tmp_path):
    fields = synthetic.atmosphere(times=3, shape=(24, 48), seed=0)
    options = {"channel": "TMQ", "seconds": 0.5, "dpi": 50}
    film = animate(fields, fields.mask, path=tmp_path / "storms.mp4", **options)
    with Image.open(animate(fields, fields.mask, path=tmp_path / "storms.gif", **options)) as gif:
        gif.seek(2)
        last = np.asarray(gif.convert("RGB"), int)
    command = ["ffprobe", "-loglevel", "error", "-show_entries", "format_tags=title,comment", "-of", "json", str(film)]
    tags = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["format"]["tags"]
    assert tags["title"] == "total precipitable water  2001-08-01 00:00 UTC"
    assert "cyclone; river; the first of 3 pictures, 0.5 s each, until" in tags["comment"]
    height, width = (size + size % 2 for size in last.shape[:2])
    command = ["ffmpeg", "-loglevel", "error", "-i", str(film), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    said = subprocess.run(command, capture_output=True, check=True).stdout
    frames = np.frombuffer(said, np.uint8).reshape(-1, height, width, 3).astype(int)
    assert len(frames) == 3
    # But for what video and the GIF's palette lose.
    assert np.abs(frames[2][: last.shape[0], : last.shape[1]] - last).mean() < 8
    assert np.abs(frames[0] - frames[2]).mean() > 0.1


def test_what_ffmpeg_refuses_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    # A program of that name that reads nothing and fails, as ffmpeg does without an encoder.
    (tmp_path / "ffmpeg").write_text("#!/bin/sh\necho Unknown encoder >&2\nexit 1\n")
    (tmp_path / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "films").mkdir()
    fields = synthetic.atmosphere(times=2, shape=(24, 48), seed=0)
    with pytest.raises(RuntimeError, match=r"storms\.mp4: Unknown encoder"):
        animate(fields, path=tmp_path / "films" / "storms.mp4", dpi=50)
    assert list((tmp_path / "films").iterdir()) == []


def test_without_ffmpeg_it_is_said_how_to_get_it_before_anything_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    fields = synthetic.atmosphere(times=2, shape=(24, 48), seed=0)
    with pytest.raises(FileNotFoundError, match=r"not on PATH; install it .* or write a \.gif"):
        animate(fields, path=tmp_path / "storms.mp4")


def test_what_cannot_be_animated_is_said(tmp_path):
    fields = synthetic.atmosphere(times=2, shape=(24, 48), seed=0)
    with pytest.raises(ValueError, match=r"written as \.gif"):
        animate(fields, path=tmp_path / "storms.mpeg")
    with pytest.raises(ValueError, match="needs a dimension time"):
        animate(fields.isel(time=0), path=tmp_path / "storms.gif")
