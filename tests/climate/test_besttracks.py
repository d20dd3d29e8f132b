# pandas' annotations do not tell a column from a table.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl import events

read_tracks = events.read_tracks

HURDAT2 = """\
AL092021,                IDA,      3,
20210829, 1200,  , HU, 28.5N,  89.6W, 130,  929,  120,
20210829, 1655, L, HU, 29.1N,  90.2W, 130,  931,  120,
20210829, 1800,  , HU, 29.2N,  90.4W, -99, -999,  120,
CP012000,             UPANA,      2,
20000720, 0600,  , TS, 14.2N, 179.6W,  40, 1000,    0,
20000720, 1200,  , TD, 14.0S, 179.4E,  30, 1002,    0,
"""

# Layout of the files at ncei.noaa.gov: names, units, one line for each time; blanks are missing, NA is a basin.
IBTRACS = """\
SID,SEASON,BASIN,NAME,ISO_TIME,NATURE,LAT,LON,WMO_WIND,WMO_PRES,TRACK_TYPE,USA_WIND,USA_PRES
 ,Year, , , , ,degrees_north,degrees_east,kts,mb, ,kts,mb
2000001N10179,2000,NA,ONE,2000-01-01 00:00:00,TS,10.0,179.4,50,990,main,64,985
2000001N10179,2000,NA,ONE,2000-01-01 06:00:00,TS,10.0,-179.6,50, ,main, ,
2000001N10179,2000,NA,ONE,2000-01-01 12:00:00,TS,10.0,181.4, , ,main, ,
2000001N10179,2000,NA,ONE,2000-01-01 12:00:00,TS,12.0,181.9, , ,spur, ,
"""


def test_hurdat2_gives_knots_as_metres_per_second_and_signed_degrees(tmp_path):
    path = tmp_path / "hurdat2.txt"
    path.write_text(HURDAT2)
    table = read_tracks(path)
    assert table["track"].tolist() == ["AL092021"] * 3 + ["CP012000"] * 2
    assert table["lat"].tolist() == [28.5, 29.1, 29.2, 14.2, -14.0]
    assert table["lon"].tolist() == pytest.approx([270.4, 269.8, 269.6, 180.4, 179.4])
    assert table["time"].iloc[1] == pd.Timestamp("2021-08-29T16:55")
    # 130 knots are 66.88 m/s, category 4 (113 to 136 knots); -99 and -999 are missing.
    assert table["max_wind_m_s"].tolist()[:2] == pytest.approx([66.88, 66.88], abs=0.01)
    assert table["saffir_simpson"].tolist() == [4, 4, pd.NA, 0, -1]
    assert table.loc[2, ["max_wind_m_s", "min_psl_hPa"]].isna().to_numpy().all()


def test_a_hurdat2_file_that_is_cut_off_is_refused(tmp_path):
    path = tmp_path / "hurdat2.txt"
    for broken in (
        HURDAT2.rsplit("\n", 2)[0],
        HURDAT2.replace("20210829, 1200,  , HU, 28.5N,  89.6W, 130,  929,  120,\n", ""),
    ):
        path.write_text(broken)
        with pytest.raises(ValueError, match="cut off"):
            read_tracks(path)


def test_ibtracs_longitudes_do_not_jump_at_the_dateline(tmp_path):
    # CLIMADA-project/climada_python PR#168, #367: longitudes of one track were 204.3 and then -155.7.
    path = tmp_path / "ibtracs.csv"
    path.write_text(IBTRACS)
    table = read_tracks(path)
    assert table["lon"].tolist() == pytest.approx([179.4, 180.4, 181.4])
    # Two steps of one degree at 10N, 109.5 km each, in 12 hours.
    row = events.summary(table).loc["2000001N10179"]
    assert row["distance_km"] == pytest.approx(2 * 111.195 * np.cos(np.radians(10)), rel=1e-3)
    assert row["speed_km_h"] == pytest.approx(row["distance_km"] / 12)


def test_ibtracs_prefers_one_minute_winds_and_leaves_out_spurs(tmp_path):
    path = tmp_path / "ibtracs.csv"
    path.write_text(IBTRACS)
    table = read_tracks(path)
    assert len(table) == 3
    assert (table["max_wind_m_s"] / (1852 / 3600)).tolist()[:2] == pytest.approx([64, 50])
    assert table["saffir_simpson"].tolist() == [1, 0, pd.NA]
    assert table["min_psl_hPa"].tolist()[0] == 985


def test_the_netcdf_and_csv_files_of_ibtracs_give_the_same_tracks(shared, tmp_path):
    path = shared / "climate/ibtracs_v04r00_2storms.nc"
    table = read_tracks(path)
    # Imogen (2021): named by Brisbane, 23.15 m/s = 45 knots, 994 hPa; the other storm reached 35 knots.
    assert table.groupby("name")["max_wind_m_s"].max().round(2).to_dict() == {"IMOGEN": 23.15, "NOT_NAMED": 18.01}
    assert table["min_psl_hPa"].min() == 994
    with xr.open_dataset(path, decode_times=False) as file:
        names = [
            "sid",
            "name",
            "track_type",
            "iso_time",
            "lat",
            "lon",
            "usa_wind",
            "usa_pres",
            "wmo_wind",
            "wmo_pres",
            "nature",
        ]
        columns = file[names].to_dataframe().reset_index(drop=True)
    columns = columns.map(lambda value: value.decode() if isinstance(value, bytes) else value)
    columns = columns[columns["iso_time"].str.strip() != ""].drop_duplicates()
    columns.columns = columns.columns.str.upper()
    units = pd.DataFrame([dict.fromkeys(columns, " ")])
    pd.concat([units, columns]).to_csv(tmp_path / "two.csv", index=False, na_rep=" ")
    again = read_tracks(tmp_path / "two.csv")
    pd.testing.assert_frame_equal(table, again, check_dtype=False, atol=1e-4)


def test_the_atlantic_seasons_of_2021_and_2022_are_read_whole(shared):
    table = read_tracks(shared / "climate/hurdat2_atlantic_2021_2022.txt")
    # 21 storms and 2 unnamed depressions in 2021, 14 and 2 in 2022... counted in the file: 37 headers.
    assert table["track"].nunique() == 37
    strongest = events.summary(table).set_index("name")["max_wind_m_s"] / (1852 / 3600)
    # Landfalling major hurricanes in the National Hurricane Center's reports: Ida 130 knots, Ian 140 knots.
    assert strongest["IDA"] == pytest.approx(130)
    assert strongest["IAN"] == pytest.approx(140)
