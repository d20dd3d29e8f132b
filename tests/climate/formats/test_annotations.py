"""ClimateNetLarge: a file a time and a class, several annotators, on the real ERA5 grid of the project."""

import os

import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive
from climlab_dl.climate.fields import BACKGROUND, CYCLONE, RIVER

WORDS = {"AR": "Atmospheric River (AR)", "TC": "Tropical Cyclone (TC)"}


def annotate(folder, kind, drawn, day=1, word=True):
    """Write one file as the project's formatting script does: boolean, annotators first, latitude descending."""
    (folder / kind).mkdir(exist_ok=True)
    label = xr.DataArray(
        drawn,
        dims=("annotator", "latitude", "longitude"),
        coords={
            "annotator": np.arange(len(drawn)),
            "latitude": np.linspace(90, -90, 19),
            "longitude": np.arange(0, 360, 10.0),
            "time": np.datetime64(f"2019-01-{day:02d}T06", "ns"),
            **({"class": WORDS[kind]} if word else {}),
        },
        name="label",
    )
    label.to_netcdf(folder / kind / f"2019-01-{day:02d}T06:00:00.nc", encoding={"label": {"zlib": True}})


@pytest.fixture
def drawn() -> dict[str, np.ndarray]:
    """What two annotators drew: they agree on one pixel of each class, and the cyclone lies in the river."""
    drawn = {kind: np.zeros((2, 19, 36), bool) for kind in WORDS}
    drawn["AR"][:, 4, 4:7] = True
    drawn["AR"][0, 4, 7] = True
    drawn["TC"][:, 4, 4] = True
    drawn["TC"][1, 12, 4] = True
    return drawn


@pytest.mark.parametrize("word", [True, False], ids=["class in words", "class by folder"])
def test_the_mask_is_what_most_annotators_agree_on_and_labels_keep_everything(tmp_path, drawn, word):
    for kind, labels in drawn.items():
        annotate(tmp_path, kind, labels, word=word)
    fields = archive.open(tmp_path)
    assert fields.time.values == np.datetime64("2019-01-01T06")
    # Latitude ascends: row 4 from the north is row 14 from the south.
    row = fields.mask.values[0, 14]
    assert row[3:9].tolist() == [BACKGROUND, CYCLONE, RIVER, RIVER, BACKGROUND, BACKGROUND]
    assert fields.labels.dims == ("time", "annotator", "lat", "lon")
    # One bit a class: 3 where both were drawn.
    assert fields.labels.values[0, :, 14, 4:8].tolist() == [[3, 2, 2, 2], [3, 2, 2, 0]]
    assert fields.labels.values[0, :, 6, 4].tolist() == [0, 1]
    assert fields.labels.attrs["flag_meanings"] == "cyclone river"
    again = archive.open(archive.save(fields, tmp_path / "again.nc"))
    xr.testing.assert_equal(again, fields)
    assert again.labels.dtype == again.mask.dtype == np.int8


def test_times_with_one_class_only_are_left_out_with_a_notice(tmp_path, drawn, caplog):
    for kind, labels in drawn.items():
        annotate(tmp_path, kind, labels)
    annotate(tmp_path, "AR", drawn["AR"], day=2)
    assert archive.open(tmp_path).sizes["time"] == 1
    assert "1 time(s) have labels of one class only" in caplog.text


def test_one_class_alone_is_refused(tmp_path, drawn):
    annotate(tmp_path, "AR", drawn["AR"])
    with pytest.raises(ValueError, match=r"0 times of cyclones \(TC\) and 1 of rivers"):
        archive.open(tmp_path / "AR")


def test_annotations_join_fields_at_the_times_that_both_have(tmp_path, drawn):
    for kind, labels in drawn.items():
        annotate(tmp_path, kind, labels, day=2)
    era5 = xr.Dataset(
        {"tcwv": (("valid_time", "latitude", "longitude"), np.full((3, 19, 36), 20.0), {"units": "kg m**-2"})},
        {
            "valid_time": np.datetime64("2019-01-01T06", "ns") + np.arange(3) * np.timedelta64(1, "D"),
            "latitude": ("latitude", np.linspace(90, -90, 19), {"units": "degrees_north"}),
            "longitude": ("longitude", np.arange(0, 360, 10.0), {"units": "degrees_east"}),
        },
    )
    era5.to_netcdf(tmp_path / "era5.nc")
    fields = archive.open([tmp_path / "era5.nc", tmp_path / "AR", tmp_path / "TC"])
    assert list(fields) == ["TMQ", "mask", "labels"]
    assert fields.time.values == np.datetime64("2019-01-02T06")
    assert fields.mask.values.any()


def test_the_real_grid_of_the_project_is_understood(shared, tmp_path):
    # reference.nc of ClimateNetLarge: 721 x 1440, latitude descending, longitude 0..359.75.
    grid = xr.open_dataset(shared / "climate" / "climatenet_v2_reference_grid.nc")
    label = np.zeros((2, 721, 1440), bool)
    label[:, 0, 4] = True
    for kind in WORDS:
        (tmp_path / kind).mkdir()
        variables = {"label": (("annotator", "latitude", "longitude"), label)}
        file = xr.Dataset(variables, {**grid.coords, "time": np.datetime64("2019-01-01", "ns"), "class": WORDS[kind]})
        file.to_netcdf(tmp_path / kind / "2019-01-01T00:00:00.nc")
    fields = archive.open(tmp_path)
    assert fields.lat.values[[0, -1]].tolist() == [-90, 90]
    assert fields.mask.values[0, -1, 4] == CYCLONE
    assert np.count_nonzero(fields.mask) == 1


def test_a_drawing_that_is_gone_or_damaged_when_it_is_read_is_named_of_either_class(tmp_path, drawn):
    for kind in WORDS:
        folder = tmp_path / f"damaged {kind}"
        folder.mkdir()
        for other, labels in drawn.items():
            annotate(folder, other, labels)
        opened, path = archive.open(folder), folder / kind / "2019-01-01T06:00:00.nc"
        content, was = bytearray(path.read_bytes()), path.stat()
        place = content.rindex(b"\x78\x5e") if b"\x78\x5e" in content else content.rindex(b"\x78\x01")
        path.write_bytes(content[: place + 2] + bytes(8) + content[place + 10 :])
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
        with pytest.raises(OSError, match=rf"{path} cannot be read: it is truncated or damaged"):
            opened.mask.load(scheduler="synchronous")
        path.unlink()
        with pytest.raises(FileNotFoundError, match=rf"{path} was deleted since it was opened"):
            opened.mask.load(scheduler="synchronous")
