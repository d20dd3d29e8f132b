"""Scores broken down: by month, ocean basin and cell, and by storm, which counts as found if any of it was."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from climlab_dl.climate import sphere
from climlab_dl.climate.basins import basin
from climlab_dl.climate.fields import CLASSES
from climlab_dl.inference.confusion import Counts, count, none, pairs, scores

VERDICTS = ("hits", "misses", "false_alarms")


@dataclass(kw_only=True)
class Tally:
    """Storms that were found, that were not, and that were found where none is."""

    hits: int = 0
    misses: int = 0
    false_alarms: int = 0


def by_month(mask: xr.DataArray, truth: xr.DataArray) -> pd.DataFrame:
    """Scores of each month of the year, 1 to 12, that mask and truth both have.

    Raises
    ------
    ValueError
        Times that are no dates.
    """
    counts: dict[int, Counts] = defaultdict(none)
    for pair in pairs(mask, truth)[1]:
        if not pair.month:
            raise ValueError(
                "the times of mask and truth are no dates, so they have no months; break down by='basin' or by='event'"
            )
        counts[pair.month] += count(pair.found, pair.real)
    return _scored(counts, "month")


def by_basin(mask: xr.DataArray, truth: xr.DataArray) -> pd.DataFrame:
    """Scores of each ocean basin of `climate.basins` that the grid touches."""
    layout, both = pairs(mask, truth)
    codes = basin(layout.lat[:, None], layout.lon)
    inside = {str(code): codes == code for code in np.unique(codes)}
    counts = {code: none() for code in inside}
    for pair in both:
        for code, cells in inside.items():
            counts[code] += count(pair.found[cells], pair.real[cells])
    return _scored(counts, "basin")


def by_event(mask: xr.DataArray, truth: xr.DataArray) -> pd.DataFrame:
    """Storms of each class, the connected regions of each snapshot.

    A true one is a hit if the mask overlaps it in its class; a false alarm overlaps no true one.
    """
    layout, both = pairs(mask, truth)
    tallies = {name: Tally() for name in CLASSES[1:]}
    for pair in both:
        for number, name in enumerate(CLASSES[1:], start=1):
            real, reals = sphere.connected(pair.real == number, wrap=layout.wrap)
            found, founds = sphere.connected(pair.found == number, wrap=layout.wrap)
            same = (real > 0) & (found > 0)
            hits, confirmed = len(np.unique(real[same])), len(np.unique(found[same]))
            tallies[name].hits += hits
            tallies[name].misses += reals - hits
            tallies[name].false_alarms += founds - confirmed
    return tallied(tallies, "class")


def by_cell(mask: xr.DataArray, truth: xr.DataArray) -> xr.Dataset:
    """Count, at each cell, the snapshots in which a class was a hit, a miss or a false alarm."""
    layout, both = pairs(mask, truth)
    shape = (len(VERDICTS), len(CLASSES) - 1, len(layout.lat), len(layout.lon))
    counts, snapshots = np.zeros(shape, np.int32), np.zeros(shape[2:], np.int32)
    for pair in both:
        snapshots += pair.real >= 0
        for number in range(1, len(CLASSES)):
            real, found = pair.real == number, pair.found == number
            for verdict, cells in enumerate((real & found, real & ~found & (pair.found >= 0), found & ~real)):
                counts[verdict, number - 1] += cells
    said = ("class was found and is there", "class is there and was not found", "class was found and is not there")
    variables: dict[str, Any] = {
        name: (("class", "lat", "lon"), number, {"long_name": f"snapshots in which the {text}", "units": "1"})
        for name, number, text in zip(VERDICTS, counts, said, strict=True)
    }
    variables["snapshots"] = (("lat", "lon"), snapshots, {"long_name": "snapshots that were compared", "units": "1"})
    return xr.Dataset(variables, {"class": list(CLASSES[1:]), "lat": layout.lat, "lon": layout.lon % 360})


def tallied(tallies: Mapping[Any, Tally], name: str) -> pd.DataFrame:
    """Table of tallies, a row each, with ``found``, ``false`` and ``csi``; NaN where there is nothing to divide by."""
    table = pd.DataFrame.from_dict({key: vars(tallies[key]) for key in sorted(tallies)}, orient="index")
    hits, misses, alarms = (table[verdict].astype(float) for verdict in VERDICTS)
    return table.rename_axis(name).assign(
        found=hits / (hits + misses), false=alarms / (hits + alarms), csi=hits / (hits + misses + alarms)
    )


def _scored(counts: Mapping[Any, Counts], name: str) -> pd.DataFrame:
    rows = {key: scores(counts[key]) for key in sorted(counts)}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(name)
