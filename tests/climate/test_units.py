"""Units in the spellings of files, to SI."""

import pytest

from climlab_dl.climate.units import SAME, conversion


@pytest.mark.parametrize(
    ("unit", "wanted", "scale"),
    [
        ("Pa", "Pa", 1), ("hPa", "Pa", 100), ("mb", "Pa", 100), ("millibars", "Pa", 100), ("kPa", "Pa", 1000),
        ("m s**-1", "m s-1", 1), ("m/s", "m s-1", 1), ("knots", "m s-1", 1852 / 3600), ("km/h", "m s-1", 1 / 3.6),
        ("kg kg**-1", "kg kg-1", 1), ("1", "kg kg-1", 1), ("g/kg", "kg kg-1", 1e-3),
        ("kg/m^2", "kg m-2", 1), ("kg m**-2", "kg m-2", 1), ("mm", "kg m-2", 1), ("cm", "kg m-2", 10),
        ("gpm", "m", 1), ("dam", "m", 10), ("m**2 s**-2", "m", 1 / 9.80665), ("m2/s2", "m", 1 / 9.80665),
        ("kg m-2 s-1", "m s-1", 1e-3), ("mm/day", "m s-1", 1e-3 / 86400), ("mm h-1", "m s-1", 1e-3 / 3600),
        ("m/day", "m s-1", 1 / 86400), ("kg m**-1 s**-1", "kg m-1 s-1", 1), ("s**-1", "s-1", 1),
    ],
)  # fmt: skip
def test_a_unit_is_converted_however_it_is_spelled(unit, wanted, scale):
    found = conversion(unit, wanted)
    assert found is not None
    assert found.scale == pytest.approx(scale, rel=1e-12)
    assert found.offset == 0


def test_what_is_si_already_is_left_exactly_as_it_is():
    assert conversion("kg m-2 s-1", "kg m-2 s-1") == SAME


@pytest.mark.parametrize("unit", ["degC", "Celsius", "C"])
def test_temperature_may_be_in_degrees_celsius(unit):
    assert conversion(unit, "K") == (1, 273.15)


@pytest.mark.parametrize(
    ("unit", "wanted"),
    # The third is the unit text of the MERRA-2 transport file, which is wrong; the fourth is none.
    [("K", "Pa"), ("m", "m s-1"), ("kg kg-1 m-1 s-1", "kg m-1 s-1"), ("furlongs", "m"), ("", "Pa"), ("degC", "Pa")],
)
def test_a_unit_of_something_else_is_not_converted(unit, wanted):
    assert conversion(unit, wanted) is None
