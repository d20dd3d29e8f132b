"""The packaged coastlines are found with no network, in every projection."""

import socket
import subprocess
import sys
from typing import Any

import cartopy.crs as ccrs
import numpy as np
import pytest

from climlab_dl.plot import coastlines


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise OSError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_cartopy_draws_the_packaged_coastline_with_the_network_off(no_network):
    # SciTools/cartopy#2017, #1082, #1325: coastlines() hangs or fails on nodes without internet.
    import cartopy
    from matplotlib.figure import Figure

    coastlines.point_cartopy()
    assert cartopy.config["pre_existing_data_dir"] == coastlines.packaged()
    for resolution in coastlines.RESOLUTIONS:
        figure = Figure(figsize=(2, 1))
        axes: Any = figure.add_subplot(projection=ccrs.PlateCarree())
        axes.coastlines(resolution)
        figure.canvas.draw()


def test_a_folder_that_the_user_chose_is_kept():
    script = (
        "from climlab_dl.plot import coastlines; coastlines.point_cartopy(); import cartopy;"
        "print(cartopy.config['pre_existing_data_dir'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env={"CARTOPY_DATA_DIR": "/mine"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "/mine"


def test_flat_coastlines_are_degrees_and_nearly_the_earths():
    xs, ys = coastlines.lines(ccrs.PlateCarree())
    assert max(np.abs(x).max() for x in xs) <= 180
    # Antarctica's coast goes down to the Ross ice shelf's 78-85 S, Greenland's up to 83.6 N.
    assert min(map(np.min, ys)) < -77
    assert 83 < max(map(np.max, ys)) < 84


def test_a_coastline_is_cut_at_the_maps_edge_and_not_drawn_across_it():
    for crs in (ccrs.PlateCarree(180), ccrs.Robinson(180), ccrs.Robinson(0)):
        span = crs.x_limits[1] - crs.x_limits[0]
        longest = max(np.abs(np.diff(x)).max(initial=0) for x in coastlines.lines(crs)[0])
        assert longest < span / 8


def test_an_orthographic_map_has_only_the_near_sides_coasts():
    xs, ys = coastlines.lines(ccrs.Orthographic(0, 90))
    radius = np.hypot(np.concatenate(xs), np.concatenate(ys)).max()
    assert radius <= 6378137.0 * 1.0001


def test_a_resolution_that_is_not_packaged_is_refused_by_name():
    with pytest.raises(ValueError, match=r"10m.*110m and 50m"):
        coastlines.lines(ccrs.PlateCarree(), "10m")
