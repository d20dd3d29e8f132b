"""Density cubes to look at: slabs and projections, in a page and on paper."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from climlab_dl.cosmology.volumes import Volume


def holoviews() -> Any:
    """Import HoloViews, with Bokeh to draw with if nothing else was chosen."""
    import holoviews as hv

    if "bokeh" not in hv.Store.registry:
        hv.extension("bokeh", logo=False)
    return hv


def volume(volume: "Volume") -> Any:
    """Look into a density cube: a slab through its middle along each axis, and the whole cube projected.

    A slab is a sixteenth of the cube thick. Colours are the logarithm of one plus the density over its mean, the same
    at all redshifts, between which a slider chooses.

    Parameters
    ----------
    volume
        Counts on a cube; in Mpc/h where it tells the box, else in voxels.

    Returns
    -------
    holoviews.Layout, of HoloMaps over redshift where there are several
    """
    hv = holoviews()
    side, unit = _side(volume)
    kind, channels = _channels(volume)
    views = {number: _views(volume, channel) for channel, number in enumerate(channels)}
    panels = []
    for name in next(iter(views.values())):
        dims = [hv.Dimension(axis, unit=unit) for axis in _axes(name)]
        top = max(float(frame[name].max()) for frame in views.values())
        look = {"cmap": "inferno", "clim": (0.0, top), "frame_width": 260, "frame_height": 260, "tools": ["hover"]}
        frames = {
            z: hv.Image(frame[name].T[::-1], bounds=(0, 0, side, side), kdims=dims, vdims=["ln(1 + ρ/mean)"]).opts(
                title=name, colorbar=True, **look
            )
            for z, frame in views.items()
        }
        panels.append(hv.HoloMap(frames, kdims=kind) if len(frames) > 1 else next(iter(frames.values())))
    return hv.Layout(panels).cols(2).opts(hv.opts.Layout(shared_axes=False))


def volume_static(volume: "Volume", path: str | Path | None = None) -> "Figure":
    """Draw the same as :func:`volume` with matplotlib, a row a redshift, and write it if a path is given."""
    from climlab_dl.plot import paper

    side, unit = _side(volume)
    kind, channels = _channels(volume)
    titles = [f"{kind} {number:g}" for number in channels]
    if volume.redshifts is None and len(channels) == 1:
        titles = [""]
    rows = {title: _views(volume, channel) for channel, title in enumerate(titles)}
    return paper.images(rows, side, unit, _axes, path)


def _views(volume: "Volume", channel: int) -> dict[str, np.ndarray]:
    """ln(1 + density over mean) of the middle slabs and of the projection."""
    counts = volume.counts[..., channel]
    voxels = counts.shape[0]
    thick = max(1, voxels // 16)
    slab = slice((voxels - thick) // 2, (voxels - thick) // 2 + thick)
    mean = float(counts.mean(dtype=np.float64)) or 1.0
    side, unit = _side(volume)
    words = f"{side * thick / voxels:g} {unit} around the middle"
    cuts = {
        f"x: {words}": counts[slab].mean(0),
        f"y: {words}": counts[:, slab].mean(1),
        f"z: {words}": counts[:, :, slab].mean(2),
        "along z: all": counts.mean(2),
    }
    return {name: np.log1p(cut / mean) for name, cut in cuts.items()}


def _axes(name: str) -> tuple[str, str]:
    return {"x": ("y", "z"), "y": ("x", "z")}.get(name[0], ("x", "y"))


def _side(volume: "Volume") -> tuple[float, str]:
    known = volume.box_size_mpc_h
    return (float(volume.counts.shape[0]), "voxels") if known is None else (known, "Mpc/h")


def _channels(volume: "Volume") -> tuple[str, list[float]]:
    """Redshifts, or where they are unknown numbers of the channels; and which it is."""
    shifts = volume.redshifts
    return ("channel", list(range(volume.counts.shape[3]))) if shifts is None else ("redshift", shifts.tolist())
