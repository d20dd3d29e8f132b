"""Events as tables and outlines in files."""

import json
import re
from typing import Any

import pandas as pd
import pytest
from IPython.lib.pretty import pretty

from climlab_dl.climate import events

find: Any = events.find  # tables whose columns the type checker cannot know


@pytest.mark.parametrize("calendar", ["standard", "360_day"])
def test_a_csv_file_comes_back_as_the_table(weather, tmp_path, calendar):
    mask, fields = weather(calendar=calendar)
    table = find(mask, fields)
    path = events.to_csv(table, tmp_path / "events.csv")
    back: Any = pd.read_csv(path)
    assert back["time"].iloc[0] == "2001-02-26T00:00:00"
    numbers = table.select_dtypes("number").columns
    pd.testing.assert_frame_equal(back[numbers], table[numbers], check_dtype=False)
    exact = table.select_dtypes(float).columns
    pd.testing.assert_frame_equal(back[exact], table[exact], check_dtype=False, rtol=5e-9)
    assert [p.name for p in tmp_path.iterdir()] == ["events.csv"]
    # No number has more digits than it means, and none of the nine is lost.
    numerals = re.findall(r"(?<=,)-?([\d.]+)(?=[,\n])", path.read_text())
    assert max(len(one.replace(".", "").lstrip("0")) for one in numerals) <= 9


def test_the_north_atlantic_comes_back_from_a_csv_file_and_missing_numbers_stay_missing(tmp_path):
    times = pd.date_range("2005-08-28", periods=3, freq="6h")
    table = pd.DataFrame(
        {
            "track": [1, 1, 2],
            "class": ["cyclone", "cyclone", "river"],
            "time": times,
            "lat": [26.0, 27.0, 40.0],
            "lon": [272.0, 271.0, 210.0],
            "max_wind_m_s": [75.0, None, 12.0],
            "basin": ["NA", "NA", None],
        }
    )
    back: Any = events.read_tracks(events.to_csv(table, tmp_path / "tracks.csv"))
    assert back["basin"].fillna("none").tolist() == ["NA", "NA", "none"]
    assert back["max_wind_m_s"].isna().tolist() == [False, True, False]
    text = (tmp_path / "tracks.csv").read_text().replace(",,NA", ",NA,NA")  # a missing number as R writes it
    (tmp_path / "tracks.csv").write_text(text)
    assert events.read_tracks(tmp_path / "tracks.csv")["max_wind_m_s"].isna().tolist() == [False, True, False]


def test_a_summary_comes_back_from_a_csv_file_as_its_documentation_says(tmp_path):
    table = pd.DataFrame(
        {"track": [1, 2], "class": ["cyclone", "river"], "time": pd.date_range("2005-08-28", periods=2),
         "lat": [26.0, 40.0], "lon": [272.0, 210.0]}
    )  # fmt: skip
    events.summary(table).to_csv(tmp_path / "tracks.csv")
    back: Any = pd.read_csv(tmp_path / "tracks.csv", index_col="track", keep_default_na=False, na_values=[""])
    assert back["basin"].fillna("none").to_dict() == {1: "NA", 2: "none"}
    assert back["speed_km_h"].isna().all()


def test_geojson_has_a_feature_for_every_row_and_is_json(weather, tmp_path):
    mask, fields = weather()
    table = find(mask, fields)
    made = events.to_geojson(mask, tmp_path / "events.geojson", table=table)
    assert json.loads((tmp_path / "events.geojson").read_text()) == json.loads(json.dumps(made))
    assert [feature["id"] for feature in made["features"]] == table["event"].tolist()
    properties = made["features"][0]["properties"]
    assert properties["time"] == "2001-02-26T00:00:00"
    assert properties["merged_into"] is None or isinstance(properties["merged_into"], int)
    assert len(events.to_geojson(mask, table=table[table["class"] == "river"])["features"]) < len(table)


def test_a_cell_shows_how_many_outlines_there_are_and_not_their_corners(weather):
    mask, _ = weather()
    table = find(mask)
    counts = table["class"].value_counts()
    shown = f"FeatureCollection of {len(table)} features (cyclone {counts['cyclone']}, river {counts['river']})"
    assert pretty(events.to_geojson(mask, table=table)) == shown
    assert pretty(events.to_geojson(mask * 0)) == "FeatureCollection of 0 features"


def test_geojson_of_another_mask_is_refused(weather):
    mask, _ = weather()
    table = find(mask)
    with pytest.raises(ValueError, match="no time '2001-02-26T18"):
        events.to_geojson(mask[:3], table=table)
    with pytest.raises(ValueError, match="names region"):
        events.to_geojson(mask * 0, table=table)
