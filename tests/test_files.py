"""Writing beside and renaming; what a full disk and a closed folder are answered with."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from climlab_dl.files import beside, filled, refuse_unwritable, write_text


def test_a_folder_of_other_things_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years")
    with pytest.raises(IsADirectoryError, match="would be lost"), beside(tmp_path / "thesis") as new:
        new.write_text("a table")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years"


def write_half(path):
    with beside(path) as new:
        new.write_text("half")
        raise OSError("the input is gone")


def test_a_failed_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(OSError, match=r"^the input is gone$"):
        write_half(path)
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]
    assert path.read_text() == "old"


def fill_half(folder):
    with filled(folder) as new:
        (new / "1.nc").write_text("new")
        raise ValueError("the second cannot be")


def test_text_is_written_whole_in_utf8_and_its_path_given_back(tmp_path):
    path = tmp_path / "new" / "words.txt"
    assert write_text(path, "kg m⁻²\n") == path
    assert write_text(path, "Ωₘ\n").read_bytes() == "Ωₘ\n".encode()
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")  # half a character
    assert path.read_text(encoding="utf-8") == "Ωₘ\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_gets_all_its_files_or_none(tmp_path):
    folder = tmp_path / "deep" / "archive"
    with pytest.raises(ValueError, match="the second"):
        fill_half(folder)
    assert not folder.exists()
    with filled(folder) as new:
        (new / "1.nc").write_text("one")
        (new / "2.nc").write_text("two")
    (folder / "1.nc").write_text("kept")
    with pytest.raises(ValueError, match="the second"):
        fill_half(folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"1.nc": "kept", "2.nc": "two"}


def write_to_a_full_device(path):
    with beside(path), open("/dev/full", "wb", buffering=0) as device:
        device.write(b"more")


def test_a_full_disk_is_called_so_with_the_room_that_is_left(tmp_path):
    # /dev/full answers every writing with ENOSPC, as a full disk does.
    with pytest.raises(OSError, match=r"table\.csv cannot be written: the disk is full \([\d,]+\.\d MB are free in /"):
        write_to_a_full_device(tmp_path / "table.csv")
    assert not list(tmp_path.iterdir())


# Every writer, where no file may be longer than 3000 bytes: the file system then refuses as a full disk would, and
# HDF5, NetCDF and Zarr make of it what they make of that ("NetCDF: HDF error").
WRITERS = """
import resource, sys
from pathlib import Path
from climlab_dl import archive, events, synthetic

out = Path(sys.argv[1])
fields = synthetic.atmosphere(times=6, seed=1)
table = events.find(fields["mask"], fields)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
for write in (
    lambda: archive.save(fields, out / "a.nc"),
    lambda: archive.save(fields, out / "a.zarr"),
    lambda: archive.save(fields, out / "deepcam", layout="deepcam"),
    lambda: archive.save(fields, out / "climatenet", layout="climatenet"),
    lambda: events.to_csv(table, out / "a.csv"),
    lambda: events.to_geojson(fields["mask"], out / "a.geojson", table=table),
    lambda: events.to_netcdf(table, out / "tracks.nc"),
    lambda: events.to_teca(table, out / "teca.csv"),
    lambda: events.to_tempest(table, out / "tempest.txt", fields),
):
    try:
        print("written:", write())
    except OSError as error:
        print(error)
"""


def test_every_writer_says_that_there_is_no_room_and_leaves_nothing(tmp_path):
    done = subprocess.run([sys.executable, "-c", WRITERS, tmp_path], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    names = ["a.nc", "a.zarr", "deepcam", "climatenet", "a.csv", "a.geojson", "tracks.nc", "teca.csv", "tempest.txt"]
    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        assert line.startswith(f"{tmp_path / name} cannot be written: no file may grow larger here (ulimit -f) (")
        assert f"MB are free in {tmp_path}" in line
        assert line.endswith("Make room, or write elsewhere; no half of it is left.")
    assert done.stderr == ""
    assert not list(tmp_path.iterdir())


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder that this process may read but not write to; root is somebody else meanwhile."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_folder_that_may_not_be_written_to_is_named_before_any_work(closed):
    words = r"cannot be written: there is no permission to write there \(/tmp/.*\)\. Write to a folder of yours"
    with pytest.raises(PermissionError, match=words), beside(closed / "a.nc"):
        pytest.fail("the work began")
    with pytest.raises(PermissionError, match=words), filled(closed / "deepcam"):
        pytest.fail("the work began")
    with pytest.raises(PermissionError, match=words):
        refuse_unwritable(closed / "new" / "a.csv")
    assert not list(closed.iterdir())


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "out").write_text("a file")
    with (
        pytest.raises(NotADirectoryError, match=r"a\.nc cannot be written: .*out is a file, not a folder"),
        beside(tmp_path / "out" / "a.nc"),
    ):
        pytest.fail("the work began")


def test_a_link_to_a_folder_that_is_not_there_is_named(tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "away")
    says = r"a\.nc cannot be written: .*out is a link to what is not there"
    with pytest.raises(NotADirectoryError, match=says), beside(tmp_path / "out" / "a.nc"):
        pytest.fail("the work began")
    with pytest.raises(NotADirectoryError, match=says):
        refuse_unwritable(tmp_path / "out" / "a.nc")


def test_what_can_be_written_is_not_begun_by_asking(tmp_path):
    refuse_unwritable(tmp_path / "new" / "a.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", [beside, filled])
def test_a_signal_just_when_the_work_begins_leaves_nothing(tmp_path, monkeypatch, write):
    # It came between the making of the hidden folder and what takes it away.
    make = Path.mkdir

    def interrupted(self: Path, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        if self.name.startswith("."):
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt), write(tmp_path / "new"):
        pass
    assert list(tmp_path.iterdir()) == []
