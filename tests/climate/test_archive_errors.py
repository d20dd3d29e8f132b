"""Wrong input ends in one message that names the file, says what was expected and what to do."""

import subprocess
import sys

import h5py
import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive, synthetic
from climlab_dl.climate.straight import Straight


def test_a_missing_field_is_named_with_what_is_nearest(snapshot, tmp_path):
    snapshot(tmq_total=snapshot().TMQ).drop_vars("TMQ").to_netcdf(tmp_path / "a.nc")
    fields = archive.open(tmp_path)
    with pytest.raises(ValueError, match=r"no field 'TMQ' .*tcwv.*names=\{'tmq_total': 'TMQ'\}"):
        archive.require(fields, ["PSL", "TMQ"])
    with pytest.raises(ValueError, match=r"no field 'VORT850'.*computed from U850 and V850"):
        archive.require(fields, ["VORT850"])
    assert archive.require(fields, ["PSL"]).identical(fields)


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT"])
@pytest.mark.parametrize("lost", [0.5, 0.01])
def test_a_truncated_file_is_named(snapshot, tmp_path, kind, lost):
    for day in (1, 2, 3):
        big = snapshot().isel(lat=np.repeat(range(6), 20)).assign_coords(lat=np.linspace(-75, 75, 120))
        big = big.assign_coords(time=[np.datetime64(f"2001-01-0{day}", "ns")])
        big.lat.attrs["units"] = "degrees_north"
        big.to_netcdf(tmp_path / f"{day}.nc", format=kind, engine="netcdf4")
    whole = (tmp_path / "2.nc").read_bytes()
    (tmp_path / "2.nc").write_bytes(whole[: int(len(whole) * (1 - lost))])
    with pytest.raises(OSError, match=r"2\.nc cannot be read: it is truncated or damaged, [\d,]+ bytes long"):
        archive.open(tmp_path)
    # A check goes on with the others.
    report = archive.check(tmp_path)
    assert (report.ok, report.snapshots, report.files) == (False, 2, 2)
    assert "2.nc cannot be read" in str(report)


def test_a_truncated_hdf5_file_is_named(tmp_path):
    with h5py.File(tmp_path / "data-2001-01-01-00-1.h5", "w") as file:
        file["climate/data"] = np.ones((12, 18, 16), np.float32)
    whole = (tmp_path / "data-2001-01-01-00-1.h5").read_bytes()
    (tmp_path / "data-2001-01-01-00-1.h5").write_bytes(whole[:-2000])
    with pytest.raises(OSError, match=r"data-2001-01-01-00-1\.h5 cannot be read: it is truncated"):
        archive.open(tmp_path)


def test_a_file_that_is_truncated_after_opening_is_named_when_it_is_read(snapshot, tmp_path):
    big = snapshot().isel(lat=np.repeat(range(6), 100)).assign_coords(lat=np.linspace(-75, 75, 600))
    big.lat.attrs["units"] = "degrees_north"
    big.to_netcdf(tmp_path / "a.nc")
    fields = archive.open(tmp_path)
    content = (tmp_path / "a.nc").read_bytes()
    (tmp_path / "a.nc").write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match=r"a\.nc was replaced or changed since it was opened"):
        fields.compute(scheduler="synchronous")


def north_first(fields: xr.Dataset) -> xr.Dataset:
    return fields.isel(lat=slice(None, None, -1))


def coarser(fields: xr.Dataset) -> xr.Dataset:
    return fields.isel(lon=slice(None, None, 2))


def with_more_fields(fields: xr.Dataset) -> xr.Dataset:
    return fields.assign({f"more_{number}": fields.TMQ for number in range(3)})


@pytest.mark.parametrize("change", [north_first, with_more_fields, coarser])
@pytest.mark.parametrize(
    ("ending", "layout"), [("a.nc", "cf"), ("a.zarr", "cf"), ("a", "deepcam"), ("a", "climatenet"), ("old.nc", "")]
)
def test_a_file_that_another_took_the_place_of_is_named_when_it_is_read(tmp_path, ending, layout, change):
    path, fields = tmp_path / ending, synthetic.atmosphere(times=2, shape=(20, 36), seed=4)

    def put(fields: xr.Dataset) -> None:
        if layout:
            archive.save(fields, path, layout=layout)
        else:
            fields.drop_encoding().to_netcdf(path, format="NETCDF3_64BIT")

    put(fields)
    opened = archive.open(path)
    straight = Straight.of(opened, ("TMQ", "PSL"))
    assert straight is not None
    put(change(fields))
    said = rf"{path}.* was replaced or changed since it was opened .*; open the archive again\."
    with pytest.raises(OSError, match=said):
        opened.TMQ.isel(time=1).load(scheduler="synchronous")
    with pytest.raises(OSError, match=said):
        straight.read(1, np.empty((2, 20, 36), np.float32))
    again = archive.open(path)
    np.testing.assert_allclose(again.TMQ, change(fields).sortby("lat").TMQ, rtol=1e-6)


@pytest.mark.parametrize("ending", ["a.nc", "a.zarr"])
def test_a_file_that_was_deleted_is_said_to_be_deleted(snapshot, tmp_path, ending):
    path = archive.save(snapshot().astype(np.float32), tmp_path / ending)
    opened = archive.open(path)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=rf"{path} was deleted since it was opened; put it back"):
        opened.load(scheduler="synchronous")
    (tmp_path / "elsewhere").rename(path)
    assert opened.TMQ.load(scheduler="synchronous").notnull().all()


def test_a_snapshot_without_a_time_is_named_with_its_file(snapshot, tmp_path):
    fields = xr.concat([snapshot(), snapshot()], "time", data_vars="minimal")
    for calendar in ("standard", "noleap"):
        times = ("time", [0.0, np.nan], {"units": "days since 2001-01-01", "calendar": calendar})
        fields.drop_vars("time").assign_coords(time=times).to_netcdf(tmp_path / "a.nc")
        with pytest.raises(ValueError, match=r"a\.nc has no time for its snapshot number 1 .*but a missing value"):
            archive.open(tmp_path / "a.nc")
        assert "has no time for its snapshot number 1" in str(archive.check(tmp_path / "a.nc"))


def test_a_text_file_is_no_climate_file(tmp_path):
    (tmp_path / "a.nc").write_text("<html>404 not found</html>")
    np.savez(tmp_path / "a.npz", TMQ=np.ones((2, 3)))
    with pytest.raises(OSError, match=r"a\.npz is none of .*NumPy's arrays\? .*to_netcdf"):
        archive.open(tmp_path / "a.npz")
    with pytest.raises(OSError, match=r"a\.nc is none of NetCDF, HDF5, Zarr and GRIB .*failed download"):
        archive.open(tmp_path)


def test_a_locked_file_is_explained(snapshot, tmp_path):
    # pydata/xarray#2376 (errno 11): needed on file systems without locks, as TECA says of NERSC's.
    snapshot().to_netcdf(tmp_path / "a.nc")
    program = "import netCDF4, sys; f = netCDF4.Dataset(sys.argv[1], 'a'); print('open', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(tmp_path / "a.nc")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(OSError, match=r"a\.nc is damaged or locked .*HDF5_USE_FILE_LOCKING=FALSE"):
            archive.open(tmp_path)
        writer.communicate()
    assert archive.open(tmp_path).sizes["time"] == 1


def test_an_empty_time_axis_is_refused(snapshot, tmp_path):
    snapshot().isel(time=slice(0)).to_netcdf(tmp_path / "empty.nc", unlimited_dims=["time"])
    with h5py.File(tmp_path / "climo_1979.h5", "w") as file:
        file["images"] = np.ones((0, 16, 12, 18), np.float32)
    for name in ("empty.nc", "climo_1979.h5"):
        with pytest.raises(ValueError, match=rf"{name} has no snapshot: its time axis has length 0"):
            archive.open(tmp_path / name)
        assert len(archive.check(tmp_path / name).problems) == 1
    snapshot().to_netcdf(tmp_path / "full.nc")
    report = archive.check(tmp_path)
    assert (report.ok, report.snapshots) == (False, 1)


def test_one_row_or_one_column_is_no_map(snapshot, tmp_path):
    for axis in ("lat", "lon"):
        snapshot().isel({axis: [2]}).to_netcdf(tmp_path / f"{axis}.nc")
        with pytest.raises(ValueError, match=rf"{axis}\.nc: l.*itude has the single value .*at least 2 x 2"):
            archive.open(tmp_path / f"{axis}.nc")


def test_an_axis_that_turns_back_is_refused(snapshot, tmp_path):
    snapshot().isel(lat=[0, 2, 1, 3, 4, 5]).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=r"a\.nc: latitude is not monotonic"):
        archive.open(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"), [(0.5, "not whole numbers"), (3, r"0\.\.3 are out of range"), (-2, "out of range")]
)
def test_labels_that_are_no_classes_are_refused(snapshot, tmp_path, wrong, message):
    labels = np.zeros((6, 8), float if wrong == 0.5 else int)
    labels[2, 3] = wrong
    snapshot(LABELS=(("lat", "lon"), labels)).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=rf"a\.nc: labels.* {message}"):
        archive.open(tmp_path)
    assert "out of range" in str(archive.check(tmp_path)) or "not whole" in str(archive.check(tmp_path))
    assert "mask" not in archive.open(tmp_path, names={"LABELS": None})


def test_whole_numbers_as_floats_are_labels(snapshot, tmp_path):
    labels = np.zeros((6, 8), np.float32)
    labels[2, 3] = 2
    snapshot(LABELS=(("lat", "lon"), labels)).to_netcdf(tmp_path / "a.nc")
    mask = archive.open(tmp_path).mask
    assert mask.dtype == np.int8
    assert mask.values.sum() == 2


def test_a_grid_without_coordinates_is_refused(snapshot, tmp_path):
    snapshot().drop_vars(["lat", "lon"]).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=r"a\.nc has no latitude \(found variables .*degrees_north"):
        archive.open(tmp_path)


@pytest.mark.parametrize("look", [archive.open, archive.check, archive.paths])
def test_what_xarray_has_opened_already_is_not_taken_for_files(snapshot, look):
    opened = snapshot()
    with pytest.raises(TypeError, match=r"xarray Dataset was given, but files are expected.*to_netcdf.*as they are"):
        look(opened)
    with pytest.raises(TypeError, match="xarray DataArray was given"):
        look([opened.TMQ])


def test_nothing_known_in_a_file_is_said(shared):
    with pytest.raises(ValueError, match=r"no field that is known \(found air_temperature\).*names="):
        archive.open(shared / "climate" / "iris_A1B_north_america_360day.nc")
    with pytest.raises(ValueError, match=r"ibtracs.*latitude has shape .*curvilinear"):
        archive.open(shared / "climate" / "ibtracs_v04r00_2storms.nc")
