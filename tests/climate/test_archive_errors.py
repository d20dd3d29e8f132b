"""Wrong input ends in one message that names the file, says what was expected and what to do."""

import subprocess
import sys

import h5py
import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive


def snapshot(**changes) -> xr.Dataset:
    """One plausible snapshot on a small grid, with changes to it."""
    rng = np.random.default_rng(0)
    dims = ("time", "lat", "lon")
    variables = {
        "TMQ": (dims, 10 + 40 * rng.random((1, 6, 8)), {"units": "kg m-2"}),
        "PSL": (dims, 98000 + 5000 * rng.random((1, 6, 8)), {"units": "Pa"}),
        "PRECT": (dims, 1e-6 * rng.random((1, 6, 8)), {"units": "m/s"}),
    }
    coordinates = {
        "time": ("time", [np.datetime64("2001-01-01", "ns")]),
        "lat": ("lat", np.linspace(-75, 75, 6), {"units": "degrees_north"}),
        "lon": ("lon", np.arange(0, 360, 45.0), {"units": "degrees_east"}),
    }
    return xr.Dataset(variables, coordinates).assign(changes)


def scaled(name, factor, offset=0.0):
    """Snapshot with one field in another unit that its attribute does not confess."""
    plain = snapshot()
    return plain.assign({name: (plain[name] * factor + offset).assign_attrs(plain[name].attrs)})


def patched(name, value):
    """Snapshot with one pixel of a field replaced."""
    plain = snapshot()
    plain[name][0, 0, 0] = value
    return plain


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (scaled("PSL", 0.01), r"PSL reaches from 98\d\.\d+ to 102\d\.\d+, as numbers in hPa would; possible is 80000"),
        (scaled("PRECT", 1000), r"PRECT reaches .* as numbers in mm/s would"),
        (scaled("PRECT", 86400e3), r"PRECT reaches .* as numbers in mm/day would"),
        (patched("TMQ", -9999), r"TMQ reaches from -9999 .* an undeclared fill value -9999; possible is -1 to 150"),
        (patched("PSL", 1e20), r"PSL reaches .* an undeclared fill value 1e\+20"),
        (patched("TMQ", np.inf), "TMQ has infinite values"),
        (snapshot(TMQ=snapshot().TMQ * np.nan), "TMQ has no number at all"),
    ],
    ids=["hPa for Pa", "mm/s for m/s", "mm/day for m/s", "undeclared fill", "undeclared 1e20", "infinite", "all NaN"],
)
def test_a_field_that_cannot_be_is_refused_with_the_likely_mistake(tmp_path, wrong, message):
    wrong.to_netcdf(tmp_path / "wrong.nc", encoding={name: {"_FillValue": None} for name in wrong.data_vars})
    with pytest.raises(ValueError, match=rf"wrong\.nc: {message}.*names=\{{'their_name': None\}}"):
        archive.open(tmp_path)
    report = archive.check(tmp_path)
    assert not report.ok
    assert "wrong.nc" in str(report) or "no number" in str(report)


def test_every_wrong_field_is_in_the_one_message(tmp_path):
    wrong = scaled("PSL", 0.01)
    wrong.TMQ[0, 0, 0] = 1e20
    wrong.to_netcdf(tmp_path / "wrong.nc")
    with pytest.raises(ValueError, match=r"TMQ reaches .*; PSL reaches"):
        archive.open(tmp_path)


def test_a_first_snapshot_without_numbers_is_no_fault_when_the_last_has_some(tmp_path):
    # What accumulates since the last step is missing in the first.
    two = xr.concat([snapshot(), snapshot().assign_coords(time=[np.datetime64("2001-01-02", "ns")])], "time")
    two.PRECT[0] = np.nan
    two.to_netcdf(tmp_path / "a.nc")
    assert archive.open(tmp_path).sizes["time"] == 2


def test_a_missing_field_is_named_with_what_is_nearest(tmp_path):
    snapshot(tmq_total=snapshot().TMQ).drop_vars("TMQ").to_netcdf(tmp_path / "a.nc")
    fields = archive.open(tmp_path)
    with pytest.raises(ValueError, match=r"no field 'TMQ' .*tcwv.*names=\{'tmq_total': 'TMQ'\}"):
        archive.require(fields, ["PSL", "TMQ"])
    with pytest.raises(ValueError, match=r"no field 'VORT850'.*computed from U850 and V850"):
        archive.require(fields, ["VORT850"])
    assert archive.require(fields, ["PSL"]).identical(fields)


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT"])
@pytest.mark.parametrize("lost", [0.5, 0.01])
def test_a_truncated_file_is_named(tmp_path, kind, lost):
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


def test_a_file_that_is_truncated_after_opening_is_named_when_it_is_read(tmp_path):
    big = snapshot().isel(lat=np.repeat(range(6), 100)).assign_coords(lat=np.linspace(-75, 75, 600))
    big.lat.attrs["units"] = "degrees_north"
    big.to_netcdf(tmp_path / "a.nc")
    fields = archive.open(tmp_path)
    content = (tmp_path / "a.nc").read_bytes()
    (tmp_path / "a.nc").write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match=r"a\.nc cannot be read: it is truncated"):
        fields.compute(scheduler="synchronous")


def test_a_text_file_is_no_climate_file(tmp_path):
    (tmp_path / "a.nc").write_text("<html>404 not found</html>")
    with pytest.raises(OSError, match=r"a\.nc is none of NetCDF, HDF5, Zarr and GRIB .*failed download"):
        archive.open(tmp_path)


def test_a_locked_file_is_explained(tmp_path):
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


def test_snapshots_of_different_grids_are_refused(tmp_path):
    snapshot().to_netcdf(tmp_path / "a.nc")
    later = snapshot().isel(lon=slice(0, 8, 2)).assign_coords(time=[np.datetime64("2001-01-02", "ns")])
    later.to_netcdf(tmp_path / "b.nc")
    with pytest.raises(ValueError, match=r"different grids: .*a\.nc has 6 x 8 .*b\.nc has 6 x 4"):
        archive.open(tmp_path)


def test_times_of_different_calendars_are_refused(tmp_path):
    snapshot().to_netcdf(tmp_path / "a.nc")
    snapshot().convert_calendar("noleap").to_netcdf(tmp_path / "b.nc")
    with pytest.raises(ValueError, match=r"different calendars: .*a\.nc has standard, .*b\.nc has noleap"):
        archive.open(tmp_path)


def test_the_same_time_twice_is_refused(tmp_path):
    snapshot().to_netcdf(tmp_path / "a.nc")
    snapshot().to_netcdf(tmp_path / "b.nc")
    with pytest.raises(ValueError, match=r"Two snapshots of the same time 2001-01-01.*a\.nc and in .*b\.nc"):
        archive.open(tmp_path)


def test_the_same_time_twice_in_one_file_is_refused(tmp_path):
    xr.concat([snapshot(), snapshot()], "time").to_netcdf(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=r"a\.nc has the time 2001-01-01T00.* twice\. Drop one .*drop_duplicates"):
        archive.open(tmp_path)


def test_an_empty_time_axis_is_refused(tmp_path):
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


def test_one_row_or_one_column_is_no_map(tmp_path):
    for axis in ("lat", "lon"):
        snapshot().isel({axis: [2]}).to_netcdf(tmp_path / f"{axis}.nc")
        with pytest.raises(ValueError, match=rf"{axis}\.nc: l.*itude has the single value .*at least 2 x 2"):
            archive.open(tmp_path / f"{axis}.nc")


def test_files_with_and_without_a_field_are_refused(tmp_path):
    snapshot().to_netcdf(tmp_path / "a.nc")
    later = snapshot().drop_vars("PSL").assign_coords(time=[np.datetime64("2001-01-02", "ns")])
    later.to_netcdf(tmp_path / "b.nc")
    with pytest.raises(ValueError, match=r"only one of them has PSL\. Leave .*names=\{'PSL': None\}"):
        archive.open(tmp_path)
    assert archive.open(tmp_path, names={"PSL": None}).sizes["time"] == 2


def test_different_fields_at_different_times_are_refused(tmp_path):
    snapshot()[["TMQ"]].to_netcdf(tmp_path / "a.nc")
    later = snapshot()[["PSL"]].assign_coords(time=[np.datetime64("2001-01-02", "ns")])
    later.to_netcdf(tmp_path / "b.nc")
    with pytest.raises(ValueError, match=r"a\.nc has TMQ at 1 times 2001-01-01.*b\.nc has PSL at 1 times 2001-01-02"):
        archive.open(tmp_path)


def test_an_axis_that_turns_back_is_refused(tmp_path):
    snapshot().isel(lat=[0, 2, 1, 3, 4, 5]).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=r"a\.nc: latitude is not monotonic"):
        archive.open(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"), [(0.5, "not whole numbers"), (3, r"0\.\.3 are out of range"), (-2, "out of range")]
)
def test_labels_that_are_no_classes_are_refused(tmp_path, wrong, message):
    labels = np.zeros((6, 8), float if wrong == 0.5 else int)
    labels[2, 3] = wrong
    snapshot(LABELS=(("lat", "lon"), labels)).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=rf"a\.nc: labels.* {message}"):
        archive.open(tmp_path)
    assert "out of range" in str(archive.check(tmp_path)) or "not whole" in str(archive.check(tmp_path))
    assert "mask" not in archive.open(tmp_path, names={"LABELS": None})


def test_whole_numbers_as_floats_are_labels(tmp_path):
    labels = np.zeros((6, 8), np.float32)
    labels[2, 3] = 2
    snapshot(LABELS=(("lat", "lon"), labels)).to_netcdf(tmp_path / "a.nc")
    mask = archive.open(tmp_path).mask
    assert mask.dtype == np.int8
    assert mask.values.sum() == 2


def test_a_grid_without_coordinates_is_refused(tmp_path):
    snapshot().drop_vars(["lat", "lon"]).to_netcdf(tmp_path / "a.nc")
    with pytest.raises(ValueError, match=r"a\.nc has no latitude \(found variables .*degrees_north"):
        archive.open(tmp_path)


def test_nothing_known_in_a_file_is_said(shared):
    with pytest.raises(ValueError, match=r"no field that is known \(found air_temperature\).*names="):
        archive.open(shared / "climate" / "iris_A1B_north_america_360day.nc")
    with pytest.raises(ValueError, match=r"ibtracs.*latitude has shape .*curvilinear"):
        archive.open(shared / "climate" / "ibtracs_v04r00_2storms.nc")


@pytest.fixture
def spoilt_later(tmp_path):
    """Three days of which the last has an undeclared fill value, as CF files and as DeepCAM's."""
    dates = [np.datetime64(f"2001-01-0{day}", "ns") for day in (1, 2, 3)]
    days = [snapshot().assign_coords(time=[date]) for date in dates]
    days[2].PSL[0, 3, 3] = -9999
    for i, day in enumerate(days):
        day.to_netcdf(tmp_path / f"{i}.nc", encoding={name: {"_FillValue": None} for name in day.data_vars})
    return tmp_path


def test_what_cannot_be_is_refused_also_when_a_later_snapshot_is_read(spoilt_later):
    fields = archive.open(spoilt_later)
    assert fields.isel(time=slice(2)).compute().sizes["time"] == 2
    assert np.isfinite(fields.TMQ.compute()).all()
    message = r"2\.nc: at 2001-01-03T00:00:00 PSL reaches from -9999 .* fill value -9999; .*climlab-dl check lists"
    with pytest.raises(ValueError, match=message):
        fields.PSL.compute(scheduler="synchronous")
    # The file is known also where snapshots were put in another order.
    with pytest.raises(ValueError, match=message):
        fields.PSL.isel(time=[2, 0]).mean().compute()


@pytest.mark.parametrize("name", ["a.nc", "a.zarr", "a deepcam", "a climatenet"])
def test_nothing_is_written_of_an_archive_that_goes_wrong_later(spoilt_later, tmp_path_factory, name):
    out = tmp_path_factory.mktemp("out")
    fields = archive.open(spoilt_later)
    with pytest.raises(ValueError, match=r"2\.nc: at 2001-01-03T00:00:00 PSL"):
        archive.save(fields, out / name, layout=name.removeprefix("a ") if " " in name else "cf")
    assert not list(out.iterdir())


def test_channels_that_are_read_together_are_looked_at_one_by_one(tmp_path):
    rng = np.random.default_rng(0)
    for day in (1, 2):
        data = 10 + rng.random((12, 18, 16), dtype=np.float32)
        data[..., 6:8], data[..., 8:10], data[..., 10] = 1e5, 250, 1e-8
        data[..., 11:13], data[..., 14], data[..., 5] = 280, 11000, 0.01
        if day == 2:
            data[2, 3, 8] = 1e20
        with h5py.File(tmp_path / f"data-2001-01-0{day}-00-1.h5", "w") as file:
            file["climate/data"] = data
    fields = archive.open(tmp_path)
    assert float(fields.T200[0].max()) == 250
    with pytest.raises(ValueError, match=r"data-2001-01-02-00-1\.h5: at 2001-01-02T00:00:00 T200 reaches .* 1e\+20"):
        fields.TMQ[1].compute(scheduler="synchronous")
    without = archive.open(tmp_path, names={"T200": None})
    assert np.isfinite(without.TMQ.compute()).all()
