"""Whatever the user's coordinates, maps read the same snapshots; packing loses next to nothing."""

import cftime
import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from climlab_dl.climate.fields import CLASSES
from climlab_dl.plot import layers, styles

FIELD = xr.DataArray(
    np.arange(2 * 4 * 8, dtype=np.float32).reshape(2, 4, 8),
    dims=("time", "lat", "lon"),
    coords={"time": [0, 6], "lat": [-67.5, -22.5, 22.5, 67.5], "lon": np.arange(0.0, 360, 45)},
    name="TMQ",
)


def west_of_greenwich(field):
    turned = field.assign_coords(lon=(field.lon + 180) % 360 - 180)
    return turned.sortby("lon")


@pytest.mark.parametrize("theirs", [west_of_greenwich(FIELD), FIELD[:, ::-1], west_of_greenwich(FIELD)[:, ::-1]])
def test_the_users_convention_makes_no_difference(theirs):
    # holoviz/geoviews#362, #344: data of 0..360 vanish where -180..180 is expected.
    xr.testing.assert_equal(layers.canonical(theirs), FIELD)


def test_a_repeated_seam_column_is_dropped():
    doubled = xr.concat([FIELD, FIELD.isel(lon=[0]).assign_coords(lon=[360.0])], dim="lon")
    xr.testing.assert_equal(layers.canonical(doubled), FIELD)


def test_a_region_across_longitude_0_stays_in_one_piece():
    region = FIELD.isel(lon=slice(0, 3)).assign_coords(lon=[-2.0, 0.0, 2.0])
    assert layers.canonical(region).lon.values.tolist() == [358.0, 360.0, 362.0]


def test_two_dimensional_coordinates_are_refused_with_what_to_do():
    curved = FIELD.rename(lat="y", lon="x").assign_coords(lat=(("y", "x"), np.zeros((4, 8))))
    with pytest.raises(ValueError, match=r"one-dimensional coordinate 'lat'.*archive\.open"):
        layers.canonical(curved)


def test_further_dimensions_must_be_selected_first():
    with pytest.raises(ValueError, match=r"choose one of the others first, such as \.isel\(level=0\)"):
        layers.snapshots(FIELD.expand_dims(level=3))


def test_channels_come_in_the_order_wanted_and_masks_are_none():
    fields = xr.Dataset({"TMQ": FIELD, "PSL": FIELD, "mask": FIELD.astype(np.int8)})
    assert [f.name for f in layers.channels_of(fields, None)] == ["TMQ", "PSL"]
    assert [f.name for f in layers.channels_of(fields, ["PSL"])] == ["PSL"]
    with pytest.raises(ValueError, match=r"no channel U850.*TMQ, PSL"):
        layers.channels_of(fields, ["U850"])


def test_a_channel_may_be_called_as_in_files_of_others():
    fields = xr.Dataset({"TMQ": FIELD, "PSL": FIELD})
    assert [f.name for f in layers.channels_of(fields, ["mslp", "tcwv"])] == ["PSL", "TMQ"]
    # What the fields themselves call so comes first.
    assert [f.name for f in layers.channels_of(fields.assign(mslp=FIELD), ["mslp"])] == ["mslp"]
    with pytest.raises(ValueError, match=r"no channel t2m \(here TREFHT\), soup to draw: the fields have TMQ, PSL"):
        layers.channels_of(fields, ["t2m", "soup"])


def test_each_classs_probability_is_a_channel_between_0_and_1():
    share = FIELD / float(FIELD.max())
    chances = xr.concat([1 - share, 0.3 * share, 0.7 * share], "class").assign_coords({"class": list(CLASSES)})
    fields = xr.Dataset({"probabilities": chances, "entropy": FIELD.assign_attrs(units="1")})
    names = ["entropy", "probability_of_cyclone", "probability_of_river", "probability_of_background"]
    assert [f.name for f in layers.channels_of(fields, None)] == names
    [river] = layers.channels_of(fields, ["probability_of_river"])
    assert (river.values == 0.7 * share.values).all()
    look = styles.style(river)
    assert (look.low, look.high, look.label) == (0, 1, "probability_of_river")
    assert styles.style(fields.entropy).label == "entropy"


def test_a_mask_with_other_coordinates_lands_on_the_same_cells():
    mask = west_of_greenwich((FIELD % 3).astype(np.int8))[:, ::-1]
    assert (layers.along(mask, FIELD).values == FIELD.values % 3).all()


def test_times_that_a_mask_does_not_have_are_unknown():
    mask = (FIELD % 3).astype(np.int8).isel(time=[1])
    found = layers.along(mask, FIELD)
    assert (found[0] == layers.UNKNOWN).all()
    assert (found[1] == FIELD[1] % 3).all()


def test_a_mask_on_another_calendar_date_still_finds_its_snapshot():
    dates = [cftime.Datetime360Day(2001, 2, 29), cftime.Datetime360Day(2001, 2, 30)]
    field = FIELD.assign_coords(time=dates)
    mask = (field % 3).astype(np.int8).isel(time=[1])
    assert (layers.along(mask, field)[1] == FIELD[1] % 3).all()


def test_a_mask_on_another_grid_is_refused():
    with pytest.raises(ValueError, match=r"mask's lat has 2 values.*fields' has 4.*regrid"):
        layers.along((FIELD % 3).isel(lat=[0, 1]), FIELD)


@given(arrays(np.float32, (2, 3, 4), elements=st.floats(-1e5, 1e5, width=32)))
def test_packing_errs_by_at_most_half_a_step(values):
    packed = layers.pack(values)
    back = layers.unpack(packed.numbers, packed.offset, packed.scale).reshape(values.shape)
    step = packed.scale[:, None, None]
    # Half a step of 1/65534 of the snapshot's range, and the float arithmetic's own last digits.
    assert (np.abs(back - values) <= step / 2 + 1e-6 * np.abs(values).max()).all()


def test_missing_data_stay_missing():
    values = np.ones((1, 2, 2), np.float32)
    values[0, 0, 1] = np.nan
    packed = layers.pack(values)
    assert np.isnan(layers.unpack(packed.numbers, packed.offset, packed.scale)).tolist() == [
        [False, True, False, False]
    ]
    nothing = layers.pack(np.full((1, 2, 2), np.nan))
    assert np.isnan(layers.unpack(nothing.numbers, nothing.offset, nothing.scale)).all()
