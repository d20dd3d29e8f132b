"""Cyclone centres through time: points that are one storm get one track, and short or weak tracks are dropped."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from climlab_dl.climate import sphere
from climlab_dl.climate.tracks import hours_since_first


@dataclass(frozen=True, kw_only=True)
class Stitching:
    """When centres are one track, and which tracks are tropical cyclones.

    Parameters
    ----------
    speed
        Fastest move between two sightings, km per day.
    reach
        Farthest move between two sightings, km.
    gap
        Longest time between two sightings, hours; 0 for the archive's own step.
    duration
        Least time from the first to the last sighting, hours.
    wind, strong
        Surface wind in m/s that must be reached for `strong` hours in total, not necessarily on end; each sighting
        counts for one step of the archive.
    flags
        Columns that must be true for a sighting to count as strong.
    latitude
        Degrees poleward of which a sighting does not count as strong.
    """

    speed: float = 1600.0
    reach: float = np.inf
    gap: float = 0.0
    duration: float = 0.0
    wind: float = 17.0
    strong: float = 48.0
    flags: tuple[str, ...] = ()
    latitude: float = 90.0

    def __post_init__(self) -> None:
        for name in ("speed", "reach"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be positive, or infinite for no limit")
        for name in ("gap", "duration", "wind", "strong"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} must be 0 (not asked) or more")

    @classmethod
    def teca(cls) -> "Stitching":
        """Return TECA's: 1600 km/day; 17 m/s with warm core and thickness for two days."""
        return cls(flags=("has_warm_core", "has_thickness"))

    @classmethod
    def tstorms(cls) -> "Stitching":
        """Return GFDL's for TSTORMS: 900 km/day; 17 m/s with a warm core for two days, within 40 degrees."""
        return cls(speed=900.0, flags=("has_warm_core",), latitude=40.0)

    @classmethod
    def tempest(cls) -> "Stitching":
        """Return TempestExtremes': moves of 8 degrees, gaps of a day, 54 h long, 10 m/s for 60 h within 50 degrees.

        TempestExtremes asks for ten six-hourly sightings, which are 60 h, on low ground; there is no such check here.
        """
        reach = 8.0 * np.radians(1.0) * sphere.EARTH_RADIUS_KM
        return cls(speed=np.inf, reach=reach, gap=24.0, duration=54.0, wind=10.0, strong=60.0, latitude=50.0)


def stitch(candidates: pd.DataFrame, rule: Stitching, step: float | None = None) -> pd.DataFrame:
    """Join candidates to tracks by great-circle distance and keep the tracks that satisfy the rule.

    From each time to the next the nearest pair of an open track and a candidate is joined first, then the next
    nearest of what is left; so the order of the rows does not matter.

    Parameters
    ----------
    candidates
        Rows of `heuristics.cyclone_candidates`: time (dates of any calendar), lat, lon, wind and the rule's flags;
        with a column ``run``, runs are tracked apart.
    rule
        Distances and durations.
    step
        Hours between the archive's snapshots; by default the shortest time between candidates.

    Returns
    -------
    pandas.DataFrame
        The candidates that belong to a track, with its number in ``track`` (from 0, by run and first sighting),
        sorted by track and time.

    Raises
    ------
    ValueError
        When a column is missing, or the times are no dates.
    """
    needed = {"time", "lat", "lon", "wind", *rule.flags}
    if missing := needed - set(candidates.columns):
        raise ValueError(f"the candidates lack {sorted(missing)}; they have {list(candidates.columns)}")
    if candidates.empty:
        return candidates.assign(track=pd.Series(dtype=int))
    runs = ["run"] if "run" in candidates else []
    table = candidates.sort_values([*runs, "time", "lat", "lon"], ignore_index=True)
    hours = hours_since_first(table["time"].to_numpy())
    if hours is None:
        raise ValueError(f"the candidates' times are no dates: {table['time'].iloc[0]!r}; give the fields a time axis")
    steps = np.diff(np.unique(hours))
    step = step or (float(steps.min()) if steps.size else 0.0)
    gap = max(rule.gap, step)
    lat, lon = table["lat"].to_numpy(), table["lon"].to_numpy()

    track = np.full(len(table), -1)
    for rows in table.groupby(runs).indices.values() if runs else [np.arange(len(table))]:
        track[rows] = _join(hours[rows], lat[rows], lon[rows], rule, gap) + track.max() + 1
    strong = (table["wind"].to_numpy() >= rule.wind) & (np.abs(lat) <= rule.latitude)
    for flag in rule.flags:
        strong &= table[flag].to_numpy(dtype=bool)
    # The points of a track are sorted by time, so its first is the first in the table.
    first = hours[np.unique(track, return_index=True)[1]]
    last = hours[len(track) - 1 - np.unique(track[::-1], return_index=True)[1]]
    long_enough = last - first >= rule.duration
    keep = long_enough & (np.bincount(track, strong * step) >= rule.strong)
    table["track"] = np.where(keep, np.cumsum(keep) - 1, -1)[track]
    return table.loc[table["track"] >= 0].sort_values(["track", "time"], ignore_index=True)


def _join(hours: np.ndarray, lat: np.ndarray, lon: np.ndarray, rule: Stitching, gap: float) -> np.ndarray:
    """Track number of each point; the points are sorted by time."""
    track = np.full(len(hours), -1)
    times, begin = np.unique(hours, return_index=True)
    tips: list[int] = []  # last sighting of each open track
    count = 0
    for now, points in zip(times, np.split(np.arange(len(hours)), begin[1:]), strict=True):
        tips = [tip for tip in tips if now - hours[tip] <= gap * (1 + 1e-9)]
        old = np.array(tips, dtype=int)
        distance = sphere.great_circle_km(lat[old][:, None], lon[old][:, None], lat[points], lon[points])
        limit = np.minimum(rule.reach, rule.speed * (now - hours[old]) / 24)[:, None]
        rows, columns = np.nonzero(distance <= limit)
        for i in np.argsort(distance[rows, columns], kind="stable"):
            tip, point = int(old[rows[i]]), int(points[columns[i]])
            if tip in tips and track[point] < 0:
                track[point] = track[tip]
                tips.remove(tip)
        for point in points[track[points] < 0]:
            track[point] = count
            count += 1
        tips += points.tolist()
    return track
