"""Writing beside and renaming."""

import pytest

from climlab_dl.files import beside


def test_a_folder_of_other_things_is_never_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years")
    with pytest.raises(IsADirectoryError, match="would be lost"), beside(tmp_path / "thesis") as new:
        new.write_text("a table")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years"


def write_half(path):
    with beside(path) as new:
        new.write_text("half")
        raise OSError("the disk is gone")


def test_a_failed_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("old")
    with pytest.raises(OSError, match="gone"):
        write_half(path)
    assert [p.name for p in tmp_path.iterdir()] == ["table.csv"]
    assert path.read_text() == "old"
