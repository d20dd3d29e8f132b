"""An animation has a picture a snapshot, all of one size, in the order of time."""

import numpy as np
import pytest
from PIL import Image

from climlab_dl import synthetic
from climlab_dl.plot.animation import animate


def test_every_snapshot_is_a_picture_of_its_own(tmp_path):
    fields = synthetic.atmosphere(times=3, shape=(24, 48), seed=0)
    path = animate(fields, fields.mask, path=tmp_path / "storms.gif", channel="TMQ", seconds=0.2, dpi=50)
    with Image.open(path) as film:
        assert getattr(film, "n_frames") == 3  # noqa: B009  (GIFs have it, Pillow's base class does not)
        frames = []
        for number in range(3):
            film.seek(number)
            assert film.info["duration"] == 200
            frames.append(np.asarray(film.convert("RGB"), int))
    assert frames[0].shape == frames[2].shape
    # Storms have moved between them: a hundredth of the picture at the least.
    assert (np.abs(frames[0] - frames[2]).max(axis=-1) > 20).mean() > 0.01


def test_what_cannot_be_animated_is_said(tmp_path):
    fields = synthetic.atmosphere(times=2, shape=(24, 48), seed=0)
    with pytest.raises(ValueError, match=r"written as \.gif"):
        animate(fields, path=tmp_path / "storms.mpeg")
    with pytest.raises(ValueError, match="needs a dimension time"):
        animate(fields.isel(time=0), path=tmp_path / "storms.gif")
