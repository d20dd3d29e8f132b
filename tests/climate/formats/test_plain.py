import os

import h5py
import numpy as np
import pytest

from climlab_dl.climate import archive, synthetic
from climlab_dl.climate.formats.plain import Plain

NUMBERS = np.arange(2 * 3 * 4, dtype="f4").reshape(2, 3, 4)


def places(path, **datasets) -> dict[str, Plain | None]:
    with h5py.File(path, "w") as file:
        for name, (values, options) in datasets.items():
            attributes = options.pop("attributes", {})
            file.create_dataset(name, data=values, **options).attrs.update(attributes)
    return {name: Plain.find(path, name) for name in datasets}


def test_numbers_are_read_past_the_library_whatever_their_type(tmp_path):
    path = tmp_path / "a.h5"
    kinds = ("<f4", ">f4", "f8", "i8", "u1")
    found = places(path, **{kind: (NUMBERS.astype(kind), {}) for kind in kinds})
    for place in found.values():
        assert place is not None
        np.testing.assert_array_equal(place.read(path), NUMBERS)
        np.testing.assert_array_equal(place.at(1).read(path), NUMBERS[1])
        np.testing.assert_array_equal(place.at(1, 2).read(path), NUMBERS[1, 2])


def test_what_takes_the_library_to_read_has_no_place(tmp_path):
    found = places(
        tmp_path / "a.h5",
        chunked=(NUMBERS, {"chunks": (1, 3, 4)}),
        compressed=(NUMBERS, {"compression": "gzip"}),
        scaled=(NUMBERS, {"attributes": {"scale_factor": 0.1}}),
        counted=(NUMBERS.astype("i2"), {"attributes": {"_FillValue": np.int16(-1)}}),
        text=(np.array([b"a", b"b"]), {}),
    )
    assert not any(found.values())
    assert Plain.find(tmp_path / "a.h5", "other") is None
    assert Plain.find(tmp_path / "b.h5", "text") is None


def test_numbers_in_another_file_are_left_to_the_library(tmp_path):
    places(tmp_path / "a.h5", field=(NUMBERS, {}))
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["field"] = NUMBERS + 1
        file["linked"] = h5py.ExternalLink("a.h5", "field")
        file["soft"] = h5py.SoftLink("field")
        file.create_dataset("raw", data=NUMBERS, external=[(str(tmp_path / "raw"), 0, NUMBERS.nbytes)])
    assert Plain.find(tmp_path / "b.h5", "linked") is None
    assert Plain.find(tmp_path / "b.h5", "raw") is None
    soft = Plain.find(tmp_path / "b.h5", "soft")
    assert soft is not None
    np.testing.assert_array_equal(soft.read(tmp_path / "b.h5"), NUMBERS + 1)


def test_text_for_a_missing_value_is_left_to_the_library(tmp_path):
    for number, text in enumerate(("none", "", "-999")):
        assert (
            places(tmp_path / f"{number}.h5", field=(NUMBERS, {"attributes": {"missing_value": text}}))["field"] is None
        )


def test_what_stands_for_a_missing_value_becomes_nan(tmp_path):
    path = tmp_path / "a.h5"
    attributes = {"_FillValue": np.float32(5), "missing_value": np.array([7, 8], "f4")}
    place = places(path, field=(NUMBERS, {"attributes": attributes}))["field"]
    assert place is not None
    found = place.read(path)
    np.testing.assert_array_equal(found, np.where(np.isin(NUMBERS, [5, 7, 8]), np.nan, NUMBERS))


def test_an_array_that_is_kept_is_used_again(tmp_path):
    path = tmp_path / "a.h5"
    one, two = places(path, one=(NUMBERS, {}), two=(NUMBERS + 1, {})).values()
    assert one is not None
    assert two is not None
    first, second = one.read(path, kept=True), two.read(path, kept=True)
    assert first is second
    np.testing.assert_array_equal(second, NUMBERS + 1)


def test_a_file_that_ends_early_is_named(tmp_path):
    path = tmp_path / "a.h5"
    place = places(path, one=(NUMBERS, {}))["one"]
    assert place is not None
    os.truncate(path, place.offset + 8)
    with pytest.raises(OSError, match=r"a\.h5 cannot be read: it is truncated .* \(it ends 88 bytes early\)"):
        place.read(path)


@pytest.mark.parametrize("layout", ["deepcam", "climatenet"])
def test_a_file_that_changes_after_it_was_opened_is_never_read_where_its_numbers_were(tmp_path, layout):
    fields = synthetic.atmosphere(times=1, shape=(16, 32))
    (path,) = sorted(archive.save(fields, tmp_path / "a", layout=layout).glob("data*"))
    opened = archive.open(path)
    warmer = fields.assign(TS=fields.TS + 1, extra=fields.TS).rename(extra="T850")
    (other,) = sorted(archive.save(warmer, tmp_path / "b", layout=layout).glob("data*"))
    os.replace(other, path)
    np.testing.assert_allclose(opened.TS, warmer.TS, rtol=1e-6)


@pytest.mark.parametrize("layout", ["deepcam", "climatenet"])
def test_a_file_that_is_cut_off_after_it_was_opened_is_named(tmp_path, layout):
    fields = synthetic.atmosphere(times=1, shape=(16, 32))
    (path,) = sorted(archive.save(fields, tmp_path / "a", layout=layout).glob("data*"))
    opened = archive.open(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(OSError, match=rf"{path.name} (cannot be read: it is truncated|is damaged)"):
        opened.TMQ.load()
