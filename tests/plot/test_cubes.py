"""Cubes are shown as they are counted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from climlab_dl.cosmology.volumes import Volume
from climlab_dl.plot import cubes


@pytest.fixture(scope="module")
def volume() -> Volume:
    counts = np.random.default_rng(1).poisson(1.0, (16, 16, 16, 2)).astype(np.int16)
    return Volume(counts=counts, source=Path("made"), redshifts=np.array([0.0, 1.5]), box_size_mpc_h=64.0)


def test_a_volume_shows_slabs_whose_mean_is_the_counts(volume, tmp_path):
    import holoviews as hv

    layout = cubes.volume(volume)
    assert len(layout) == 4
    assert layout.kdims or layout.traverse(lambda m: m, [hv.HoloMap])
    images = layout.traverse(lambda image: image, [hv.Image])
    projection = next(image for image in images if "all" in image.opts.get("plot").kwargs["title"])
    # exp(shown) - 1 is the density over its mean, whose average over a projection of the whole cube is 1.
    assert np.expm1(projection.dimension_values(2)).mean() == pytest.approx(1, rel=1e-6)
    assert projection.bounds.lbrt() == (0, 0, 64, 64)
    cubes.volume_static(volume, path=tmp_path / "volume.png")
    assert (tmp_path / "volume.png").stat().st_size > 10_000


def test_a_redshift_is_told_apart_from_an_axis_and_left_out_where_unknown(volume):
    def titles(volume: Volume) -> list[str]:
        return [axes.get_title() for axes in cubes.volume_static(volume).axes if axes.get_title()]

    assert "redshift 1.5, z: 4 Mpc/h around the middle" in titles(volume)
    unknown = replace(volume, redshifts=None)
    assert "channel 1, along z: all" in titles(unknown)
    assert "along z: all" in titles(replace(unknown, counts=volume.counts[..., :1]))
