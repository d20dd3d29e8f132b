"""The verbs for climate files: what they say of what is wrong, and when."""

import gzip
import json
import os

import h5py
import numpy as np
import pytest
import tqdm
import xarray as xr

from climlab_dl import archive, heuristics, synthetic, volumes
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.run import Run


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
    said = run(name, spoilt, *options, tmp_path / out, code=1).stderr
    assert "in2.nc: at 2001-08-" in said
    assert "PSL reaches from -9999" in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in0.nc", "in1.nc", "in2.nc"]


def test_check_finds_it_and_exits_with_1(run, spoilt):
    assert "PSL reaches from -9999" in run("check", spoilt, code=1).stdout


def test_a_name_can_be_given_in_the_shell(run, planted, tmp_path):
    theirs = planted[["TMQ", "PSL"]].rename(TMQ="TMQQ")
    theirs["TMQQ"].attrs = {"units": "kg m-2"}  # a standard name would say what it is
    theirs.to_netcdf(tmp_path / "a.nc")
    assert "Then pass --names TMQQ=TMQ." in run("check", tmp_path / "a.nc").stdout
    run("convert", tmp_path / "a.nc", "--names", "TMQQ=TMQ", "PSL=", "--out", tmp_path / "b.nc")
    assert list(archive.open(tmp_path / "b.nc")) == ["TMQ"]
    said = run("check", tmp_path / "a.nc", "--names", "TMQQ", code=2).stderr
    assert said == "climlab-dl: --names TMQQ: expected THEIRS=OURS, e.g. tcw=TMQ\n"


def test_coordinates_can_be_named_in_the_shell(run, planted, tmp_path):
    theirs = planted[["TMQ", "PSL"]].rename(lat="ypos", lon="xpos")
    for name in ("ypos", "xpos"):
        theirs[name].attrs = {}
    theirs.to_netcdf(tmp_path / "a.nc")
    assert "say so with --names THEIRS=lat." in run("check", tmp_path / "a.nc", code=1).stdout
    run("convert", tmp_path / "a.nc", "--names", "ypos=lat", "xpos=lon", "--out", tmp_path / "b.nc")
    assert archive.open(tmp_path / "b.nc").lat.equals(planted.lat)


@pytest.fixture
def theirs(planted, tmp_path):
    """Labelled files in which water vapour has a name that nobody knows."""
    renamed = planted.rename(TMQ="soup")
    renamed["soup"].attrs = {"units": "kg m-2"}
    renamed.to_netcdf(tmp_path / "theirs.nc")
    return tmp_path / "theirs.nc"


def test_statistics_of_a_variable_under_a_name_of_ones_own(run, theirs):
    def channels(*options):
        return {row["channel"] for row in json.loads(run("stats", theirs, "--json", *options).stdout)}

    assert channels("--names", "soup=TMQ") - channels() == {"TMQ"}


def test_a_map_of_a_variable_under_a_name_of_ones_own(run, theirs, tmp_path):
    xr.open_dataset(theirs)[["mask"]].rename(mask="classes").to_netcdf(tmp_path / "masks.nc")
    draw = ("map", theirs, "--channel", "TMQ", "--time", "0", "--out", tmp_path / "map.png")
    assert "TMQ" in run(*draw, code=1).stderr
    run(*draw, "--names", "soup=TMQ")
    first = (tmp_path / "map.png").read_bytes()
    run(*draw, "--mask", tmp_path / "masks.nc", "--names", "soup=TMQ", "classes=mask")
    assert (tmp_path / "map.png").read_bytes() == first


def test_a_training_on_a_variable_under_a_name_of_ones_own(run, theirs, cube, tmp_path, monkeypatch):
    monkeypatch.setattr("climlab_dl.parallel.memory.keep_freed", lambda: True)
    learn = ("train", theirs, "--folder", tmp_path / "run")
    steps = ("small-deeplab", "--steps", 1, "--batch-size", 1)
    assert "pass --names your_name=TMQ." in run(*learn, *steps, code=1).stderr
    run("train", theirs, "--names", "soup=TMQ", "--folder", tmp_path / "run", *steps)
    data = Run.from_json(RunFolder(tmp_path / "run").described()).data
    assert isinstance(data, ClimateArchive)
    assert data.names == {"soup": "TMQ"}
    assert "TMQ" in data.held_out_snapshots()
    words = ("train", cube, "--names", "a=b", "--folder", tmp_path / "other", "small-cosmoflow")
    assert "--names is for climate" in run(*words, code=2).stderr


def test_check_reports_on_volumes(run, records, tmp_path):
    assert "(128, 128, 128, 4) int16" in run("check", records).stdout
    (tmp_path / "half.tfrecord").write_bytes(records.read_bytes()[:100_000])
    report = json.loads(run("check", tmp_path, "--json", code=1).stdout)
    assert (report["ok"], report["lines"]) == (False, [])
    assert "half.tfrecord" in report["problems"][0]


@pytest.mark.parametrize("layout", ["hdf5", "zarr"])
def test_volumes_are_converted_and_known_again(run, tmp_path, layout):
    counts = np.arange(8**3 * 2, dtype=np.int16).reshape(8, 8, 8, 2)
    volume = volumes.Volume(counts=counts, source=tmp_path, unit=np.array([0.1, -0.2]))
    volumes.save(volume, tmp_path / "universes" / "one.h5")
    made = run("convert", tmp_path / "universes", "--layout", layout, "--out", tmp_path / "out").stdout.strip()
    np.testing.assert_array_equal(next(volumes.read(made)).counts, counts)
    assert "1 volume, 0 problems" in run("check", made).stdout
    assert "1 volume, 0 problems" in run("check", tmp_path / "out").stdout
    wrong = ("convert", tmp_path / "universes", "--out", tmp_path / "out.nc")
    assert "expected a folder, not --out" in run(*wrong, code=2).stderr
    wrong = ("convert", tmp_path / "universes", "--layout", "deepcam", "--out", tmp_path / "out")
    assert "expected zarr or hdf5" in run(*wrong, code=2).stderr


@pytest.fixture
def cube(tmp_path):
    """A file with one universe of four voxels a side."""
    counts = np.ones((4, 4, 4, 1), dtype=np.int16)
    return volumes.save(volumes.Volume(counts=counts, source=tmp_path), tmp_path / "a.h5")


@pytest.mark.parametrize("verb", [("check",), ("convert", "--out", "out")], ids=lambda verb: verb[0])
def test_variables_of_volumes_are_not_renamed(run, cube, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    name, *options = verb
    assert "--names is for climate" in run(name, cube, "--names", "a=b", *options, code=2).stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_file_does_not_hide_the_others(run, cube, tmp_path):
    for files in ((cube, tmp_path / "b.h5"), (tmp_path / "b.h5", cube)):
        said = run("check", *files, code=1).stdout
        assert "counts           (4, 4, 4, 1)" in said
        assert "1 volume, 1 problem" in said
        assert f"no volumes at {tmp_path / 'b.h5'}" in said


def test_a_stray_file_makes_no_climate_of_universes(run, cube, tmp_path):
    (tmp_path / "1_notes.h5").write_text("all boxes are 64 Mpc/h wide\n")
    (tmp_path / "2_empty.h5").touch()
    (tmp_path / "3_cut.h5").write_bytes(cube.read_bytes()[:1000])
    said = run("check", tmp_path, code=1).stdout
    assert "1 volume, 3 problems" in said
    assert "1_notes.h5 is none of HDF5, TFRecord and Zarr" in said


def test_a_stray_log_makes_no_climate_of_universes(run, cube, tmp_path):
    (tmp_path / "0_log.txt.gz").write_bytes(gzip.compress(b"step 1: all is well\n"))
    said = run("check", tmp_path, code=1).stdout
    assert "1 volume, 1 problem" in said
    assert "0_log.txt.gz is none of HDF5, TFRecord and Zarr" in said


def test_where_nothing_is_found_volumes_are_named_as_well(run, tmp_path):
    for name in ("arrays", "empty"):
        (tmp_path / name).mkdir()
    np.savez(tmp_path / "arrays" / "a.npz", a=np.ones(3))
    with h5py.File(tmp_path / "particles.h5", "w") as file:
        file["PartType1/Coordinates"] = np.ones((9, 3))
    for name in ("arrays", "empty", "particles.h5"):
        said = run("check", tmp_path / name, code=1).stderr
        assert "No file there can be read as a volume of the universe, either: HDF5 with a cube 'full' or 'x'" in said


@pytest.mark.parametrize(("name", "said"), [("mine", "There is no "), ("empty", "has no climate files")])
def test_a_source_that_is_not_there_is_said_before_the_ending(run, tmp_path, name, said):
    (tmp_path / "empty").mkdir()
    done = run("convert", tmp_path / name, "--out", tmp_path / "conv", code=1).stderr
    assert said in done
    assert "volume of the universe, either" in done
    assert "--out" not in done


@pytest.mark.parametrize("shape", [(4, 4, 4), (4, 4, 4, 2), (2, 4, 4, 4)], ids=str)
def test_a_cube_of_another_name_is_a_volume_to_rename(run, tmp_path, shape):
    with h5py.File(tmp_path / "own.h5", "w") as file:
        file["density"] = np.ones(shape)
    for said in (
        run("check", tmp_path / "own.h5", code=1).stdout,
        run("convert", tmp_path / "own.h5", "--out", tmp_path / "out", code=1).stderr,
    ):
        assert "no dataset 'full' or 'x' that is a cube (found: density); rename it" in said


def test_a_cubic_map_stays_a_map(run, tmp_path):
    axis = {"time": np.arange(4), "lat": np.linspace(-60, 60, 4), "lon": np.arange(0, 360, 90.0)}
    field = xr.DataArray(np.full((4, 4, 4), 20.0), axis, ("time", "lat", "lon"), attrs={"units": "kg m-2"})
    field.to_dataset(name="TMQ").to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    assert "full" not in run("convert", tmp_path / "a.nc", "--out", tmp_path / "out", code=2).stderr


@pytest.mark.parametrize(
    ("verb", "options", "taken"),
    [
        ("label", ("--out", "x.nc"), "check, convert and train take them"),
        ("events", (), "check, convert and train take them"),
        ("stats", (), "check, convert and train take them"),
        ("map", ("--out", "x.png"), "check, convert and train take them"),
        ("detect", ("--detector", "x.pt", "--out", "x.nc"), "climlab-dl infer takes them"),
        ("train", ("--folder", "x", "small-deeplab"), "a run that is called cosmoflow learns from them"),
    ],
)
def test_volumes_are_no_climate(run, records, verb, options, taken, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("climlab_dl.parallel.memory.keep_freed", lambda: True)
    said = run(verb, records, *options, code=1).stderr
    assert f"has volumes of the universe, no climate; {taken}" in said
    assert not (tmp_path / "x").exists()


def test_volumes_are_no_masks_to_draw(run, records, sample, tmp_path):
    said = run("map", sample, "--mask", records, "--out", tmp_path / "x.png", code=1).stderr
    assert "has volumes of the universe, no climate" in said


def test_climate_is_no_universe_to_learn_from(run, sample, tmp_path, monkeypatch):
    fields_file = min(sample.glob("*.nc"))
    monkeypatch.setattr("climlab_dl.parallel.memory.keep_freed", lambda: True)
    said = run("train", fields_file, "--folder", tmp_path / "run", "small-cosmoflow", code=1).stderr
    assert said == f"climlab-dl: {fields_file} is no volume of the universe, from which this run learns\n"


def test_layouts_of_volumes_are_not_for_climate(run, spoilt, tmp_path):
    said = run("convert", spoilt, "--layout", "hdf5", "--out", tmp_path / "x", code=2).stderr
    assert said == "climlab-dl: --layout hdf5 is for volumes; for climate expected cf, deepcam or climatenet\n"


def test_an_unwritable_place_is_named_before_storms_are_sought(run, planted, tmp_path):
    archive.save(planted, tmp_path / "a.nc")
    (tmp_path / "file").write_text("in the way")
    done = run("events", tmp_path / "a.nc", "--csv", tmp_path / "file" / "storms.csv", code=1)
    assert done.stdout == ""
    assert "storms.csv cannot be written" in done.stderr


def test_storms_are_rows_of_json_for_a_script(run, planted, tmp_path):
    archive.save(planted, tmp_path / "a.nc")
    rows = json.loads(run("events", tmp_path / "a.nc", "--json", "--csv", tmp_path / "storms.csv").stdout)
    assert {row["class"] for row in rows} == {"cyclone", "river"}
    assert rows[0]["time"] == "2001-08-01T00:00:00"
    assert len((tmp_path / "storms.csv").read_text().splitlines()) == len(rows) + 1


@pytest.mark.parametrize("options", [(), ("--mask-only",)], ids=["fields", "mask only"])
def test_labelling_has_a_bar_over_snapshots(run, planted, tmp_path, monkeypatch, options):
    bars = []

    class Kept(tqdm.tqdm):
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)
            bars.append(self)

    monkeypatch.setattr("tqdm.tqdm", Kept)
    archive.save(planted.drop_vars("mask"), tmp_path / "a.nc")
    done = run("label", tmp_path / "a.nc", *options, "--out", tmp_path / "b.nc")
    assert [(bar.desc, bar.n, bar.total) for bar in bars if bar.desc == "labelling"] == [("labelling", 3, 3)]
    assert done.stderr == ""  # it took no two seconds
    mask = archive.open(tmp_path / "b.nc").mask
    assert (mask == heuristics.label(planted)).all()


def test_storms_of_masks_that_lie_apart_are_described_by_the_fields(run, planted, tmp_path):
    archive.save(planted, tmp_path / "both.nc")
    for time in range(planted.sizes["time"]):
        one = planted.isel(time=[time])
        archive.save(one.drop_vars("mask"), tmp_path / f"fields/{time}.nc")
        archive.save(one[["mask"]], tmp_path / f"masks/{time}.nc")
    together = json.loads(run("events", tmp_path / "both.nc", "--json").stdout)
    done = run("events", tmp_path / "masks", "--fields", tmp_path / "fields/*.nc", "--json")
    apart = json.loads(done.stdout)
    assert apart == together
    assert done.stderr == ""
    done = run("events", tmp_path / "masks", "--json")
    assert not {"min_psl_hPa", "max_wind_m_s", "max_tmq_kg_m2", "saffir_simpson"} & set(json.loads(done.stdout)[0])
    assert "masks alone: the table has no pressure, wind," in done.stderr
    assert "--fields FILES" in done.stderr
    assert done.stderr.count("\n") == 1
    assert {"min_psl_hPa", "max_wind_m_s", "max_tmq_kg_m2", "saffir_simpson"} <= set(apart[0])
    planted[["mask"]].rename(mask="classes").to_netcdf(tmp_path / "classes.nc")
    planted.drop_vars("mask").rename(TMQ="soup").to_netcdf(tmp_path / "theirs.nc")
    named = ("--fields", tmp_path / "theirs.nc", "--names", "classes=mask", "soup=TMQ")
    assert json.loads(run("events", tmp_path / "classes.nc", *named, "--json").stdout) == together
    first = tmp_path / "fields/0.nc"
    assert "one of the inputs" in run("events", tmp_path / "masks", "--fields", first, "--csv", first, code=2).stderr
    assert "time" in run("events", tmp_path / "masks", "--fields", first, "--json", code=1).stderr


@pytest.mark.parametrize(("verb", "code"), [("check", 1), ("convert", 1), ("label", 1)])
def test_a_pipe_is_refused_instead_of_waited_for(run, tmp_path, verb, code):
    os.mkfifo(tmp_path / "pipe.nc")
    options = () if verb == "check" else ("--out", tmp_path / "out.nc")
    done = run(verb, tmp_path / "pipe.nc", *options, code=code)
    assert "pipe.nc is a pipe or a device" in done.stdout + done.stderr


@pytest.mark.parametrize("verb", ["convert", "label"])
def test_an_ending_that_is_no_archive_is_wrong_use_and_said_before_anything_is_read(run, tmp_path, verb):
    (tmp_path / "nothing.nc").touch()
    said = run(verb, tmp_path / "nothing.nc", "--out", tmp_path / "x.doc", code=2).stderr
    assert "x.doc ends in '.doc'; expected .nc or .zarr" in said
    assert ("--layout deepcam" in said) == (verb == "convert")
