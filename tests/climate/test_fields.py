"""The table of fields is consistent, and holds against real data of CAM5."""

import h5py
import numpy as np
import pandas as pd
import pytest

from climlab_dl.climate.fields import CAM5, CLASSES, CYCLONE, FIELDS, RIVER, likely, missing, named


def test_the_sixteen_channels_are_in_the_order_of_deepcam_files():
    # Order of the channel axis in DeepCAM HDF5 and of stats.h5 (mlcommons/hpc, deepCam).
    order = "TMQ U850 V850 UBOT VBOT QREFHT PS PSL T200 T500 PRECT TS TREFHT Z1000 Z200 ZBOT"
    assert order.split() == list(CAM5)
    assert (CLASSES[CYCLONE], CLASSES[RIVER]) == ("cyclone", "river")


def test_no_name_stands_for_two_fields():
    spelled = [
        alias.lower() for field in FIELDS.values() for alias in {field.name.lower(), *map(str.lower, field.aliases)}
    ]
    assert len(spelled) == len(set(spelled))


@pytest.mark.parametrize("field", FIELDS.values(), ids=str)
def test_colour_limits_lie_within_what_is_possible(field):
    assert field.limits[0] <= field.display[0] < field.display[1] <= field.limits[1]
    assert not field.diverging or field.display[0] == -field.display[1]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("tcwv", "TMQ"), ("prw", "TMQ"), ("TQV", "TMQ"), ("PWAT_entireatmosphere", "TMQ"),
        ("msl", "PSL"), ("SLP", "PSL"), ("PRMSL_meansealevel", "PSL"), ("u10", "UBOT"), ("VAR_10V", "VBOT"),
        ("UGRD_850mb", "U850"), ("zg500", "Z500"), ("H1000", "Z1000"), ("viwve", "TUQ"), ("VFLXQV", "TVQ"),
        ("skt", "TS"), ("T2M", "TREFHT"), ("huss", "QREFHT"), ("PSFC", "PS"),
    ],
)  # fmt: skip
def test_names_of_other_models_are_known(theirs, ours):
    field = named(theirs)
    assert field is not None
    assert field.name == ours


def test_a_missing_field_is_reported_with_what_is_nearest_and_what_to_do():
    message = str(missing("TMQ", ["U850", "precip_water", "TMQ_total"]))
    assert "no field 'TMQ'" in message
    assert "tcwv" in message
    assert "names={'TMQ_total': 'TMQ'}" in message


@pytest.mark.parametrize(
    ("name", "found", "meant"),
    [
        ("TMQ", ["cloud_water", "precipitable_water"], "precipitable_water"),
        ("TMQ", ["precip_water", "TMQ_total"], "TMQ_total"),
        ("TMQ", ["TMQQ", "t"], "TMQQ"),
        ("PSL", ["slp_filtered"], "slp_filtered"),
        ("U850", ["eastward_wind_925", "my_u_850"], ""),
        ("U850", ["eastward_wind_925", "eastward_wind_850"], "eastward_wind_850"),
        ("TMQ", ["orography", "U850", "w"], ""),
        ("TMQ", [], ""),
    ],
)
def test_an_unknown_name_is_taken_for_a_field_by_its_words_and_level(name, found, meant):
    assert likely(name, found) == meant


def test_the_extremes_of_121266_real_snapshots_are_possible(shared):
    with h5py.File(shared / "climate" / "deepcam_stats.h5") as file:
        lowest, highest = np.array(file["climate/minval"]), np.array(file["climate/maxval"])
    for name, low, high in zip(CAM5, lowest, highest, strict=True):
        assert FIELDS[name].limits[0] <= low, name
        assert high <= FIELDS[name].limits[1], name


def test_the_pixels_of_real_labelled_snapshots_are_possible_and_differ_as_weather_does(shared):
    pixels = pd.read_csv(shared / "climate" / "climatenet_pixels_train.csv.zip")
    for name in CAM5:
        assert pixels[name].between(*FIELDS[name].limits).all(), name
        # Most of any field lies within the colours that show it; ZBOT and Z1000 are no exception.
        assert pixels[name].between(*FIELDS[name].display).mean() > 0.9, name
    label, lat, tmq, psl, prect = (np.asarray(pixels[name]) for name in ("Label", "lat", "TMQ", "PSL", "PRECT"))
    background, cyclone, river = (label == c for c in (0, CYCLONE, RIVER))
    # Cyclones are moist, wet lows; in the southern subtropics rivers are moister than what is round them.
    assert tmq[cyclone].mean() > tmq[background].mean() + 15
    assert psl[cyclone].mean() < psl[background].mean() - 800
    assert prect[cyclone].mean() > 5 * prect[background].mean()
    assert tmq[river & (lat < -20)].mean() > tmq[background & (lat < -20)].mean() + 2
    # The grid of these files is the one that their shape alone gives: poles included, 768 x 1152.
    rows = (lat + 90) * 767 / 180
    assert np.abs(rows - np.round(rows)).max() < 1e-3
