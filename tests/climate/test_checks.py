"""What cannot be is refused with the likely mistake: in the first snapshot, and in each when it is read."""

import h5py
import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive


def scaled(name, factor, offset=0.0):
    """Put one field in another unit, which its attribute does not confess."""
    return lambda plain: plain.assign({name: (plain[name] * factor + offset).assign_attrs(plain[name].attrs)})


def patched(name, value):
    """Replace one pixel of a field."""

    def spoil(plain):
        plain[name][0, 0, 0] = value
        return plain

    return spoil


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (scaled("PSL", 0.01), r"PSL reaches from 98\d\.\d+ to 102\d\.\d+, as numbers in hPa would; possible is 80000"),
        (scaled("PRECT", 1000), r"PRECT reaches .* as numbers in mm/s would"),
        (scaled("PRECT", 86400e3), r"PRECT reaches .* as numbers in mm/day would"),
        (patched("TMQ", -9999), r"TMQ reaches from -9999 .* an undeclared fill value -9999; possible is -1 to 150"),
        (patched("PSL", 1e20), r"PSL reaches .* an undeclared fill value 1e\+20"),
        (patched("TMQ", np.inf), "TMQ has infinite values"),
        (scaled("TMQ", np.nan), "TMQ has no number at all"),
    ],
    ids=["hPa for Pa", "mm/s for m/s", "mm/day for m/s", "undeclared fill", "undeclared 1e20", "infinite", "all NaN"],
)
def test_a_field_that_cannot_be_is_refused_with_the_likely_mistake(snapshot, tmp_path, wrong, message):
    spoilt = wrong(snapshot())
    spoilt.to_netcdf(tmp_path / "wrong.nc", encoding={name: {"_FillValue": None} for name in spoilt.data_vars})
    with pytest.raises(ValueError, match=rf"wrong\.nc: {message}.*names=\{{'NAME': None\}}"):
        archive.open(tmp_path)
    report = archive.check(tmp_path)
    assert not report.ok
    assert "wrong.nc" in str(report) or "no number" in str(report)


def test_every_wrong_field_is_in_the_one_message(snapshot, tmp_path):
    wrong = scaled("PSL", 0.01)(snapshot())
    wrong.TMQ[0, 0, 0] = 1e20
    wrong.to_netcdf(tmp_path / "wrong.nc")
    with pytest.raises(ValueError, match=r"TMQ reaches .*; PSL reaches"):
        archive.open(tmp_path)


def test_a_first_snapshot_without_numbers_is_no_fault_when_the_last_has_some(snapshot, tmp_path):
    # What accumulates since the last step is missing in the first.
    two = xr.concat([snapshot(), snapshot().assign_coords(time=[np.datetime64("2001-01-02", "ns")])], "time")
    two.PRECT[0] = np.nan
    two.to_netcdf(tmp_path / "a.nc")
    assert archive.open(tmp_path).sizes["time"] == 2


@pytest.fixture
def spoilt_later(snapshot, tmp_path):
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
