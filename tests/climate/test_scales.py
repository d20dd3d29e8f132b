import numpy as np
import pytest

from climlab_dl.climate.scales import RiverSpells, river_scale, saffir_simpson


def test_saffir_simpson_classes_begin_at_the_official_speeds():
    # National Hurricane Center: 63, 119, 154, 178, 209, 252 km/h are the official roundings of 34, 64, 83, 96, 113
    # and 137 knots; one knot below each bound is the class below.
    knots = np.array([33, 34, 63, 64, 82, 83, 95, 96, 112, 113, 136, 137])
    assert saffir_simpson(knots * 1852 / 3600).tolist() == [-1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]


def test_an_unknown_wind_is_no_hurricane():
    assert saffir_simpson(np.nan) == -1


@pytest.mark.parametrize(
    ("ivt", "ratings"),
    [
        # Ralph et al. 2019, fig. 4: rating for less than 24 h, 24 to 48 h, 48 h and more.
        (249, [0, 0, 0]),
        (250, [0, 1, 2]),
        (500, [1, 2, 3]),
        (750, [2, 3, 4]),
        (1000, [3, 4, 5]),
        (1250, [4, 5, 5]),
        (2000, [4, 5, 5]),
    ],
)
def test_river_scale_is_the_table_of_ralph_et_al(ivt, ratings):
    assert river_scale(ivt, [23, 24, 48]).tolist() == ratings


def test_a_river_rises_on_the_scale_while_it_stays():
    # Six-hourly: the 4th snapshot completes 24 h and lifts 600 kg/m/s from AR 1 to AR 2, the 8th to AR 3.
    spells = RiverSpells(max_gap_hours=24)
    river, ivt = np.array([[True, False]]), np.array([[600.0, 600.0]])
    rated = [spells.rate(6.0 * step, 6, river, ivt)[0].tolist() for step in range(9)]
    assert [here for here, _ in rated] == [1, 1, 1, 2, 2, 2, 2, 3, 3]
    assert {elsewhere for _, elsewhere in rated} == {0}


def test_a_spell_ends_where_the_transport_drops_or_the_archive_has_a_gap():
    spells = RiverSpells(max_gap_hours=24)
    river = np.array([[True]])
    strong, weak = np.array([[600.0]]), np.array([[249.0]])
    assert spells.rate(0, 12, river, strong) == 1
    assert spells.rate(12, 12, river, strong) == 2
    assert spells.rate(24, 12, river, weak) == 0
    assert spells.rate(36, 12, river, strong) == 1
    assert spells.rate(36 + 25, 12, river, strong) == 1


def test_uneven_steps_count_with_their_length():
    # The first snapshot stands for 6 hours; 6 + 12 + 12 = 30 hours lift 600 kg/m/s from AR 1 to AR 2 at the third.
    spells = RiverSpells(max_gap_hours=24)
    river, ivt = np.array([[True]]), np.array([[600.0]])
    assert [spells.rate(hours, 6, river, ivt).item() for hours in (0, 12, 24)] == [1, 1, 2]


@pytest.mark.parametrize("end", ["gap", "restart"])
def test_a_new_spell_forgets_how_strong_the_old_one_was(end):
    spells = RiverSpells(max_gap_hours=24)
    river = np.array([[True]])
    assert spells.rate(0, 24, river, np.array([[1300.0]])) == 5
    if end == "restart":
        spells.restart()
    assert spells.rate(25 if end == "gap" else 24, 24, river, np.array([[300.0]])) == 1


def test_the_strongest_hour_of_a_spell_counts():
    spells = RiverSpells(max_gap_hours=24)
    river = np.array([[True]])
    spells.rate(0, 24, river, np.array([[1300.0]]))
    assert spells.rate(24, 24, river, np.array([[300.0]])) == 5
