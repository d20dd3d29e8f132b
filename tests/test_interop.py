"""What is written is understood by the field's other tools: cf_xarray reads masks, geopandas opens storms."""

# geopandas' annotations are those of pandas, which do not tell a column from a table.
# pyright: reportGeneralTypeIssues=false, reportOptionalMemberAccess=false

import cf_xarray  # noqa: F401 (gives datasets their .cf)
import geopandas
import numpy as np
import pytest
import xarray as xr

from climlab_dl import archive, events, synthetic


@pytest.fixture(scope="module")
def labelled():
    return synthetic.atmosphere(times=2, shape=(48, 96), seed=1)


def test_cf_xarray_finds_axes_fields_and_classes_by_their_cf_names(labelled, tmp_path):
    with xr.open_dataset(archive.save(labelled, tmp_path / "labelled.nc")) as found:
        assert found.cf["latitude"].identical(found["lat"])
        assert found.cf["longitude"].identical(found["lon"])
        assert found.cf["time"].identical(found["time"])
        assert found.cf["air_pressure_at_mean_sea_level"].name == "PSL"
        assert found["mask"].cf.is_flag_variable
        assert (found["mask"].cf == "river").equals(found["mask"] == 2)
        assert found["mask"].cf.isin(["cyclone", "river"]).equals(found["mask"] > 0)


def test_geopandas_opens_storms_whose_polygons_have_the_area_of_the_table(labelled, tmp_path):
    table = events.find(labelled["mask"], labelled)
    events.to_geojson(labelled["mask"], tmp_path / "storms.geojson", table=table)
    storms = geopandas.read_file(tmp_path / "storms.geojson")
    assert storms.crs.to_epsg() == 4326
    assert storms.geometry.is_valid.all()
    assert storms["class"].tolist() == table["class"].tolist()
    assert storms["time"].notna().all()
    # Lambert's cylindrical projection keeps areas; of the sphere that the table's areas are on.
    flat = storms.to_crs("+proj=cea +R=6371000 +units=km")
    np.testing.assert_allclose(flat.area, table["area_km2"], rtol=1e-5)
