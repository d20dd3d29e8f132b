# pandas' annotations do not tell a column from a table.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false

import netCDF4
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl import events

LAT, LON = np.arange(-88.0, 90, 4), np.arange(0.0, 360, 4)


def storms(calendar="standard"):
    """A cyclone that goes west over longitude 0 for three steps, and a river of one step, with their fields."""
    times = xr.date_range(
        "2001-02-28T12:00", periods=3, freq="6h", calendar=calendar, use_cftime=calendar != "standard"
    )
    coords = {"time": times, "lat": LAT, "lon": LON}
    mask = xr.DataArray(np.zeros((3, LAT.size, LON.size), np.int8), coords, ("time", "lat", "lon"))
    psl = xr.full_like(mask, 101000, dtype=float)
    for step, column in enumerate((1, 0, -1)):
        mask[step, 26:29, [column - 1, column, column + 1]] = 1
        psl[step, 27, column] = 98000 - 100 * step
    mask[1, 10, 20:30] = 2
    return mask, xr.Dataset({"PSL": psl, "UBOT": psl * 0 + 30, "VBOT": psl * 0 + 40})


@pytest.mark.parametrize("calendar", ["standard", "360_day", "noleap"])
def test_cf_trajectories_come_back_as_the_table(tmp_path, calendar):
    table = events.find(*storms(calendar))
    path = events.to_netcdf(table, tmp_path / "tracks.nc")
    back = events.read_tracks(path)
    expected = table.sort_values(["track", "event"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(back[expected.columns.tolist()], expected)


def test_text_of_a_table_comes_back_from_cf_trajectories(tmp_path):
    table = events.find(*storms())
    table["basin"] = events.basin(table["lat"], table["lon"])
    table["name"] = pd.Series(["Ágnes", None, "", "two words"], dtype="str")
    table["unnamed"] = pd.Series([None] * len(table), dtype="str")
    table["rule"] = pd.Categorical(["kurth", "teca", "kurth", "kurth"])
    path = events.to_netcdf(table, tmp_path / "tracks.nc")
    back = events.read_tracks(path)
    expected = table.sort_values(["track", "event"]).reset_index(drop=True)
    expected["name"] = expected["name"].mask(expected["name"] == "")  # no text is a text that is missing
    expected["rule"] = expected["rule"].astype("str")
    pd.testing.assert_frame_equal(back[expected.columns.tolist()], expected)
    assert {"NA", "SA"} & set(back["basin"])
    with netCDF4.Dataset(path) as file:
        assert file["basin"].dtype is str
        assert "units" not in file["basin"].ncattrs()


def test_cf_trajectories_are_a_contiguous_ragged_array(tmp_path):
    # CF-1.11, example H.12: rowSize with sample_dimension, a variable with cf_role trajectory_id, coordinates.
    path = events.to_netcdf(events.find(*storms()), tmp_path / "tracks.nc")
    with xr.open_dataset(path) as file:
        assert file.attrs["featureType"] == "trajectory"
        assert file["rowSize"].attrs["sample_dimension"] == "obs"
        assert file["rowSize"].values.tolist() == [3, 1]
        assert file["track"].attrs["cf_role"] == "trajectory_id"
        assert {"time", "lat", "lon"} <= set(file.coords)
        assert file["class"].attrs["flag_meanings"] == "cyclone river"
        units = {
            name: variable.attrs["units"] for name, variable in file.data_vars.items() if "units" in variable.attrs
        }
    expected = {
        "area_km2": "km2",
        "length_km": "km",
        "min_psl_hPa": "hPa",
        "max_wind_m_s": "m s-1",
        "psl_lon": "degrees_east",
    }
    assert {name: units[name] for name in expected} == expected


def test_tempest_text_has_a_block_for_each_track(tmp_path):
    mask, fields = storms()
    path = events.to_tempest(events.find(mask, fields), tmp_path / "tracks.txt", mask)
    lines = path.read_text().splitlines()
    assert lines[0].split() == ["start", "3", "2001", "2", "28", "12"]
    # Column 1, row 27 of the grid: 4E 20N; 980 hPa; hypot(30, 40) = 50 m/s.
    assert lines[1].split() == [
        "1",
        "27",
        "4.000000",
        "20.000000",
        "9.800000e+04",
        "5.000000e+01",
        "2001",
        "2",
        "28",
        "12",
    ]
    assert lines[3].split()[0] == "89"
    back = events.read_tracks(path, variables=["slp", "wind10"])
    assert back.groupby("track").size().tolist() == [3, 1]
    assert back["lon"].tolist()[:3] == [4, 0, 356]
    assert back["min_psl_hPa"].tolist()[:3] == pytest.approx([980, 979, 978])


def test_indices_of_a_tempest_file_are_those_of_the_users_grid(tmp_path):
    mask, fields = storms()
    turned = mask[:, ::-1].roll(lon=5, roll_coords=True)
    path = events.to_tempest(events.find(turned, fields), tmp_path / "tracks.txt", turned)
    i, j = map(int, path.read_text().splitlines()[1].split()[:2])
    assert (turned["lon"][i].item(), turned["lat"][j].item()) == (4, 20)


def test_teca_table_has_the_columns_and_units_of_tc_trajectory(tmp_path):
    path = events.to_teca(events.find(*storms()), tmp_path / "tracks.csv")
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# teca_table v1")
    assert lines[2:4] == ['# calendar = "standard"', '# time_units = "days since 2001-02-28 00:00:00"']
    assert lines[4].startswith('"track_id(3)", "storm_id(3)", "step(7)", "time(12)", "lon(12)"')
    rows = [line.split(", ") for line in lines[5:]]
    assert len(rows) == 3  # the river is left out
    assert [row[3] for row in rows] == ["0.5", "0.75", "1.0"]
    # 12 hours, all with 50 m/s; 980 hPa; 4 degrees at 20N are 418 km in 6 hours, 1672 km a day.
    assert rows[1][6:11] == ["0.5", "0.5", "50.0", "nan", "97900.0"]
    assert float(rows[1][-1]) == pytest.approx(4 * 4 * 111.195 * np.cos(np.radians(20)), rel=1e-3)


def test_the_wind_duration_of_a_teca_table_counts_storm_winds_only(tmp_path):
    mask, fields = storms()
    fields["UBOT"][0] = fields["VBOT"][0] = 10.0  # 14 m/s for the first 6 of 12 hours; 34 knots are 17.5 m/s
    lines = events.to_teca(events.find(mask, fields), tmp_path / "tracks.csv").read_text().splitlines()
    assert [line.split(", ")[6:8] for line in lines[5:]] == [["0.5", "0.25"]] * 3


def test_a_track_file_that_is_open_can_be_written_again(tmp_path):
    # pydata/xarray#10679, #2376: overwriting a file that a notebook had open corrupted it.
    mask, fields = storms()
    path = events.to_netcdf(events.find(mask, fields), tmp_path / "tracks.nc")
    with xr.open_dataset(path) as old:
        events.to_netcdf(events.find(mask * (mask == 1), fields), path)
        assert old["rowSize"].values.tolist() == [3, 1]
    assert len(events.read_tracks(path)) == 3
    assert [p.name for p in tmp_path.iterdir()] == ["tracks.nc"]


@pytest.mark.parametrize("calendar", ["standard", "360_day"])
def test_a_teca_table_is_read_back(tmp_path, calendar):
    table = events.find(*storms(calendar))
    back = events.read_tracks(events.to_teca(table, tmp_path / "tracks.csv"))
    cyclone = table[table["class"] == "cyclone"].reset_index(drop=True)
    assert back["time"].tolist() == cyclone["time"].tolist()
    assert back["lon"].tolist() == cyclone["psl_lon"].tolist()
    assert events.match(back, back)["outcome"].tolist() == ["hit"]


def test_tracks_of_tempest_extremes_are_read(shared):
    table = events.read_tracks(shared / "climate/huracanpy_TempestExtremes-sample.txt", variables=["slp", "wind10"])
    # 8 tracks, the first of 33 points from 1999-09-10 00 UTC at 302.5E 18N; counted in the file.
    assert table["track"].nunique() == 8
    assert (table["track"] == 1).sum() == 33
    first = table.iloc[0]
    assert (first["time"], first["lon"], first["lat"]) == (pd.Timestamp("1999-09-10"), 302.5, 18)
    assert first["min_psl_hPa"] == pytest.approx(1003.906)
    unnamed = events.read_tracks(shared / "climate/huracanpy_TempestExtremes-sample.txt")
    assert {"value_1", "value_2"} < set(unnamed.columns)


def test_a_table_of_huracanpy_is_read(shared):
    table = events.read_tracks(shared / "climate/huracanpy_ERA5_1996_UZ.csv")
    assert table["track"].nunique() == 89
    assert table["min_psl_hPa"].between(850, 1050).to_numpy().all()
    assert table.columns[:4].tolist() == ["track", "time", "lat", "lon"]


def test_an_unstructured_tempest_file_has_one_index(tmp_path):
    path = tmp_path / "tracks.txt"
    path.write_text("start\t1\t2001\t1\t1\t0\n\t4711\t10.5\t20.5\t1.0e5\t2001\t1\t1\t0\n")
    table = events.read_tracks(path, variables=["slp"])
    assert table.loc[0, ["i", "lon", "lat", "min_psl_hPa"]].tolist() == [4711, 10.5, 20.5, 1000]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start\t2\t2001\t1\t1\t0\n\t1\t2\t10.5\t20.5\t1.0e5\t2001\t1\t1\t0\n", "expected 'start'"),
        ("storm,when\n1,2\n", "no column lat, lon, time, track"),
    ],
)
def test_files_that_are_no_tracks_are_refused(tmp_path, text, message):
    path = tmp_path / "tracks.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        events.read_tracks(path)


def test_wrong_names_for_tempest_values_are_refused(shared):
    with pytest.raises(ValueError, match="2 values between position and date"):
        events.read_tracks(shared / "climate/huracanpy_TempestExtremes-sample.txt", variables=["slp"])


def test_a_netcdf_file_without_tracks_is_refused(tmp_path):
    storms()[1].to_netcdf(tmp_path / "fields.nc", engine="netcdf4")
    with pytest.raises(ValueError, match=r"neither IBTrACS .* nor CF trajectories"):
        events.read_tracks(tmp_path / "fields.nc")


def test_tracks_need_times_and_tempest_needs_fields(tmp_path):
    mask, fields = storms()
    undated = events.find(mask[0].drop_vars("time"), fields.isel(time=0, drop=True))
    for write in (events.to_netcdf, events.to_teca):
        with pytest.raises(ValueError, match="need times"):
            write(undated, tmp_path / "tracks")
    with pytest.raises(ValueError, match=r"no .*min_psl_hPa"):
        events.to_tempest(events.find(mask), tmp_path / "tracks.txt", mask)
    assert list(tmp_path.iterdir()) == []
