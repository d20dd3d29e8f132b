"""What the page holds of each snapshot is what the layers hold; what is missing is told."""

import numpy as np
import pytest
import xarray as xr
from bokeh.models import Div

from climlab_dl import events, heuristics, maps, synthetic
from climlab_dl.plot import frames, layers


@pytest.fixture(scope="module")
def fields():
    return synthetic.atmosphere(times=3, shape=(24, 48), seed=0).load()


def chances_of(mask):
    """Probability 0.8 of each cell's own class and 0.1 of the others."""
    parts = [xr.where(mask == kind, 0.8, 0.1).astype(np.float32) for kind in range(3)]
    return xr.concat(parts, dim="class").transpose("time", "class", "lat", "lon")


def test_probabilities_are_in_the_page_to_half_a_percent(fields):
    shown = maps.explore(fields, fields.mask, channels=["TMQ"], probabilities=chances_of(fields.mask))
    data = shown.frames.read(slice(1, 2), [])
    expected = np.where(fields.mask[1].values.ravel() == 2, 0.8, 0.1)
    np.testing.assert_allclose(data["probability river"][0] / frames.CERTAIN, expected, atol=0.005)


def test_unknown_probabilities_stay_unknown(fields):
    part = chances_of(fields.mask).isel(time=[0])
    shown = maps.explore(fields, fields.mask, channels=["TMQ"], probabilities=part)
    assert (shown.frames.read(slice(1, 2), [])["probability river"] == layers.UNKNOWN).all()


def test_each_storms_cells_carry_the_number_of_its_row(fields):
    # Whatever order the user's rows and columns have, the number under the pointer is that in the table.
    theirs = fields.assign_coords(lon=(fields.lon + 180) % 360 - 180).sortby("lon").isel(lat=slice(None, None, -1))
    storms = events.find(theirs.mask, theirs)
    shown = maps.explore(theirs, theirs.mask, channels=["TMQ"], storms=storms)
    for step, time in enumerate(fields.time.values):
        numbers = shown.frames.read(slice(step, step + 1), [])["region"].reshape(24, 48)
        rows = storms[storms.time == time]
        assert set(np.unique(numbers)) == {0, *rows.region}
        for row in rows.itertuples():
            kinds = fields.mask[step].values[numbers == row.region]
            assert set(kinds) == {{"cyclone": 1, "river": 2}[row._2]}
            # The storm's lowest pressure lies in it or beside it.
            near = numbers[np.abs(fields.lat.values - row.psl_lat).argmin() + np.array([-1, 0, 1])]
            assert row.region in near


def test_a_class_that_no_rule_looked_for_is_not_offered(fields):
    rivers = heuristics.label(fields, cyclones=None)
    assert maps.explore(fields, rivers, channels=["TMQ"]).frames.kinds == [2]
    assert maps.explore(fields, fields.mask, channels=["TMQ"]).frames.kinds == [1, 2]
    assert maps.explore(fields, rivers, fields.mask, channels=["TMQ"]).frames.kinds == [1, 2]


def test_missing_snapshots_are_counted_by_the_commonest_step(fields):
    hours = np.array([0, 6, 12, 30, 36], "timedelta64[h]")
    times = np.datetime64("2001-07-01") + hours
    gap = xr.concat([fields.TMQ.isel(time=0)] * 5, dim="time").assign_coords(time=times)
    # Between 12 and 30 h, those of 18 and 24 h are missing.
    assert frames.missing_before(gap).tolist() == [0, 0, 0, 2, 0]
    # Of the first, third and last, the two are missing before the last.
    assert maps.explore(gap.to_dataset(name="TMQ"), times=[0, 2, 4]).missing == [0, 0, 2]
    assert frames.missing_before(gap.drop_vars("time")).tolist() == [0] * 5


def test_a_series_is_the_fields_own_in_its_unit_with_the_classes_colours(fields):
    shown = maps.explore(fields, fields.mask, channels=["PSL"])
    cell = int(np.argmax(fields.mask[0].values.ravel() == 1))
    series = shown.frames.series("PSL", cell)
    row, column = divmod(cell, 48)
    np.testing.assert_allclose(series["value"], fields.PSL[:, row, column] / 100, rtol=1e-6)
    assert series["day"] == [0.0, 0.25, 0.5]
    assert series["color"][0] == "#d01c8b"


def test_a_long_archives_series_is_read_evenly_spaced(fields):
    long = xr.concat([fields.TMQ.isel(time=[0])] * 200, dim="time").drop_vars("time")
    series = maps.explore(long.to_dataset(name="TMQ")).frames.series("TMQ", 0)
    assert len(series["day"]) == frames.SERIES
    assert (series["day"][0], series["day"][-1]) == (0, 199)


def test_a_map_without_storms_promises_none(fields):
    def hints(**options):
        page = maps.explore(fields, fields.mask, channels=["TMQ"], times=1, **options).layout()
        return [div.text for div in page.select({"type": Div}) if div.text.startswith("Click")]

    assert ["storm" in hint for hint in hints()] == [False]
    assert ["storm" in hint for hint in hints(storms=events.find(fields.mask))] == [True]
