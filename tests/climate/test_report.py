"""The report of a check: what is there, what is missing, what is wrong."""

import json

import h5py
import numpy as np
import pytest

from climlab_dl import archive


def test_the_sample_archive_is_readable_with_its_gap(sample):
    report = archive.check(sample)
    assert report.ok
    assert report.problems == ()
    assert (report.files, report.snapshots, report.calendar, report.step) == (12, 60, "standard", "24 h")
    assert report.times == ("2001-06-30 06:00", "2001-08-19 00:00")
    # Most are a day apart. From 8 August 06:00 to 14 August 06:00 there are six days, so five are missing.
    assert report.gaps == tuple(f"2001-08-{day:02d} 06:00" for day in range(9, 14))
    row = report.fields.loc["TMQ"]
    fields = archive.open(sample)
    assert row["highest"] == pytest.approx(float(fields.TMQ.max()))
    assert row["lowest"] == pytest.approx(float(fields.TMQ.min()))
    assert row["missing"] == 0
    text = str(report)
    assert text.splitlines()[0].endswith("sample: readable; 5 snapshots missing")
    assert "96 x 192 (-88.5722..88.5722 N, 0..358.125 E)" in text
    before, after = sample / "gcm_t63_2001-08-04T06.nc", sample / "gcm_t63_2001-08-14T06.nc"
    stretch = "5 from 2001-08-09 06:00 to 2001-08-13 06:00"
    assert report.holes == (f"{stretch}, between {before} and {after}",)
    assert f"every 24 h, 5 missing:\n             {stretch}, between" in text


def test_it_is_plain_types_for_json(sample):
    plain = json.loads(json.dumps(archive.check(sample / "gcm_t63_2001-08-14T06.nc").to_dict()))
    assert plain["ok"] is True
    assert plain["fields"][0]["field"] == "TMQ"
    assert plain["fields"][0]["unit"] == "kg m-2"


def test_missing_pixels_are_counted_and_are_no_fault(sample, tmp_path):
    # ClimateGlobalChange/tempestextremes#92, LBL-EESA/TECA#652: a fill value is no number.
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc")[["TMQ", "PSL"]].compute()
    fields.TMQ[:, :48] = np.nan
    archive.save(fields, tmp_path / "a.nc", packed=True)
    report = archive.check(tmp_path)
    assert report.ok
    assert report.fields.loc["TMQ", "missing"] == 0.5
    assert report.fields.loc["PSL", "missing"] == 0
    assert "50.00%" in str(report)


def test_what_is_wrong_after_the_first_snapshot_is_found_with_its_file(sample, tmp_path):
    for i in range(3):
        one = archive.open(sample / "gcm_t63_2001-08-14T06.nc")[["TMQ", "PSL"]].isel(time=[i]).compute()
        if i == 2:
            one.PSL[0, 3, 3] = -32767.0
        archive.save(one, tmp_path / f"{i}.nc")
    assert archive.open(tmp_path).sizes["time"] == 3
    report = archive.check(tmp_path)
    assert not report.ok
    assert len(report.problems) == 1
    assert "PSL reaches from -32767" in report.problems[0]
    assert "an undeclared fill value -32767" in report.problems[0]
    assert report.problems[0].endswith("2.nc)")
    assert not report.fields.loc["PSL", "ok"]
    assert report.fields.loc["TMQ", "ok"]
    assert "<- look" in str(report)


def test_classes_are_shown_by_their_share(sample, tmp_path):
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc")[["TMQ"]].compute()
    mask = np.zeros(fields.TMQ.shape, np.int8)
    mask[:, :24], mask[:, 24:30] = 2, 1
    report = archive.check(archive.save(fields.assign(mask=(fields.TMQ.dims, mask)), tmp_path / "a.nc"))
    assert report.classes == {"unlabelled": 0, "background": 66 / 96, "cyclone": 6 / 96, "river": 24 / 96}
    assert "cyclone 6.250%, river 25.000%" in str(report)


def test_nothing_is_raised_even_where_nothing_can_be_read(tmp_path):
    report = archive.check(tmp_path / "nowhere.nc")
    assert not report.ok
    assert "There is no" in str(report)
    (tmp_path / "a.nc").write_bytes(b"\x89HDF\r\n\x1a\n and no more")
    assert "a.nc cannot be read" in str(archive.check(tmp_path))


def days(sample, tmp_path, change, count=4):
    """Write snapshots of a small grid, a file each, after ``change(number, snapshot)``."""
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc")[["TMQ", "PSL", "PRECT"]].isel(lat=slice(9), lon=slice(9))
    for i in range(count):
        archive.save(change(i, fields.isel(time=[i]).compute()), tmp_path / f"{i}.nc")
    return archive.check(tmp_path)


@pytest.mark.parametrize("blank", [0, 2])
def test_a_snapshot_without_a_number_is_a_problem_wherever_it_is(sample, tmp_path, blank):
    report = days(sample, tmp_path, lambda i, one: one.assign(PSL=one.PSL.where(i != blank)))
    assert len(report.problems) == 1
    assert "PSL has no number at all in 1 of 4 snapshots (at 2001-08-1" in report.problems[0]
    assert report.problems[0].endswith(f"{blank}.nc)")
    assert report.fields["ok"].tolist() == [True, False, True]


def test_what_accumulates_may_be_missing_in_the_first_snapshot_only(sample, tmp_path):
    assert days(sample, tmp_path, lambda i, one: one.assign(PRECT=one.PRECT.where(i != 0))).ok
    report = days(sample, tmp_path, lambda i, one: one.assign(PRECT=one.PRECT.where(i not in (0, 1, 3))))
    assert "PRECT has no number at all in 2 of 4 snapshots" in report.problems[0]
    nothing = days(sample, tmp_path, lambda i, one: one.assign(PRECT=one.PRECT.where(False)))
    assert "PRECT has no number at all in 4 of 4 snapshots" in nothing.problems[0]


def test_infinite_values_are_called_so(sample, tmp_path):
    def overflow(i, one):
        if i == 1:
            one.TMQ[0, 2, 3] = np.inf
        return one

    report = days(sample, tmp_path, overflow)
    assert len(report.problems) == 1
    assert "TMQ has infinite values" in report.problems[0]
    assert report.problems[0].endswith("1.nc)")
    assert report.fields.loc["TMQ", "missing"] == 0


def test_a_slip_of_the_pen_is_shown_first_with_what_it_may_be(sample, tmp_path):
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc")[["TMQ", "PSL", "U850"]].isel(time=[0]).compute()
    # Theirs: TMQQ for TMQ; PSLL beside PSL cannot be that; area is like nothing.
    theirs = fields.rename(TMQ="TMQQ").assign(PSLL=fields.PSL, area=fields.PSL)
    for name in theirs:
        del theirs[name].attrs["standard_name"]
    theirs.to_netcdf(tmp_path / "a.nc")
    report = archive.check(tmp_path / "a.nc")
    assert report.ok
    assert report.suggestions == {"TMQQ": "TMQ"}
    assert str(report).splitlines()[1].startswith("  ? TMQQ is no known name and left out; is it TMQ, ")
    assert "Then pass names={'TMQQ': 'TMQ'}." in str(report)
    assert list(archive.check(tmp_path / "a.nc", names={"TMQQ": "TMQ"}).fields.index) == ["TMQ", "U850", "PSL"]
    theirs[["TMQQ"]].to_netcdf(tmp_path / "b.nc")
    assert "names={'TMQQ': 'TMQ'}" in archive.check(tmp_path / "b.nc").problems[0]


def test_a_field_that_rules_need_is_sought_among_the_unknown_variables(sample, tmp_path):
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc").isel(time=[0]).compute()

    def report(name, *dropped):
        theirs = fields.drop_vars(dropped).rename(TMQ=name)
        theirs[name].attrs = {"units": "kg m-2"}  # a standard name would say what it is
        theirs.to_netcdf(tmp_path / f"{name}.nc")
        return archive.check(tmp_path / f"{name}.nc")

    spelled_out = report("precipitable_water", "TS")
    assert spelled_out.ok
    head, hint, *_ = str(spelled_out).splitlines()
    assert head.endswith("precipitable_water.nc: readable; 2 fields lacking")
    assert hint.endswith("is it TMQ, total precipitable water? Then pass names={'precipitable_water': 'TMQ'}.")
    head, hint, *_ = str(report("moist")).splitlines()
    assert head.endswith("moist.nc: readable; 1 field lacking")
    assert hint.startswith("  ? Is one of the unknown TMQ, total precipitable water, or another that is lacking?")
    assert hint.endswith("Then pass names={'THEIRS': 'TMQ'}.")


def test_what_no_rule_needs_may_be_lacking_beside_unknown_variables(sample, tmp_path):
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc").isel(time=[0]).compute()
    fields.drop_vars("ZBOT").assign(area=fields.PSL.drop_attrs()).to_netcdf(tmp_path / "a.nc")
    report = archive.check(tmp_path / "a.nc")
    assert (report.lacking, report.unrecognised) == (("ZBOT",), ("area",))
    assert str(report).splitlines()[0].endswith("a.nc: as it should be")


def test_a_file_that_cannot_be_read_is_one_problem(tmp_path, shared):
    (tmp_path / "a.nc").write_bytes(b"no data at all")
    assert len(archive.check(tmp_path / "a.nc").problems) == 1
    (tmp_path / "b.nc").write_bytes(b"nor here")
    problems = archive.check(tmp_path).problems
    assert [problem.split(" is ")[0] for problem in problems] == [str(tmp_path / "a.nc"), str(tmp_path / "b.nc")]
    problems = archive.check(shared / "climate" / "deepcam_stats.h5").problems
    assert len(problems) == 1
    assert "deepcam_stats.h5 holds no snapshot, only statistics" in problems[0]


def test_what_an_archive_lacks_of_the_sixteen_channels_is_said(sample, tmp_path):
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc").isel(time=[0]).compute()
    archive.save(fields.drop_vars(["ZBOT", "TS"]), tmp_path / "a.nc")
    report = archive.check(tmp_path / "a.nc")
    assert report.ok
    assert report.lacking == ("TS", "ZBOT")
    assert "lacks      TS, ZBOT, of the 16 channels of CAM5" in str(report)
    assert archive.check(sample / "gcm_t63_2001-08-14T06.nc").lacking == ()


def test_a_unit_that_changes_in_mid_archive_is_told_by_the_snapshots_that_have_it(sample, tmp_path):
    # Over both units together, 960 to 102000 looks like neither of them.
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc")[["PSL"]].isel(time=slice(0, 3)).compute()
    fields.PSL[1:] /= 100
    archive.save(fields, tmp_path / "a.nc")
    (problem,) = archive.check(tmp_path / "a.nc").problems
    assert "as numbers in hPa would" in problem
    assert "(2 of 3 snapshots, first at 2001-08-14 12:00 in " in problem


def test_a_damaged_block_in_one_of_many_files_leaves_the_report_on_the_others(sample, tmp_path):
    fields = archive.open(sample / "gcm_t63_2001-08-14T06.nc")[["TMQ", "PSL"]].compute()
    for i in range(3):
        path = archive.save(fields.isel(time=[i]), tmp_path / f"{i}.nc")
        if i == 1:
            with h5py.File(path) as file:
                block = file["PSL"].id.get_chunk_info(0)
            spoilt = bytearray(path.read_bytes())
            spoilt[block.byte_offset : block.byte_offset + block.size] = bytes(block.size)
            path.write_bytes(spoilt)
    report = archive.check(tmp_path)
    (problem,) = report.problems
    assert f"{tmp_path / '1.nc'} cannot be read" in problem
    assert problem.endswith("(1 of 3 snapshots, first at 2001-08-14 12:00)")
    assert (report.files, report.snapshots) == (3, 3)
    assert report.fields.loc["TMQ", "highest"] == pytest.approx(float(fields.TMQ.isel(time=[0, 2]).max()))


@pytest.fixture
def week(sample, tmp_path):
    """Seven files of a snapshot each, six hours apart from 14 August 06:00."""
    fields = archive.open(sample)[["TMQ", "PSL"]].isel(time=slice(40, 47), lat=slice(9), lon=slice(9)).compute()
    return [archive.save(fields.isel(time=[i]), tmp_path / f"{i}.nc") for i in range(7)]


@pytest.mark.parametrize("ending", ["empty", "half", "gone"])
def test_a_file_in_the_middle_that_cannot_be_read_is_named_with_the_gap_that_it_leaves(week, ending):
    middle = week[3]
    whole = middle.read_bytes()
    said = {
        "empty": f"{middle} is empty",
        "half": f"{middle} cannot be read: it is trunc",
        "gone": f"There is no {middle}",
    }
    middle.unlink() if ending == "gone" else middle.write_bytes(whole[: len(whole) // 2 if ending == "half" else 0])
    report = archive.check(week)
    (problem,) = report.problems
    assert problem.startswith(said[ending])
    assert (report.files, report.snapshots, report.gaps) == (6, 6, ("2001-08-15 00:00",))
    assert report.holes == (f"2001-08-15 00:00, between {week[2]} and {week[4]}",)
    assert not report.ok


def test_a_file_that_is_missing_without_a_word_is_a_gap_between_its_neighbours(week, tmp_path):
    for i in (2, 3, 5):
        week[i].unlink()
    report = archive.check(tmp_path)
    assert report.ok
    assert str(report).splitlines()[0] == f"{tmp_path}: readable; 3 snapshots missing"
    assert report.holes == (
        f"2 from 2001-08-14 18:00 to 2001-08-15 00:00, between {week[1]} and {week[4]}",
        f"2001-08-15 12:00, between {week[4]} and {week[6]}",
    )
