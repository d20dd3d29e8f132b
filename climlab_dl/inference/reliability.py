"""How much a probability can be believed: reliability by bins, and the Brier score."""

import numpy as np
import pandas as pd
import xarray as xr

from climlab_dl.climate.fields import CLASSES
from climlab_dl.inference.confusion import at_the_same_times


def reliability(probabilities: xr.DataArray, truth: xr.DataArray, *, bins: int = 10) -> pd.DataFrame:
    """Compare probabilities with how often they came true.

    Parameters
    ----------
    probabilities
        Of each class, (time, class, lat, lon).
    truth
        Classes (time, lat, lon) at the same times; pixels that nobody labelled, and those without a probability, do
        not count.
    bins
        Of equal width from 0 to 1.

    Returns
    -------
    DataFrame
        A row for each class and bin that has pixels: ``class``, ``forecast`` (mean probability), ``observed`` (share
        that is of the class), ``pixels``. In ``attrs``: ``brier``, the mean squared error by class, and
        ``brier_of_frequency``, that of always saying the class's own frequency (Brier 1950; Murphy 1973).
        `plot.diagrams.reliability` draws it.

    Raises
    ------
    ValueError
        Different grids, no time in common, or no bins.
    """
    if bins < 1:
        raise ValueError(f"bins is {bins}; give 1 or more, 10 are usual")
    (ours, theirs), (probabilities, truth) = at_the_same_times(probabilities, truth, "probabilities")
    count, total, true = np.zeros((3, len(CLASSES), bins))
    squares, hits, pixels = np.zeros(len(CLASSES)), np.zeros(len(CLASSES)), 0
    for step in range(probabilities.sizes["time"]):
        real = theirs.arrange(truth.isel(time=step).transpose("lat", "lon").values).ravel()
        chances = probabilities.isel(time=step).transpose("class", "lat", "lon").values
        chance = np.stack([ours.arrange(layer).ravel() for layer in chances]).astype(np.float64)
        known = (real >= 0) & np.isfinite(chance).all(axis=0)
        pixels += int(known.sum())
        for kind in range(len(CLASSES)):
            p, is_class = chance[kind, known], real[known] == kind
            place = np.minimum((p * bins).astype(int), bins - 1)
            count[kind] += np.bincount(place, minlength=bins)
            total[kind] += np.bincount(place, p, minlength=bins)
            true[kind] += np.bincount(place, is_class, minlength=bins)
            squares[kind] += np.square(p - is_class).sum()
            hits[kind] += is_class.sum()
    kinds, places = np.nonzero(count)
    table = pd.DataFrame(
        {
            "class": [CLASSES[kind] for kind in kinds],
            "forecast": (total / np.maximum(count, 1))[kinds, places],
            "observed": (true / np.maximum(count, 1))[kinds, places],
            "pixels": count[kinds, places].astype(np.int64),
        }
    )
    frequency = hits / max(pixels, 1)
    table.attrs["brier"] = dict(zip(CLASSES, (squares / max(pixels, 1)).tolist(), strict=True))
    table.attrs["brier_of_frequency"] = dict(zip(CLASSES, (frequency * (1 - frequency)).tolist(), strict=True))
    return table
