import numpy as np
import pytest

from climlab_dl import events


@pytest.mark.parametrize(
    ("storm", "lat", "lon", "basin"),
    [
        ("Ida, Louisiana", 29.1, -90.2, "NA"),
        ("Campeche", 19.0, -92.0, "NA"),
        ("off Nicaragua, Caribbean", 12.0, -83.0, "NA"),
        ("off Nicaragua, Pacific", 11.5, -87.5, "EP"),
        ("Jova", 17.5, 255.0, "EP"),
        ("Gulf of Tehuantepec", 15.0, -95.0, "EP"),
        ("east of the dateline", 20.0, -179.9, "EP"),
        ("west of the dateline", 20.0, 179.9, "WP"),
        ("Bay of Bengal", 15.0, 88.0, "NI"),
        ("Mauritius", -20.0, 57.5, "SI"),
        ("Fiji", -17.0, 178.0, "SP"),
        ("Tahiti", -17.0, 210.0, "SP"),
        ("Catarina 2004, Brazil", -28.0, -48.0, "SA"),
    ],
)
def test_known_places_are_in_their_basins(storm, lat, lon, basin):
    assert events.basin(lat, lon) == basin, storm


def test_the_atlantic_best_tracks_are_in_the_atlantic_until_they_cross_central_america(shared):
    table = events.read_tracks(shared / "climate/hurdat2_atlantic_2021_2022.txt")
    outside = table[events.basin(table["lat"], table["lon"]) != "NA"]
    # Bonnie and Julia of 2022 went over Nicaragua and on to the Pacific; no other did.
    assert set(outside["name"]) == {"BONNIE", "JULIA"}


def test_the_basin_of_a_track_is_that_of_its_beginning(shared):
    table = events.read_tracks(shared / "climate/ibtracs_v04r00_2storms.nc")
    # IBTrACS itself says SP for Imogen (from 136.4E) and SI for the storm at 101E.
    assert events.summary(table).set_index("name")["basin"].to_dict() == {"IMOGEN": "SP", "NOT_NAMED": "SI"}


def test_every_place_has_a_basin():
    lat, lon = np.meshgrid(np.arange(-60, 61, 5), np.arange(-180, 361, 5))
    assert set(np.unique(events.basin(lat, lon))) == {"NA", "EP", "WP", "NI", "SI", "SP", "SA"}
