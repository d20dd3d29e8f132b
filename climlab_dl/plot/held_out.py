"""What a network says of something held out beside the truth: a picture to be redrawn as a training goes on."""

from typing import TYPE_CHECKING, Any

import numpy as np

from climlab_dl.plot.parameters import label
from climlab_dl.plot.styles import CLASS_COLORS
from climlab_dl.words import counted

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from climlab_dl.plot.canvas import Canvas

_BLUE, _GREY = "#1b4f8a", "#8c8c8c"


def held_out(seen: "xr.Dataset") -> "Figure":
    """Draw what a run's folder tells of its latest evaluation (``RunFolder.held_out()``).

    Parameters
    ----------
    seen
        ``mask`` and ``truth`` (lat, lon) of a snapshot: two maps. Or ``estimate`` and ``truth`` (universe, parameter):
        one against the other, a panel a parameter.

    Returns
    -------
    Figure
        As wide as the learning curves.
    """
    from matplotlib.figure import Figure

    if "mask" in seen:
        figure = Figure(figsize=(9.0, 2.9), layout="constrained")
        _draw_masks(figure, seen)
    else:
        figure = Figure(figsize=(9.0, 3.0), layout="constrained")
        panels = figure.subplots(1, seen.sizes["parameter"], squeeze=False)[0]
        for axes, name in zip(panels, seen["parameter"].values, strict=True):
            one = seen.sel(parameter=name)
            _draw_parameter(axes, label(str(name)), one["truth"].values, one["estimate"].values)
        universes = counted(seen.sizes["universe"], "held-out universe")
        title = f"{universes}, step {seen.attrs['step']} (dashed: always their mean)"
        figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    return figure


def _draw_masks(figure: "Figure", seen: "xr.Dataset") -> None:
    import cartopy.mpl.geoaxes  # noqa: F401  (makes matplotlib know the projections)
    from matplotlib.colors import to_rgba_array
    from matplotlib.patches import Patch

    from climlab_dl.plot import canvas, layers, pictures

    seen = layers.canonical(seen)
    # Seen from the Pacific, where most of the storms are: the cut runs through Africa and Europe.
    place = canvas.over(seen, canvas.projection("PlateCarree", 180.0))
    cells = place.cells(seen["lat"].values, seen["lon"].values)
    names = str(seen["mask"].attrs["flag_meanings"]).split()
    colors = [CLASS_COLORS.get(name, f"C{number}") for number, name in enumerate(names)]
    titles = {"mask": f"network, step {seen.attrs['step']}", "truth": "truth"}
    for number, (name, title) in enumerate(titles.items()):
        axes: Any = figure.add_subplot(1, 2, 1 + number, projection=place.crs)
        _draw_coasts(axes, place)
        # Unlabelled cells (-1) are drawn as background, like what lies beyond the grid.
        classes = np.append(np.maximum(seen[name].values, 0).ravel(), 0)[cells]
        pictures.cells(axes, to_rgba_array(colors)[classes], place)
        axes.set_title(title, fontsize=9)
    scores = [_iou(seen["mask"].values == number, seen["truth"].values == number) for number in range(len(names))]
    legend = list(zip(names, colors, scores, strict=True))[1:]
    handles = [Patch(color=color, label=f"{name}, IoU {score}") for name, color, score in legend]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    # Of "time of archive" the time is enough.
    sample = str(seen.attrs["sample"]).partition(" of ")[0].replace("T", " ")
    figure.suptitle(f"held-out snapshot {sample}", fontsize=10, x=0.01, ha="left")


def _draw_coasts(axes: Any, place: "Canvas") -> None:
    from climlab_dl.plot import coastlines, pictures

    pictures.degrees(axes, place, 7)
    lines = coastlines.lines(place.crs, "110m" if place.whole else "50m")
    pictures.lines(axes, place, lines, colors="#606060", linewidths=0.5)


def _iou(found: np.ndarray, true: np.ndarray) -> str:
    either = np.count_nonzero(found | true)
    return f"{np.count_nonzero(found & true) / either:.2f}" if either else "– (none there)"


def _draw_parameter(axes: "Axes", name: str, truth: np.ndarray, estimate: np.ndarray) -> None:
    low, high = truth.min(), truth.max()
    margin = 0.08 * (high - low) or 1.0
    ends = (low - margin, high + margin)
    axes.plot(ends, ends, color=_GREY, linewidth=0.9)
    axes.axhline(truth.mean(), color=_GREY, linewidth=0.9, linestyle="--")
    # An estimate beyond the frame is drawn on its edge: a network that has hardly learnt is not to shrink the rest.
    axes.plot(
        truth, np.clip(estimate, *ends), linestyle="", marker="o", markersize=3.5, color=_BLUE, alpha=0.7, clip_on=False
    )
    axes.set_xlim(ends)
    axes.set_ylim(ends)
    axes.set_box_aspect(1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    axes.set_xlabel(f"true {name}", fontsize=9)
    axes.set_ylabel(f"estimated {name}", fontsize=9)
    error = np.abs(estimate - truth).mean()
    axes.set_title(f"mean error {error:#.2g}", fontsize=9)
