"""GRIB as ERA5 comes in, where cfgrib is installed; what to do where it is not."""

import sys

import numpy as np
import pytest

from climlab_dl import archive

SHAPE = (7, 8)


def write(path, messages):
    """Write GRIB-1 messages (short name, level or None, hour, values) on a 30 x 45 degree grid from the North Pole."""
    eccodes = pytest.importorskip("eccodes", reason="GRIB needs cfgrib (pip install 'climlab-dl[grib]')")
    with path.open("wb") as file:
        for name, level, hour, values in messages:
            handle = eccodes.codes_grib_new_from_samples(f"regular_ll_{'sfc' if level is None else 'pl'}_grib1")
            header = {
                "Ni": 8, "Nj": 7, "latitudeOfFirstGridPointInDegrees": 90, "latitudeOfLastGridPointInDegrees": -90,
                "longitudeOfFirstGridPointInDegrees": 0, "longitudeOfLastGridPointInDegrees": 315,
                "iDirectionIncrementInDegrees": 45, "jDirectionIncrementInDegrees": 30,
                "dataDate": 20200101, "dataTime": 100 * hour, "table2Version": 128, "centre": "ecmf", "shortName": name,
            }  # fmt: skip
            for key, value in header.items():
                eccodes.codes_set(handle, key, value)
            if level is not None:
                eccodes.codes_set(handle, "level", level)
            eccodes.codes_set_values(handle, values.ravel())
            eccodes.codes_write(handle, file)
            eccodes.codes_release(handle)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # cfgrib and eccodes, of their own making
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_fields_of_several_kinds_of_level_are_one_dataset(tmp_path):
    rng = np.random.default_rng(0)
    pressure = {hour: 98000 + 5000 * rng.random(SHAPE) for hour in (0, 6)}
    wind = {(hour, level): 20 * rng.random(SHAPE) for hour in (0, 6) for level in (850, 500)}
    messages = [("msl", None, hour, values) for hour, values in pressure.items()]
    messages += [("u", level, hour, values) for (hour, level), values in wind.items()]
    messages += [("z", 500, hour, np.full(SHAPE, 9.80665 * 5500)) for hour in (0, 6)]
    write(tmp_path / "era5.grib", messages)
    fields = archive.open(tmp_path / "era5.grib")
    assert list(fields) == ["U850", "PSL", "Z500"]
    assert fields.time.values.tolist() == [
        np.datetime64("2020-01-01T00", "ns").astype(int),
        np.datetime64("2020-01-01T06", "ns").astype(int),
    ]
    np.testing.assert_allclose(fields.PSL[1], pressure[6][::-1], atol=0.2)
    np.testing.assert_allclose(fields.U850[0], wind[0, 850][::-1], atol=1e-2)
    np.testing.assert_allclose(fields.Z500, 5500, rtol=1e-5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["era5.grib"]


def test_without_cfgrib_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cfgrib", None)
    (tmp_path / "era5.grib").write_bytes(b"GRIB" + bytes(100))
    with pytest.raises(OSError, match=r"era5\.grib is GRIB, which needs the package cfgrib: pip install"):
        archive.open(tmp_path)
