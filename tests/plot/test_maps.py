"""Maps compose, choose, stay lazy, and put every number where it belongs."""

import re
from typing import Any

import numpy as np
import pytest
import xarray as xr
from bokeh.models import Select

from climlab_dl import maps, synthetic
from climlab_dl.plot import layers, styles

gv = pytest.importorskip("geoviews")


@pytest.fixture(scope="module")
def bokeh_backend():
    import holoviews as hv

    gv.extension("bokeh", logo=False)
    yield
    hv.Store.current_backend = "bokeh"


@pytest.fixture(scope="module")
def fields():
    return synthetic.atmosphere(times=3, shape=(24, 48), seed=0).load()


class Counted:
    """Counts the snapshots of a lazy field that are computed."""

    def __init__(self, values):
        self.values, self.read = values, []

    def __call__(self, block, block_info: Any = None):
        start = block_info[0]["array-location"][0][0]
        self.read.append(start)
        return self.values[start : start + 1]


def lazy(field):
    counted = Counted(field.values)
    data = field.chunk({"time": 1}).data.map_blocks(counted, dtype=np.float32, meta=np.empty((0, 0, 0), np.float32))
    return field.copy(data=data), counted


def test_layers_compose(fields, bokeh_backend):
    one = fields.isel(time=0)
    composed = maps.field(one.TMQ) * maps.mask(one.mask) * maps.outline(one.mask) * maps.coastline()
    drawn = gv.render(composed)
    glyphs = {type(renderer.glyph).__name__ for renderer in drawn.renderers}
    assert {"Image", "Segment", "MultiLine"} <= glyphs


def test_a_field_through_time_reads_what_is_shown_and_the_first_for_its_colours(fields, bokeh_backend):
    counted_field, counted = lazy(fields.TMQ)
    through_time = maps.field(counted_field) * maps.coastline()
    assert counted.read == []
    _ = through_time[styles.dates(fields)[1]]
    assert set(counted.read) == {0, 1}
    _ = through_time[styles.dates(fields)[2]]
    assert counted.read.count(0) == 1


def test_the_image_holds_the_fields_values_at_their_places(fields, bokeh_backend):
    one = fields.isel(time=0)
    image = maps.field(one.TMQ, central_longitude=180)
    values, lat, lon = (image.dimension_values(name, flat=False) for name in ("TMQ", "lat", "lon"))
    expected = one.TMQ.sel(lat=xr.DataArray(lat.ravel()), lon=xr.DataArray(lon.ravel()), method="nearest")
    # Longitudes within half a cell of 360 belong to the cell at 0, which `sel` does not know.
    inside = lon.ravel() < 360 - 3.75
    assert (values.ravel()[inside] == expected.values[inside]).mean() > 0.99


def test_the_explorers_frames_hold_the_fields(fields):
    explorer = maps.explore(fields, fields.mask, channels=["PSL", "TMQ"], times=[2, 0])
    data = explorer.frames.read(slice(None), ["PSL", "TMQ"])
    for name in ("PSL", "TMQ"):
        back = layers.unpack(data[name], data[f"{name} offset"], data[f"{name} scale"])
        # Pressure is shown in hPa.
        expected = fields[name].isel(time=[2, 0]).values.reshape(2, -1) * {"PSL": 0.01, "TMQ": 1.0}[name]
        np.testing.assert_allclose(back, expected, atol=np.ptp(expected) / 65534)
    assert (data["mask"] == fields.mask.isel(time=[2, 0]).values.reshape(2, -1)).all()
    assert explorer.dates == [styles.dates(fields)[2], styles.dates(fields)[0]]


def test_as_many_times_as_asked_for_are_evenly_spaced(fields):
    assert maps.explore(fields, channels=["TMQ"], times=2).dates == [styles.dates(fields)[0], styles.dates(fields)[2]]


def test_a_small_archive_is_put_into_the_page_and_a_large_one_is_read_as_it_is_shown(fields, monkeypatch):
    assert not maps.explore(fields, channels=["TMQ"]).live
    monkeypatch.setattr("climlab_dl.plot.explorer.PAGE_BYTES", 1000)
    monkeypatch.setattr("climlab_dl.plot.explorer.UNTOLD_BYTES", 1000)
    counted_field, counted = lazy(fields.TMQ)
    explorer = maps.explore(counted_field.to_dataset())
    assert explorer.live
    explorer.layout()
    assert set(counted.read) == {0}
    with pytest.raises(ValueError, match="too much for one page"):
        explorer.save("map.html")


def test_a_live_explorer_answers_the_slider_with_the_snapshot_asked_for(fields, monkeypatch):
    monkeypatch.setattr("climlab_dl.plot.explorer.PAGE_BYTES", 1000)
    monkeypatch.setattr("climlab_dl.plot.explorer.UNTOLD_BYTES", 1000)
    counted_field, counted = lazy(fields.TMQ)
    layout = maps.explore(counted_field.to_dataset(), fields.mask).layout()
    frames = next(source for source in layout.select({"name": "frames"}))
    slider = next(iter(layout.select({"name": "time"})))
    slider.value = 2
    assert set(counted.read) == {0, 2}
    back = layers.unpack(frames.data["TMQ"], frames.data["TMQ offset"], frames.data["TMQ scale"])
    np.testing.assert_allclose(back[0], fields.TMQ[2].values.ravel(), atol=np.ptp(fields.TMQ.values) / 65534)
    assert (frames.data["mask"][0] == fields.mask[2].values.ravel()).all()


def test_a_live_explorer_reads_the_series_at_the_cell_that_was_clicked(fields, monkeypatch):
    monkeypatch.setattr("climlab_dl.plot.explorer.PAGE_BYTES", 1000)
    monkeypatch.setattr("climlab_dl.plot.explorer.UNTOLD_BYTES", 1000)
    layout = maps.explore(fields[["TMQ", "PSL"]], fields.mask).layout()
    asked, series = (next(iter(layout.select({"name": name}))) for name in ("asked", "series"))
    asked.data = {"cell": [100]}
    np.testing.assert_allclose(series.data["value"], fields.TMQ[:, 100 // 48, 100 % 48])
    next(iter(layout.select({"type": Select}))).value = "PSL"
    np.testing.assert_allclose(series.data["value"], fields.PSL[:, 100 // 48, 100 % 48] / 100, rtol=1e-6)


def test_a_saved_page_is_small_and_asks_nobody_even_with_panel_loaded(fields, bokeh_backend, tmp_path):
    path = maps.explore(fields, fields.mask, channels=["TMQ"]).save(tmp_path / "map.html")
    page = path.read_text()
    assert path.stat().st_size < 4_000_000
    said = "Interactive map of total precipitable water; 2001-08-01 00:00 UTC to 2001-08-01 12:00 UTC; 3 snapshots; "
    assert "<title>Cyclones and rivers, 2001-08-01 00:00 UTC to 2001-08-01 12:00 UTC</title>" in page
    assert f'<main aria-label="{said}cyclone, river">' in page
    assert re.findall(r"<(?:script|link|img|iframe)[^>]*\b(?:src|href)\s*=\s*[\"']?(?:https?:|static)", page) == []
    assert list(tmp_path.iterdir()) == [path]


def test_a_title_names_classes_else_channels_and_their_times_in_few_words(fields):
    rivers = fields.mask.where(fields.mask == 2, 0).assign_attrs(flag_values=[0, 2], flag_meanings="background river")
    first = fields.isel(time=[0])
    assert maps.explore(first, rivers).title() == "Rivers, 2001-08-01 00:00 UTC"
    assert maps.explore(first, channels=["TMQ", "PSL"]).title() == "TMQ, PSL, 2001-08-01 00:00 UTC"
    assert len(fields.drop_vars("mask")) > 3
    many = maps.explore(first.drop_vars(["time", "mask"]))
    assert many.title() == f"{len(many.frames.names)} channels"


def test_truth_needs_a_mask_to_be_compared_with(fields):
    with pytest.raises(ValueError, match="give mask="):
        maps.explore(fields, truth=fields.mask)


def test_missing_mask_times_are_drawn_as_none(fields):
    explorer = maps.explore(fields, fields.mask.isel(time=[1]), channels=["TMQ"])
    data = explorer.frames.read(slice(None), ["TMQ"])
    assert (data["mask"][[0, 2]] == layers.UNKNOWN).all()


def test_unless_told_which_as_many_evenly_spaced_snapshots_as_make_a_small_page(sample):
    from climlab_dl import archive

    fields = archive.open(sample)
    explorer = maps.explore(fields)
    assert not explorer.live
    # 16 channels of 96 x 192 are 590 kB a snapshot; 8 of them fit into 5 MB.
    assert len(explorer.dates) == 8
    assert (explorer.dates[0], explorer.dates[-1]) == (styles.dates(fields)[0], styles.dates(fields)[-1])
    assert len(maps.explore(fields, channels=["TMQ"]).dates) == 60
    assert maps.explore(fields, times=slice(None)).live


def test_more_snapshots_than_there_are_are_not_shown(fields):
    assert maps.explore(fields.isel(time=[0]), times=20).frames.fields[0].sizes["time"] == 1


def test_a_page_of_one_snapshot_says_of_when_it_is(fields, tmp_path):
    page = maps.explore(fields.isel(time=[1])).save(tmp_path / "map.html").read_text()
    assert styles.dates(fields)[1] in page
