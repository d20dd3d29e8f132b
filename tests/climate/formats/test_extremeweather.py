"""ExtremeWeather's HDF5 files, written here as they are described."""

import os

import h5py
import numpy as np
import pytest

from climlab_dl import archive
from climlab_dl.climate.fields import CAM5, CYCLONE, FIELDS, RIVER


@pytest.fixture
def path(tmp_path):
    """Four snapshots of 12 x 18 with the channels in alphabetical order, and boxes of all four classes."""
    noise = np.random.default_rng(0).random((4, 16, 12, 18), np.float32)
    low, high = (np.array([FIELDS[name].display[i] for name in sorted(CAM5)], np.float32) for i in (0, 1))
    boxes = np.full((4, 15, 5), -1.0)
    boxes[0, 0] = 2, 3, 4, 5, 3  # a river
    boxes[0, 1] = 4, 5, 6, 7, 1  # a tropical cyclone over its corner
    boxes[0, 2] = 8, 8, 9, 9, 0  # a tropical depression
    boxes[0, 3] = 8, 0, 9, 2, 2  # an extratropical cyclone
    with h5py.File(tmp_path / "climo_1984.h5", "w") as file:
        file["images"] = low[:, None, None] + noise * (high - low)[:, None, None]
        file["boxes"] = boxes
    return tmp_path / "climo_1984.h5"


def test_channels_are_found_in_their_alphabetical_order(path):
    fields = archive.open(path)
    assert list(fields) == [*CAM5, "mask"]
    with h5py.File(path) as file:
        images = np.asarray(file["images"])
    for i, name in enumerate(sorted(CAM5)):
        np.testing.assert_array_equal(fields[name].values, images[:, i], err_msg=name)


def test_boxes_become_a_mask_of_the_two_classes_with_cyclones_on_top(path):
    mask = archive.open(path).mask.values
    wanted = np.zeros((12, 18), int)
    wanted[2:5, 3:6] = RIVER
    wanted[4:7, 5:8] = CYCLONE
    np.testing.assert_array_equal(mask[0], wanted)
    assert not mask[1:].any()


def test_the_year_is_in_the_name_and_has_no_leap_day(path):
    # 1460 snapshots a year in every year, 1984 too: four a day in a calendar without 29 February.
    times = archive.open(path).time.values
    assert [str(t) for t in times] == [
        "1984-01-01 00:00:00",
        "1984-01-01 06:00:00",
        "1984-01-01 12:00:00",
        "1984-01-01 18:00:00",
    ]
    assert times[0].calendar == "noleap"


def test_other_shapes_are_refused(tmp_path):
    with h5py.File(tmp_path / "climo_1984.h5", "w") as file:
        file["images"] = np.zeros((4, 3, 12, 18))
    with pytest.raises(ValueError, match=r"climo_1984.h5: images has shape \(4, 3, 12, 18\); expected \(time, 16,"):
        archive.open(tmp_path)


def test_a_damaged_block_is_named_with_its_file_when_it_is_read(path):
    with h5py.File(path) as file:
        images, boxes = np.asarray(file["images"]), np.asarray(file["boxes"])
    with h5py.File(path, "w") as file:
        for name, values in (("images", images), ("boxes", boxes)):
            file.create_dataset(name, data=values, chunks=(1, *values.shape[1:]), fletcher32=True)
    opened, was = archive.open(path), path.stat()
    content = path.read_bytes()
    for one in (images, boxes):
        content = content.replace(one[3].tobytes(), bytes(one[3].nbytes))
    path.write_bytes(content)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    for name in ("TMQ", "mask"):
        assert opened[name][0].load(scheduler="synchronous").notnull().all()
        with pytest.raises(OSError, match=r"climo_1984\.h5 cannot be read: it is truncated or damaged"):
            opened[name][3].load(scheduler="synchronous")
