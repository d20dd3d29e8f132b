"""The notebooks of storms run from the first cell to the last, small, and leave what they promise."""

import json

import pandas as pd
import pytest
import xarray as xr
from PIL import Image

from climlab_dl import archive, notebook, synthetic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A file of 21 snapshots of a small atmosphere, enough to hold some out."""
    fields = synthetic.atmosphere(times=21, shape=(32, 64), seed=0).drop_vars("mask")
    return archive.save(fields, tmp_path_factory.mktemp("few") / "fields.nc")


def test_exploring_ends_with_a_part_that_opens_again(few, tmp_path):
    book = notebook.execute(notebook.find("01_explore_climate"), tmp_path, {"DATA": few, "OUT": "."})
    part = archive.open(tmp_path / "part.nc")
    assert dict(part.sizes)["time"] == 4
    assert set(part.data_vars) == {"TMQ", "PSL"}
    assert "32 x 64" in "".join(output.get("text", "") for cell in book.cells for output in cell.get("outputs", []))


def test_labelling_leaves_masks_storms_outlines_and_tracks(few, tmp_path):
    notebook.execute(notebook.find("02_label_storms"), tmp_path, {"DATA": few, "OUT": ".", "SNAPSHOTS": 6})
    storms = pd.read_csv(tmp_path / "storms.csv")
    assert {"cyclone", "river"} == set(storms["class"])
    assert len(json.loads((tmp_path / "storms.geojson").read_text())["features"]) == len(storms)
    assert archive.open(tmp_path / "labelled.nc").mask.sizes["time"] == 6
    with xr.open_dataset(tmp_path / "tracks.nc") as tracks:
        assert tracks.sizes["trajectory"] == storms["track"].nunique()


@pytest.mark.mpi
def test_detecting_leaves_masks_a_page_and_a_film(few, tmp_path):
    notebook.execute(notebook.find("04_detections_map"), tmp_path, {"DATA": few, "OUT": ".", "STEPS": 4})
    with xr.open_dataset(tmp_path / "detections.nc") as found:
        assert found.mask.sizes["time"] == 7
        assert found.probabilities.dims == ("time", "class", "lat", "lon")
    assert (tmp_path / "map.html").stat().st_size > 1_000_000
    with Image.open(tmp_path / "storms.gif") as film:
        assert getattr(film, "n_frames") == 7  # noqa: B009  (GIFs have it, Pillow's base class does not)
