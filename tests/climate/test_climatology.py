# pandas' annotations do not tell a column from a table.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl import events

LAT, LON = np.arange(-87.5, 90, 5), np.arange(0.0, 360, 5)


def masks(times):
    return xr.DataArray(
        np.zeros((len(times), LAT.size, LON.size), np.int8),
        {"time": times, "lat": LAT, "lon": LON},
        ("time", "lat", "lon"),
    )


@pytest.mark.parametrize("calendar", ["standard", "noleap"])
def test_occurrence_is_the_share_of_a_months_snapshots(calendar):
    # From 30 January 12 UTC every 12 hours: 3 snapshots in January, 5 in February.
    times = xr.date_range(
        "2001-01-30T12:00", periods=8, freq="12h", calendar=calendar, use_cftime=calendar != "standard"
    )
    mask = masks(times)
    mask[0, 10, 20] = 2
    mask[:, 5, 7] = 1
    mask[6:, 5, 7] = 0
    found = events.occurrence(mask.isel(lat=slice(None, None, -1)))
    assert found["month"].values.tolist() == [1, 2]
    assert found["snapshots"].values.tolist() == [3, 5]
    assert found["lat"].values.tolist() == LAT[::-1].tolist()
    at = {"lat": LAT[5], "lon": LON[7]}
    assert found.sel({"class": "cyclone"} | at).values.tolist() == pytest.approx([1, 3 / 5])
    assert found.sel({"class": "river", "lat": LAT[10], "lon": LON[20]}).values.tolist() == pytest.approx([1 / 3, 0])
    assert found.sum().item() == pytest.approx(1 + 3 / 5 + 1 / 3)


def moving(times=6):
    """One cyclone is there from the start and moves east over the dateline; another comes later and stays."""
    mask = masks(pd.date_range("2001-08-31", periods=times, freq="6h"))
    for step in range(times):
        mask[step, 20, (33 + step) % 72] = 1
        if 2 <= step < times - 1:
            mask[step, 8, 50] = 1
    return events.find(mask, linking=events.Linking(max_speed_km_day=3000))


def test_a_track_counts_once_in_each_cell_that_it_passes():
    density = events.density(moving())
    # 15N: columns 165E to 190E, in August until 18 UTC (4 steps), then September.
    assert density.sel({"class": "cyclone", "month": 8, "lat": 12.5}).sum().item() == 4
    assert density.sel({"class": "cyclone", "month": 9, "lat": 12.5}).sum().item() == 2
    assert density.sel({"class": "cyclone", "lat": -47.5}).sum().item() == 2  # once a month
    assert density.sel(lat=12.5, lon=182.5).sum().item() == 1


def test_genesis_and_termination_leave_out_what_the_archive_cuts():
    genesis, termination = events.density(moving(), "genesis"), events.density(moving(), "termination")
    assert genesis.sum().item() == termination.sum().item() == 1
    assert genesis.sel({"class": "cyclone", "month": 8, "lat": -47.5, "lon": 252.5}).item() == 1
    assert termination.sel({"class": "cyclone", "month": 9, "lat": -47.5, "lon": 252.5}).item() == 1


def test_larger_cells_hold_all_that_smaller_ones_hold():
    table = moving()
    assert events.density(table, "genesis", cell_deg=10).sum() == events.density(table, "genesis", cell_deg=2.5).sum()


def test_poles_and_longitude_360_are_in_the_map():
    table = pd.DataFrame(
        {"track": [1, 2], "time": pd.to_datetime(["2001-01-01"] * 2), "lat": [90.0, -90.0], "lon": [360.0, -1e-9]}
    )
    density = events.density(table)
    assert density.sum().item() == 2
    assert density.sel({"class": "cyclone", "month": 1}).values[-1, 0] == 1


@pytest.mark.parametrize(("arguments", "message"), [({"cell_deg": 7}, "divide 180"), ({"of": "birth"}, "'genesis'")])
def test_wrong_choices_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        events.density(moving(), **arguments)


def test_a_summary_has_a_row_a_track():
    row = events.summary(moving()).iloc[0]
    assert (row["class"], row["steps"], row["hours"]) == ("cyclone", 6, 30)
    # Five steps of five degrees along 12.5N, over the dateline.
    step = 2 * 6371.0 * np.arcsin(np.cos(np.radians(12.5)) * np.sin(np.radians(2.5)))
    assert row["distance_km"] == pytest.approx(5 * step)
    assert row["speed_km_h"] == pytest.approx(step / 6)
    assert (row["start_lon"], row["end_lon"]) == pytest.approx((165, 190))


def test_a_cyclone_is_at_its_lowest_pressure_and_a_river_at_its_centroid():
    mask = masks(pd.date_range("2001-09-01", periods=1))
    mask[0, 20:23, 30:33] = 1
    mask[0, 5:8, 30:50] = 2
    psl = xr.full_like(mask, 101000, dtype=float)
    psl[0, 22, 30] = psl[0, 7, 49] = 98000
    rows = events.summary(events.find(mask, xr.Dataset({"PSL": psl}))).set_index("class")
    assert rows.loc["cyclone", ["start_lat", "start_lon"]].tolist() == [LAT[22], LON[30]]
    assert rows.loc["river", "start_lon"] == pytest.approx((LON[30] + LON[49]) / 2)


def test_accumulated_cyclone_energy_counts_storm_winds_every_six_hours():
    # 50, 60 and 30 knots at 0, 6 and 12 UTC and 100 knots at 9 UTC: 1e-4 (50^2 + 60^2) = 0.61.
    knots = np.array([50, 60, 100, 30])
    times = pd.to_datetime([f"2001-09-01T{hour:02d}:00" for hour in (0, 6, 9, 12)])
    table = pd.DataFrame({"track": 1, "time": times, "lat": 10.0, "lon": 300.0, "max_wind_m_s": knots * 1852 / 3600})
    row = events.summary(table).iloc[0]
    assert row["ace_1e4_kt2"] == pytest.approx(0.61)
    assert row["max_wind_m_s"] == pytest.approx(100 * 1852 / 3600)
    assert np.isnan(events.summary(table.assign(**{"class": "river"})).iloc[0]["ace_1e4_kt2"])


def test_a_climatology_needs_dates():
    undated = masks([1.0, 2.0])
    with pytest.raises(ValueError, match="needs dates"):
        events.occurrence(undated)
    table = events.find(masks(pd.date_range("2001", periods=2)) + 1).assign(time=["a", "b"])
    for of_table in (events.density, events.summary):
        with pytest.raises(ValueError, match=r"needs (dates|times)"):
            of_table(table)
