"""The verbs for climate files, called as the shell does but in this process."""

import sys

import numpy as np
import pytest

from climlab_dl import archive, cli, synthetic, volumes


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the program; give its exit code, and what it printed and said."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["climlab-dl", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
        printed, said = capsys.readouterr()
        return (code, printed, said) if isinstance(code, int) else (1, printed, f"{said}{code}\n")

    return call


@pytest.fixture(scope="module")
def planted():
    return synthetic.atmosphere(times=3, seed=1)


@pytest.fixture
def spoilt(planted, tmp_path):
    """Three files, of which the last has a fill value that it does not declare."""
    for i in range(3):
        one = planted.drop_vars("mask").isel(time=[i]).copy(deep=True)
        if i == 2:
            one.PSL[0, 5, 5] = -9999
        archive.save(one, tmp_path / f"in{i}.nc")
    return tmp_path / "in?.nc"


@pytest.fixture(scope="module")
def records(shared):
    return shared / "cosmology" / "21688988_univ_ics_2019-03_a10018182_006.tfrecord"


@pytest.mark.parametrize(
    "verb",
    [("convert", "--out", "out.nc"), ("convert", "--layout", "deepcam", "--out", "out"),
     ("label", "--out", "out.nc"), ("label", "--mask-only", "--out", "out.zarr")],
    ids=" ".join,
)  # fmt: skip
def test_what_cannot_be_later_on_ends_the_work_with_its_place_and_leaves_nothing(run, spoilt, tmp_path, verb):
    name, *options, out = verb
    code, _, said = run(name, spoilt, *options, tmp_path / out)
    assert code == 1
    assert "in2.nc: at 2001-08-" in said
    assert "PSL reaches from -9999" in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in0.nc", "in1.nc", "in2.nc"]


def test_check_finds_it_and_exits_with_1(run, spoilt):
    code, printed, _ = run("check", spoilt)
    assert code == 1
    assert "PSL reaches from -9999" in printed


def test_a_name_can_be_given_in_the_shell(run, planted, tmp_path):
    planted[["TMQ", "PSL"]].rename(TMQ="TMQQ").to_netcdf(tmp_path / "a.nc")
    assert "--names TMQQ=TMQ" in run("check", tmp_path / "a.nc")[1]
    assert run("convert", tmp_path / "a.nc", "--names", "TMQQ=TMQ", "PSL=", "--out", tmp_path / "b.nc")[0] == 0
    assert list(archive.open(tmp_path / "b.nc")) == ["TMQ"]
    code, _, said = run("check", tmp_path / "a.nc", "--names", "TMQQ")
    assert (code, said) == (1, "climlab-dl: --names TMQQ: expected THEIRS=OURS, e.g. tcw=TMQ\n")


def test_check_reports_on_volumes(run, records, tmp_path):
    code, printed, _ = run("check", records)
    assert code == 0
    assert "(128, 128, 128, 4) int16" in printed
    (tmp_path / "half.tfrecord").write_bytes(records.read_bytes()[:100_000])
    code, printed, _ = run("check", tmp_path)
    assert code == 1
    assert "half.tfrecord" in printed


@pytest.mark.parametrize("layout", ["hdf5", "zarr"])
def test_volumes_are_converted_and_known_again(run, tmp_path, layout):
    counts = np.arange(8**3 * 2, dtype=np.int16).reshape(8, 8, 8, 2)
    volume = volumes.Volume(counts=counts, source=tmp_path, unit=np.array([0.1, -0.2]))
    volumes.save(volume, tmp_path / "universes" / "one.h5")
    code, printed, _ = run("convert", tmp_path / "universes", "--layout", layout, "--out", tmp_path / "out")
    assert code == 0
    made = printed.strip()
    np.testing.assert_array_equal(next(volumes.read(made)).counts, counts)
    assert "1 volumes, 0 problems" in run("check", made)[1]
    assert "1 volumes, 0 problems" in run("check", tmp_path / "out")[1]
    code, _, said = run("convert", tmp_path / "universes", "--out", tmp_path / "out.nc")
    assert (code, "expected a folder, not --out" in said) == (1, True)
    code, _, said = run("convert", tmp_path / "universes", "--layout", "deepcam", "--out", tmp_path / "out")
    assert (code, "expected zarr or hdf5" in said) == (1, True)


@pytest.mark.parametrize("verb", ["label", "events"])
def test_volumes_are_no_climate(run, records, tmp_path, verb):
    options = ("--out", tmp_path / "x.nc") if verb == "label" else ()
    code, _, said = run(verb, records, *options)
    assert code == 1
    assert "has volumes of the universe, no climate; check, convert and train take them" in said


def test_layouts_of_volumes_are_not_for_climate(run, spoilt, tmp_path):
    code, _, said = run("convert", spoilt, "--layout", "hdf5", "--out", tmp_path / "x")
    assert (code, said) == (
        1,
        "climlab-dl: --layout hdf5 is for volumes; for climate expected cf, deepcam or climatenet\n",
    )


def test_an_unwritable_place_is_named_before_storms_are_sought(run, planted, tmp_path):
    archive.save(planted, tmp_path / "a.nc")
    (tmp_path / "file").write_text("in the way")
    code, printed, said = run("events", tmp_path / "a.nc", "--csv", tmp_path / "file" / "storms.csv")
    assert (code, printed) == (1, "")
    assert "storms.csv cannot be written" in said
