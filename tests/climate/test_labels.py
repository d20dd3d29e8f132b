"""Labels of pixels: what is a class, what is not, and what a file says of its numbers."""

import numpy as np
import pytest

from climlab_dl import archive
from climlab_dl.climate.labels import as_mask, flagged


@pytest.mark.parametrize(
    ("values", "said"),
    [(np.array([0.0, np.inf]), "inf"), (np.array(["bg", "tc"]), "of type"), (np.array([0.5]), "0.5")],
)
def test_what_is_no_class_is_refused_naming_it(values, said):
    with pytest.raises(ValueError, match=rf"a\.nc: labels are .*{said}"):
        as_mask(values, "a.nc")


def test_a_file_that_numbers_the_classes_otherwise_is_refused_quoting_it():
    with pytest.raises(ValueError, match=r"1 river, 2 cyclone.*Renumber"):
        flagged({"flag_values": np.array([0, 1, 2]), "flag_meanings": "background river cyclone"})
    assert flagged({"flag_values": np.array([0, 2]), "flag_meanings": "background river"}) == (0, 2)
    assert flagged({"flag_values": np.array([0, 1]), "flag_meanings": "clear cloud"}) == (0, 1, 2)


def test_what_a_killed_process_left_half_written_is_no_archive(tmp_path):
    (tmp_path / ".fields.nc.abcd").mkdir()
    (tmp_path / ".fields.nc.abcd" / "fields.nc").write_bytes(b"half")
    with pytest.raises(FileNotFoundError, match="no climate files"):
        archive.open(tmp_path)
