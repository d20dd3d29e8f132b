"""Detection: a trained network over any archive, lazily, on the user's own grid.

    detector = Detector.load("runs/deeplab")
    found = detect(detector, fields)          probabilities and mask; nothing is computed until it is looked at

Snapshots are looked at one by one, whatever grid and order of coordinates they have.
"""

import logging
from collections.abc import Iterable
from importlib.metadata import version
from typing import Literal

import dask.array as da
import numpy as np
import xarray as xr

from climlab_dl.climate import archive
from climlab_dl.climate.fields import FIELDS, UNLABELLED, likely
from climlab_dl.climate.grid import same_axis
from climlab_dl.climate.labels import CLASS, DETECTED, PROBABILITIES
from climlab_dl.climate.regrid import METHODS, Method, Regridder, regridder
from climlab_dl.inference.detector import Detector

__all__ = ["Detector", "detect"]

log = logging.getLogger(__name__)


def detect(
    detector: Detector,
    fields: xr.Dataset,
    *,
    regrid: Method | None = "bilinear",
    missing: Literal["refuse", "mean"] = "refuse",
    uncertainty: bool = False,
) -> xr.Dataset:
    """Find cyclones and rivers in every snapshot, lazily.

    Parameters
    ----------
    detector
        The network, or several.
    fields
        From `archive.open`, with or without time. Fields that follow from others are derived.
    regrid
        How fields on a grid other than the one trained on get there ("bilinear" or "conservative"; the probabilities
        come back bilinearly), or None to run the network on their own grid.
    missing
        What to do about a channel that the archive does not have: "refuse", or take its "mean" over the training,
        which the log says. Where a variable that is not read may be the channel by its name, it is refused all the
        same: `archive.open` takes ``names`` to say what it is, or that it is something else.
    uncertainty
        Add ``entropy`` of the probabilities and, where the detector has several opinions (an ensemble, or passes with
        dropout), ``mutual_information``, the part of it by which they disagree; float32 (time, lat, lon) in nats.

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
    channels = _channels(detector, fields, missing)
    there, back = _ways(detector, fields, regrid)

    def look(*blocks: np.ndarray) -> np.ndarray:
        # The channels stay apart: to put them together first would copy them all once more.
        maps = [block[0] for block in blocks]
        found = detector.look(maps if there is None else there(np.stack(maps)), uncertainty=uncertainty)
        return (found if back is None else back(found))[None]

    sizes, count = fields.sizes, len(detector.classes)
    added = detector.uncertainties if uncertainty else ()
    chunks = (channels[0].chunks[0], (count + len(added),), (sizes["lat"],), (sizes["lon"],))
    looked = da.map_blocks(
        look, *channels, dtype=np.float32, chunks=chunks, new_axis=1, meta=np.empty((0,) * 4, np.float32)
    )
    probabilities = looked[:, :count] if added else looked
    mask = probabilities.map_blocks(_classes, dtype=np.int8, drop_axis=1, meta=np.empty((0,) * 3, np.int8))

    coords = {name: fields.coords[name] for name in ("time", "lat", "lon") if name in fields.coords}
    found = xr.Dataset(
        {
            PROBABILITIES: (("time", CLASS, "lat", "lon"), probabilities, DETECTED[PROBABILITIES]),
            "mask": (("time", "lat", "lon"), mask, _mask_attributes(detector.classes)),
            **{
                name: (("time", "lat", "lon"), looked[:, count + number], DETECTED[name])
                for number, name in enumerate(added)
            },
        },
        {**coords, CLASS: list(detector.classes)},
        {"Conventions": "CF-1.11", "history": provenance(detector)},
    )
    return archive.restore(found.isel(time=0) if timeless else found)


def provenance(detector: Detector) -> str:
    """Say which software and which weights made a mask; the same for the same, so that outputs compare byte by byte."""
    made = f"climlab-dl {version('climlab-dl')}: detect"
    if not detector.identity:
        return made
    weights = ", ".join(f"{one.source} (step {one.step}, sha256 {one.sha256})" for one in detector.networks)
    passes = f", {detector.dropout_passes} passes with dropout from seed {detector.seed}"
    many = "checkpoints" if len(detector.networks) > 1 else "checkpoint"
    return f"{made} with {many} {weights}{passes if detector.dropout_passes else ''}"


def _mask_attributes(classes: tuple[str, ...]) -> dict[str, object]:
    values = np.arange(len(classes), dtype=np.int8)
    return {"long_name": "class of weather", "flag_values": values, "flag_meanings": " ".join(classes)}


def _channels(detector: Detector, fields: xr.Dataset, missing: str) -> list[da.Array]:
    """Give the channels as dask (time, lat, lon), one snapshot a chunk."""
    absent: dict[str, ValueError] = {}
    for name in detector.channels:
        try:
            fields = archive.require(fields, [name])
        except ValueError as error:
            absent[name] = error
    if absent and missing == "refuse":
        raise ValueError(
            f"{next(iter(absent.values()))} The network looks at {', '.join(detector.channels)}; there is no "
            f"{', '.join(absent)}. missing='mean' would take the mean of the training instead."
        )
    if absent:
        unread = list(dict.fromkeys(str(fields.attrs.get("unrecognised", "")).split()))
        _refuse_likely(absent, unread)
        besides = f"; not read: {', '.join(unread)}" if unread else ""
        log.warning(
            "the archive has no %s: taken to be the mean of the training everywhere%s", ", ".join(absent), besides
        )
    channels = []
    shape = tuple(fields.sizes[name] for name in ("time", "lat", "lon"))
    for name, mean in zip(detector.channels, detector.mean, strict=True):
        if name in absent:
            channels.append(da.full(shape, mean, dtype=np.float32, chunks=(1, *shape[1:])))
        else:
            values = fields[name].transpose("time", "lat", "lon").data
            channels.append(da.asarray(values).astype(np.float32).rechunk((1, -1, -1)))
    return channels


def _refuse_likely(absent: Iterable[str], unread: list[str]) -> None:
    """Raise ValueError where a channel that is missing may be there under a name that is not known."""
    for name in absent:
        if theirs := likely(name, unread) if name in FIELDS else "":
            raise ValueError(
                f"the archive has no {name}, but {theirs}, which is not read, may be it. Pass "
                f"names={{{theirs!r}: {name!r}}} to archive.open, or names={{{theirs!r}: None}} to archive.open "
                "if it is something else."
            )


def _ways(detector: Detector, fields: xr.Dataset, regrid: Method | None) -> tuple[Regridder | None, Regridder | None]:
    """Regridders to the grid that the network was trained on and back; None where the grid is the same, or is kept."""
    if regrid is None or detector.grid is None:
        return None, None
    ours = fields["lat"].values.astype(float), fields["lon"].values.astype(float)
    theirs = detector.grid
    if all(map(same_axis, ours, theirs)):
        return None, None
    log.warning(
        "the fields are on %d x %d, the network was trained on %d x %d: regridded (%s) and back",
        *map(len, ours), *map(len, theirs), regrid,
    )  # fmt: skip
    return regridder(*ours, *theirs, regrid), regridder(*theirs, *ours, "bilinear")


def _classes(probabilities: np.ndarray) -> np.ndarray:
    # Class by class, for numpy's argmax over an axis that is not the last goes pixel by pixel.
    highest, mask = probabilities[:, 0].copy(), np.zeros(probabilities[:, 0].shape, np.int8)
    for number in range(1, probabilities.shape[1]):
        mask[probabilities[:, number] > highest] = number
        np.maximum(highest, probabilities[:, number], out=highest)
    mask[np.isnan(highest)] = UNLABELLED  # all classes are unknown where one is
    return mask
