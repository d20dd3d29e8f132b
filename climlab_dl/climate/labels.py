"""Labels of pixels: masks of classes, several labellings as bits, what is neither; and what networks say of classes."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from climlab_dl.climate.fields import BACKGROUND, CLASSES, CYCLONE, RIVER, UNLABELLED

MASK = "mask"
LABELS = "labels"
"""Variable with every labelling of a source that has several: (time, annotator, lat, lon), one bit a class."""

CLASS = "class"
"""The dimension of `PROBABILITIES` before latitude and longitude, with the classes' names."""
PROBABILITIES = "probabilities"
DETECTED = {
    PROBABILITIES: {"long_name": "probability of each class of weather", "units": "1"},
    "entropy": {"long_name": "entropy of the probabilities of the classes, in nats", "units": "1"},
    "mutual_information": {
        "long_name": "mutual information of class and network: entropy from disagreement, in nats",
        "units": "1",
    },
}
"""Attributes of what `detect` gives beside the mask; all but `PROBABILITIES` are (time, lat, lon)."""

ANNOTATOR = "annotator"
"""The dimension of `LABELS` before latitude and longitude."""

EVERY = tuple(range(len(CLASSES)))
"""All classes: those of a mask that does not say that fewer were looked for."""
LABELS_ATTRIBUTES = {
    "long_name": "classes of weather as each annotator drew them",
    "flag_masks": np.array([1, 2], np.int8),
    "flag_meanings": " ".join(CLASSES[1:]),
}


def flags(kinds: Iterable[int]) -> dict[str, object]:
    """CF attributes of a mask that may hold these classes."""
    kinds = sorted(kinds)
    return {"flag_values": np.array(kinds, np.int8), "flag_meanings": " ".join(CLASSES[kind] for kind in kinds)}


MASK_ATTRIBUTES = {"long_name": "class of weather", **flags(EVERY)}


def flagged(attributes: Mapping[Any, Any]) -> tuple[int, ...]:
    """Classes that the CF attributes of a file's mask name; `EVERY` one where they name none, or others than ours.

    Raises
    ------
    ValueError
        When they give one of our classes another number than we do.
    """
    names = str(attributes.get("flag_meanings", "")).split()
    values = np.atleast_1d(attributes.get("flag_values", [])).tolist()
    said = dict(zip(names, values, strict=False))
    if any(said.get(name, number) != number for number, name in enumerate(CLASSES)):
        raise ValueError(
            f"the mask's flag_meanings say {', '.join(f'{number} {name}' for name, number in said.items())}; expected "
            f"{', '.join(f'{number} {name}' for number, name in enumerate(CLASSES))}. Renumber the mask and its flags."
        )
    ours = names and len(names) == len(values) and set(zip(values, names, strict=True)) <= set(enumerate(CLASSES))
    return tuple(values) if ours else EVERY


def as_mask(values: np.ndarray, where: str) -> np.ndarray:
    """Labels as int8 classes; what is missing becomes `UNLABELLED`.

    Raises
    ------
    ValueError
        When labels are not whole numbers, or none of the classes.
    """
    values = np.asarray(values)
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"{where}: labels are of type {values.dtype}; expected whole numbers 0 {CLASSES[0]}, 1 {CLASSES[1]}, "
            f"2 {CLASSES[2]}"
        )
    if values.dtype.kind == "f":
        values = _whole(values, where)
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if low < UNLABELLED or high > RIVER:
        raise ValueError(
            f"{where}: labels {low}..{high} are out of range; expected 0 {CLASSES[0]}, 1 {CLASSES[1]}, "
            f"2 {CLASSES[2]} (and {UNLABELLED} where nobody labelled). Renumber them, or open with "
            "names={'their name': None} to leave them out."
        )
    return values.astype(np.int8)


def _whole(values: np.ndarray, where: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        whole = values.astype(np.int8)
    if (whole == values).all():
        return whole
    values = np.where(np.isnan(values), UNLABELLED, values)
    odd = values[(values != np.rint(values)) | np.isinf(values)]
    if odd.size:
        raise ValueError(
            f"{where}: labels are not whole numbers (found {odd[0]:g}); expected classes 0 {CLASSES[0]}, "
            f"1 {CLASSES[1]}, 2 {CLASSES[2]}. If these are probabilities, label with their largest first."
        )
    return values


def as_bits(masks: np.ndarray) -> np.ndarray:
    """Masks as one bit a class: 1 cyclone, 2 river."""
    return np.where(masks == CYCLONE, 1, np.where(masks == RIVER, 2, 0)).astype(np.int8)


def as_classes(labels: np.ndarray) -> np.ndarray:
    """Bits of `as_bits` as classes; where both are set it is a cyclone, as in Kurth et al. 2018."""
    return np.where(labels & 1, CYCLONE, np.where(labels & 2, RIVER, BACKGROUND)).astype(np.int8)


def labelled(snapshot: xr.Dataset) -> np.ndarray:
    """Mask of a snapshot for a layout that knows no unlabelled pixels.

    Raises
    ------
    ValueError
        When it has some.
    """
    mask = snapshot[MASK].values
    if (mask == UNLABELLED).any():
        raise ValueError(
            f"The mask of {snapshot['time'].values} has {int((mask == UNLABELLED).sum())} unlabelled pixels "
            f"({UNLABELLED}), which this layout cannot say. Make them background first, with fields.mask.clip(min=0), "
            "or save as .nc or .zarr."
        )
    return mask
