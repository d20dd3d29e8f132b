"""Detection: a trained network over any archive, lazily, in the user's own coordinates.

detector = Detector.load("runs/deeplab")
found = detect(detector, fields)          probabilities and mask; nothing is computed until it is looked at
evaluate(found.mask, fields.mask)         beside the mask that is all background
"""

import logging
from collections.abc import Mapping
from importlib.metadata import version
from typing import Literal

import dask.array as da
import numpy as np
import pandas as pd
import xarray as xr

from climlab_dl.climate import archive
from climlab_dl.climate.fields import CLASSES, UNLABELLED
from climlab_dl.climate.regrid import METHODS, Method, Regridder, regridder
from climlab_dl.climate.snapshots import Layout
from climlab_dl.inference.detector import Detector

__all__ = ["Detector", "detect", "evaluate"]

log = logging.getLogger(__name__)


def detect(
    detector: Detector,
    fields: xr.Dataset,
    *,
    regrid: Method | None = "bilinear",
    missing: Literal["refuse", "mean"] = "refuse",
) -> xr.Dataset:
    """Find cyclones and rivers in every snapshot, lazily.

    Parameters
    ----------
    detector
        The network.
    fields
        From `archive.open`, with or without time. Fields that follow from others are derived.
    regrid
        How fields on a grid other than the one trained on get there ("bilinear" or "conservative"; the probabilities
        come back bilinearly), or None to run the network on their own grid.
    missing
        What to do about a channel that the archive does not have: "refuse", or take its "mean" over the training,
        which the log says.

    Returns
    -------
    Dataset
        ``probabilities`` float32 (time, class, lat, lon) and ``mask`` int8 (time, lat, lon), -1 where a channel has no
        data, as dask arrays of one snapshot a chunk, with the latitude order and longitudes of the user's files.

    Raises
    ------
    ValueError
        A channel is missing, or an option is unknown.
    """
    if missing not in ("refuse", "mean"):
        raise ValueError(f"missing is {missing!r}; choose 'refuse' or 'mean'")
    if regrid is not None and regrid not in METHODS:
        raise ValueError(f"regrid is {regrid!r}; choose one of {', '.join(METHODS)}, or None")
    timeless = "time" not in fields.dims
    if timeless:
        fields = fields.expand_dims("time")
    snapshots = _channels(detector, fields, missing)
    there, back = _ways(detector, fields, regrid)

    def look(block: np.ndarray) -> np.ndarray:
        found = detector.probabilities(block[0] if there is None else there(block[0]))
        return (found if back is None else back(found))[None]

    sizes = fields.sizes
    chunks = (snapshots.chunks[0], (len(detector.classes),), (sizes["lat"],), (sizes["lon"],))
    probabilities = snapshots.map_blocks(look, dtype=np.float32, chunks=chunks, meta=np.empty((0,) * 4, np.float32))
    mask = probabilities.map_blocks(_classes, dtype=np.int8, drop_axis=1, meta=np.empty((0,) * 3, np.int8))

    coords = {name: fields.coords[name] for name in ("time", "lat", "lon") if name in fields.coords}
    found = xr.Dataset(
        {
            "probabilities": (("time", "class", "lat", "lon"), probabilities, _PROBABILITIES),
            "mask": (("time", "lat", "lon"), mask, _mask_attributes(detector.classes)),
        },
        {**coords, "class": list(detector.classes)},
        {"Conventions": "CF-1.11", "history": provenance(detector)},
    )
    return archive.restore(found.isel(time=0) if timeless else found)


def provenance(detector: Detector) -> str:
    """Say which software and which weights made a mask; the same for the same, so that outputs compare byte by byte."""
    made = f"climlab-dl {version('climlab-dl')}: detect"
    if not detector.sha256:
        return made
    return f"{made} with checkpoint {detector.source} (step {detector.step}, sha256 {detector.sha256})"


def evaluate(masks: xr.DataArray | Mapping[str, xr.DataArray], truth: xr.DataArray) -> pd.DataFrame:
    """Score masks against the truth, beside the mask that is all background.

    Parameters
    ----------
    masks
        Classes (time, lat, lon), or several such masks by name.
    truth
        Classes on the same grid; times that both have are compared, pixels that either leaves unlabelled are not.

    Returns
    -------
    DataFrame
        A row for each name ("detected" for a single mask), and "all background"; columns ``iou_``, ``precision_`` and
        ``recall_`` of each class and ``iou_mean`` over the classes that are in the truth or in the mask. NaN where
        there is nothing to divide by.

    Raises
    ------
    ValueError
        Different grids, or no time in common.
    """
    named = {"detected": masks} if isinstance(masks, xr.DataArray) else masks
    rows, trivial = {}, np.zeros((len(CLASSES), len(CLASSES)), np.int64)
    for name, mask in named.items():
        counts = confusion(mask, truth)
        rows[name] = _scores(counts)
        trivial[:, 0] = counts.sum(axis=1)
    return pd.DataFrame.from_dict({**rows, "all background": _scores(trivial)}, orient="index")


def confusion(mask: xr.DataArray, truth: xr.DataArray) -> np.ndarray:
    """Count pixels by (true class, class found), snapshot by snapshot, whichever way round the coordinates are."""
    layouts = [Layout.of(layer) for layer in (mask, truth)]
    ours, theirs = layouts
    if (
        ours.lat.shape != theirs.lat.shape
        or ours.lon.shape != theirs.lon.shape
        or not (np.allclose(ours.lat, theirs.lat, atol=1e-3) and np.allclose(ours.lon, theirs.lon, atol=1e-3))
    ):
        raise ValueError(
            f"mask and truth are on different grids ({_grid(ours)} and {_grid(theirs)}): regrid one of them, or take "
            "the truth that was opened with the fields"
        )
    if "time" in mask.dims and "time" in truth.dims:
        pairs = xr.align(mask.drop_vars(["lat", "lon"]), truth.drop_vars(["lat", "lon"]), join="inner")
        if pairs[0].sizes["time"] == 0:
            raise ValueError(f"mask and truth have no time in common ({_span(mask)} and {_span(truth)})")
    elif "time" in mask.dims or "time" in truth.dims:
        raise ValueError("one of mask and truth has several times, the other none: select the time that it is of")
    else:
        pairs = (mask.expand_dims("time"), truth.expand_dims("time"))
    total = np.zeros((len(CLASSES), len(CLASSES)), np.int64)
    for step in range(pairs[0].sizes["time"]):
        found, real = (
            layout.arrange(layer.isel(time=step).transpose("lat", "lon").values).ravel()
            for layout, layer in zip(layouts, pairs, strict=True)
        )
        told = (found >= 0) & (real >= 0) & (found < len(CLASSES)) & (real < len(CLASSES))
        both = real[told].astype(np.int64) * len(CLASSES) + found[told].astype(np.int64)
        total += np.bincount(both, minlength=total.size).reshape(total.shape)
    return total


_PROBABILITIES = {"long_name": "probability of each class of weather", "units": "1"}


def _mask_attributes(classes: tuple[str, ...]) -> dict[str, object]:
    values = np.arange(len(classes), dtype=np.int8)
    return {"long_name": "class of weather", "flag_values": values, "flag_meanings": " ".join(classes)}


def _channels(detector: Detector, fields: xr.Dataset, missing: str) -> da.Array:
    """Stack the channels as dask (time, channel, lat, lon), one snapshot a chunk."""
    absent = []
    for name in detector.channels:
        try:
            fields = archive.require(fields, [name])
        except ValueError:
            if missing == "refuse":
                raise
            absent.append(name)
    if absent:
        log.warning("the archive has no %s: taken to be the mean of the training everywhere", ", ".join(absent))
    stacked = []
    shape = tuple(fields.sizes[name] for name in ("time", "lat", "lon"))
    for name, mean in zip(detector.channels, detector.mean, strict=True):
        if name in absent:
            stacked.append(da.full(shape, mean, dtype=np.float32, chunks=(1, *shape[1:])))
        else:
            values = fields[name].transpose("time", "lat", "lon").data
            stacked.append(da.asarray(values).astype(np.float32).rechunk((1, -1, -1)))
    return da.stack(stacked, axis=1).rechunk((1, -1, -1, -1))


def _ways(detector: Detector, fields: xr.Dataset, regrid: Method | None) -> tuple[Regridder | None, Regridder | None]:
    """Regridders to the grid that the network was trained on and back; None where the grid is the same, or is kept."""
    if regrid is None or detector.grid is None:
        return None, None
    ours = fields["lat"].values.astype(float), fields["lon"].values.astype(float)
    theirs = detector.grid
    if all(a.shape == b.shape and np.allclose(a, b, atol=1e-3) for a, b in zip(ours, theirs, strict=True)):
        return None, None
    log.warning(
        "the fields are on %d x %d, the network was trained on %d x %d: regridded (%s) and back",
        *map(len, ours), *map(len, theirs), regrid,
    )  # fmt: skip
    return regridder(*ours, *theirs, regrid), regridder(*theirs, *ours, "bilinear")


def _classes(probabilities: np.ndarray) -> np.ndarray:
    unknown = np.isnan(probabilities).any(axis=1)
    return np.where(unknown, UNLABELLED, np.nan_to_num(probabilities).argmax(axis=1)).astype(np.int8)


def _scores(counts: np.ndarray) -> dict[str, float]:
    hits, real, found = np.diag(counts).astype(float), counts.sum(axis=1), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        scores = {"iou": hits / (real + found - hits), "precision": hits / found, "recall": hits / real}
    named = {
        f"{score}_{name}": value for score, row in scores.items() for name, value in zip(CLASSES, row, strict=True)
    }
    return {**named, "iou_mean": float(np.nanmean(scores["iou"]))}


def _grid(layout: Layout) -> str:
    return f"{len(layout.lat)} x {len(layout.lon)}, {layout.lat[0]:g}..{layout.lat[-1]:g} N"


def _span(layer: xr.DataArray) -> str:
    return f"{layer['time'].values[0]}..{layer['time'].values[-1]}"
