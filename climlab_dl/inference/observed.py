"""Cyclones found against the centres that forecasters and analysts saw: IBTrACS, HURDAT2 and other tracks."""

from collections import defaultdict
from collections.abc import Hashable
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from climlab_dl.climate import sphere
from climlab_dl.climate.basins import basin
from climlab_dl.climate.fields import CYCLONE
from climlab_dl.climate.snapshots import Layout
from climlab_dl.inference.breakdown import Tally, tallied

By = Literal["event", "month", "basin"]


def against_tracks(mask: xr.DataArray, tracks: pd.DataFrame, *, by: By, max_km: float) -> pd.DataFrame:
    """Tally storms at the mask's times and on its grid.

    A centre is a hit if a cyclone's pixel is at most ``max_km`` away; a cyclone is a false alarm if no centre is that
    near to any of its pixels, and counts where its own centroid is.

    Raises
    ------
    ValueError
        No observation at any of the mask's times.
    """
    layout, mask = Layout.of(mask), mask if "time" in mask.dims else mask.expand_dims("time")
    index = mask.indexes.get("time")
    if not isinstance(index, pd.DatetimeIndex):
        raise ValueError(
            "tracks are of real dates, but the mask's times are not (a model's calendar, or none); compare its own "
            "tracks with events.match"
        )
    observed = tracks.assign(time=pd.to_datetime(tracks["time"]).dt.round("min"))
    at = observed.groupby("time").indices
    steps = [(step, time.round("min")) for step, time in enumerate(index) if time.round("min") in at]
    if not steps:
        raise ValueError(
            f"the tracks have no observation at the mask's times, {index[0]}..{index[-1]} "
            f"(they have {observed['time'].min()}..{observed['time'].max()})"
        )
    tallies: dict[Hashable, Tally] = defaultdict(Tally)
    for step, time in steps:
        classes = layout.arrange(mask.isel(time=step).transpose("lat", "lon").values)
        centres = observed.iloc[at[time]][["lat", "lon"]].to_numpy(float)
        centres = centres[_inside(layout, *centres.T)]
        for (lat, lon), verdict in _verdicts(classes == CYCLONE, layout, centres, max_km):
            group = {"event": "cyclone", "month": time.month, "basin": str(basin(lat, lon))}[by]
            setattr(tallies[group], verdict, getattr(tallies[group], verdict) + 1)
    return tallied(tallies or {"cyclone": Tally()}, "class" if by == "event" else by)


def _verdicts(
    found: NDArray[np.bool_], layout: Layout, centres: NDArray[np.float64], max_km: float
) -> list[tuple[tuple[float, float], str]]:
    """Say of each observed centre, and of each region that is near none, what it is and where."""
    labels, regions = sphere.connected(found, wrap=layout.wrap)
    rows, columns = np.nonzero(labels)
    lat, lon, of = layout.lat[rows], layout.lon[columns], labels[rows, columns]
    near = sphere.great_circle_km(centres[:, :1], centres[:, 1:], lat, lon) <= max_km
    hits: NDArray[np.bool_] = np.asarray(near.any(axis=1))
    told = [((y, x), "hits" if hit else "misses") for (y, x), hit in zip(centres, hits, strict=True)]
    alone = sorted(set(range(1, regions + 1)) - set(of[near.any(axis=0)].tolist()))
    return told + [(sphere.centroid(lat[of == region], lon[of == region]), "false_alarms") for region in alone]


def _inside(layout: Layout, lat: NDArray[np.float64], lon: NDArray[np.float64]) -> NDArray[np.bool_]:
    south, north = sphere.latitude_edges(layout.lat)[[0, -1]]
    west, east = sphere.longitude_edges(layout.lon)[[0, -1]]
    return (lat >= south) & (lat <= north) & (layout.wrap | ((lon - west) % 360 <= east - west))
