"""Scores broken down: by month, by ocean basin, and by event, where a storm counts as found if any of it was."""

import pandas as pd
import xarray as xr

from climlab_dl.climate import events
from climlab_dl.climate.basins import basin
from climlab_dl.climate.fields import CLASSES, UNLABELLED
from climlab_dl.inference.detect import evaluate


def by_month(mask: xr.DataArray, truth: xr.DataArray) -> pd.DataFrame:
    """Score each month of the year by itself.

    Parameters
    ----------
    mask, truth
        Classes (time, lat, lon) with dates, as for `evaluate`.

    Returns
    -------
    DataFrame
        The columns of `evaluate` for the mask; a row for each month, 1 to 12, that both have.

    Raises
    ------
    ValueError
        Different grids, or no time in common.
    """
    common = mask.indexes["time"].intersection(truth.indexes["time"])
    if len(common) == 0:
        raise ValueError("mask and truth have no time in common")
    rows = {}
    for month in sorted(set(common.month)):
        times = common[common.month == month]
        rows[month] = evaluate(mask.sel(time=times), truth.sel(time=times)).loc["detected"]
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("month")


def by_basin(mask: xr.DataArray, truth: xr.DataArray) -> pd.DataFrame:
    """Score each ocean basin by itself.

    Parameters
    ----------
    mask, truth
        Classes (time, lat, lon), as for `evaluate`.

    Returns
    -------
    DataFrame
        The columns of `evaluate` for the mask; a row for each basin of `climate.basins` that the truth's grid touches.

    Raises
    ------
    ValueError
        Different grids, or no time in common.
    """
    lat, lon = xr.broadcast(truth["lat"], truth["lon"])
    codes = lat.copy(data=basin(lat.values, lon.values))
    rows = {}
    for code in sorted(set(codes.values.ravel().tolist()) - {""}):
        rows[code] = evaluate(mask, truth.where(codes == code, UNLABELLED)).loc["detected"]
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("basin")


def by_event(mask: xr.DataArray, truth: xr.DataArray) -> pd.DataFrame:
    """Count storms: a true one is a hit if the mask overlaps it in its class; a false alarm overlaps no true one.

    Parameters
    ----------
    mask, truth
        Classes (time, lat, lon) on one grid, as for `evaluate`; connected regions of each snapshot are the storms.

    Returns
    -------
    DataFrame
        A row for each class but the background: ``hits``, ``misses``, ``false_alarms``; ``found`` the share of true
        storms that are hit (probability of detection), ``false`` the share of those found that are not there (false
        alarm ratio), and ``csi``, hits over hits, misses and false alarms (critical success index; Wilks 2011, ch. 8).
    """
    counts = {name: dict.fromkeys(("hits", "misses", "false_alarms"), 0) for name in CLASSES[1:]}
    mask, truth = xr.align(mask, truth, join="inner")
    for step in range(mask.sizes["time"]):
        found, real = mask.isel(time=step), truth.isel(time=step).transpose(*mask.isel(time=step).dims)
        for number, name in enumerate(CLASSES[1:], start=1):
            same = (found.values == number) & (real.values == number)
            true_regions = events.regions(real.where(real == number, 0)).values
            found_regions = events.regions(found.where(found == number, 0)).values
            hit = len(set(true_regions[same].tolist()))
            confirmed = len(set(found_regions[same].tolist()))
            counts[name]["hits"] += hit
            counts[name]["misses"] += true_regions.max() - hit
            counts[name]["false_alarms"] += found_regions.max() - confirmed
    table = pd.DataFrame.from_dict(counts, orient="index").rename_axis("class")
    hits, misses, alarms = (table[name].astype(float) for name in ("hits", "misses", "false_alarms"))
    return table.assign(
        found=hits / (hits + misses), false=alarms / (hits + alarms), csi=hits / (hits + misses + alarms)
    )
