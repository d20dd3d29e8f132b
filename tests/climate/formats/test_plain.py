import os

import h5py
import numpy as np
import pytest
import xarray as xr

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
    for kind, place in found.items():
        assert place is not None
        np.testing.assert_array_equal(place.read(path), NUMBERS)
        for index in ((), (1,), (1, 2)):
            part = Plain.find(path, kind, index)
            assert part is not None
            np.testing.assert_array_equal(part.read(path), NUMBERS[index])


def test_what_takes_the_library_to_read_has_no_place(tmp_path):
    found = places(
        tmp_path / "a.h5",
        chunked=(NUMBERS, {"chunks": (1, 3, 4)}),
        empty=(np.empty((0, 3), "f4"), {}),
        compressed=(NUMBERS, {"compression": "gzip"}),
        scaled=(NUMBERS, {"attributes": {"scale_factor": 0.1}}),
        counted=(NUMBERS.astype("i2"), {"attributes": {"_FillValue": np.int16(-1)}}),
        text=(np.array([b"a", b"b"]), {}),
    )
    assert not any(found.values())
    assert Plain.find(tmp_path / "a.h5", "other") is None
    assert Plain.find(tmp_path / "b.h5", "text") is None


@pytest.mark.parametrize("chunk", [(1, 1, 3, 4), (2, 1, 3, 4), (3, 2, 3, 4), (7, 2, 3, 4), (2, 1, 2, 4), (1, 1, 3, 3)])
def test_of_chunks_what_lies_in_one_piece_is_read_past_the_library(tmp_path, chunk):
    values = np.arange(5 * 2 * 3 * 4, dtype="f4").reshape(5, 2, 3, 4)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("field", shape=(5, 2, 3, 4), maxshape=(None,) * 4, chunks=chunk, dtype="f4")
        for time in (3, 0, 4, 1, 2):  # chunks lie in the order in which they were written
            dataset[time] = values[time]
    whole = chunk[2:] == (3, 4)
    for index in np.ndindex(5, 2):
        place = Plain.find(tmp_path / "a.h5", "field", index)
        assert (place is not None) == whole
        if place is not None:
            np.testing.assert_array_equal(place.read(tmp_path / "a.h5"), values[index])
    assert (Plain.find(tmp_path / "a.h5", "field", (2,)) is not None) == (whole and chunk[1] == 2)
    assert Plain.find(tmp_path / "a.h5", "field", (5, 0)) is None
    assert Plain.find(tmp_path / "a.h5", "field") is None


def test_a_chunk_that_was_never_written_is_left_to_the_library(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("field", shape=(2, 3, 4), chunks=(1, 3, 4), dtype="f4", fillvalue=9)[1] = NUMBERS[1]
    assert Plain.find(tmp_path / "a.h5", "field", (0,)) is None
    assert Plain.find(tmp_path / "a.h5", "field", (1,)) is not None


def test_behind_a_users_block_the_library_reads(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=512) as file:
        file["field"] = NUMBERS
    assert Plain.find(tmp_path / "a.h5", "field") is None


def test_snapshots_along_an_unlimited_time_are_read_past_the_library(tmp_path, monkeypatch):
    fields = synthetic.atmosphere(times=3, shape=(16, 32))
    fields.to_netcdf(tmp_path / "a.nc", unlimited_dims=["time"])
    opened = archive.open(tmp_path / "a.nc")
    monkeypatch.setattr(xr.Variable, "to_numpy", None)
    np.testing.assert_array_equal(opened.TMQ, fields.TMQ)


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
def test_a_file_that_another_takes_the_place_of_is_never_read_where_its_numbers_were(tmp_path, layout):
    fields = synthetic.atmosphere(times=1, shape=(16, 32))
    (path,) = sorted(archive.save(fields, tmp_path / "a", layout=layout).glob("data*"))
    opened = archive.open(path)
    warmer = fields.assign(TS=fields.TS + 1, extra=fields.TS).rename(extra="T850")
    (other,) = sorted(archive.save(warmer, tmp_path / "b", layout=layout).glob("data*"))
    os.replace(other, path)
    with pytest.raises(OSError, match=rf"{path.name} was replaced or changed since it was opened"):
        opened.TS.load()
    np.testing.assert_allclose(archive.open(path).TS, warmer.TS, rtol=1e-6)


@pytest.mark.parametrize("layout", ["deepcam", "climatenet"])
def test_a_file_that_is_cut_off_after_it_was_opened_is_named(tmp_path, layout):
    fields = synthetic.atmosphere(times=1, shape=(16, 32))
    (path,) = sorted(archive.save(fields, tmp_path / "a", layout=layout).glob("data*"))
    opened = archive.open(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(OSError, match=rf"{path.name} was replaced or changed since it was opened"):
        opened.TMQ.load()
    with pytest.raises(OSError, match=rf"{path.name} (cannot be read: it is truncated|is damaged)"):
        archive.open(path)
