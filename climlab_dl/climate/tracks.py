"""Events followed through time: linked by overlap and great-circle distance, with merges and splits recorded."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import cftime
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from climlab_dl.climate import sphere
from climlab_dl.climate.shapes import Regions


@dataclass(frozen=True, kw_only=True)
class Linking:
    """When two events at different times are the same storm.

    Parameters
    ----------
    max_speed_km_day
        Fastest move of a centroid, in km per day. Events whose cells overlap may move faster, as a river's centroid
        does when it merges with another. 1600 km/day is the default of TECA's ``teca_tc_trajectory``.
    max_gap_hours
        Longest time between two sightings of one storm, in hours; 24 as in the ``StitchNodes`` examples of
        TempestExtremes. A longer gap in the archive ends every track.

    Raises
    ------
    ValueError
        Where a number is not positive.
    """

    max_speed_km_day: float = 1600.0
    max_gap_hours: float = 24.0

    def __post_init__(self) -> None:
        for name in ("max_speed_km_day", "max_gap_hours"):
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"{name} must be above 0; got {value!r}")


@dataclass(frozen=True, kw_only=True)
class _Sighting:
    """Where and when a track was last seen."""

    track: int
    event: int
    kind: int
    lat: float
    lon: float
    area_km2: float
    hours: float


@dataclass(kw_only=True)
class Tracker:
    """Gives the events of one snapshot after the other the numbers of their tracks.

    It remembers the last sighting of each open track and the regions of the previous snapshot, nothing else.
    """

    linking: Linking
    merged_into: dict[int, int] = field(default_factory=dict)  # last event of a track -> the track that took it up
    split_from: dict[int, int] = field(default_factory=dict)  # first event of a track -> the track that it left
    _open: list[_Sighting] = field(default_factory=list)
    _regions: Regions | None = None
    _events: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))
    _tracks: int = 0

    def restart(self) -> None:
        """End every track: the next snapshot is of another series."""
        self._open, self._regions = [], None

    def follow(
        self, hours: float, regions: Regions, kinds: NDArray[np.integer], events: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Link the regions of the next snapshot.

        Parameters
        ----------
        hours
            Time of the snapshot in hours since any instant.
        regions, kinds
            Its regions and the class of each; storms of different classes are never linked.
        events
            Number of each region's event; 0 leaves the region out.

        Returns
        -------
        numpy.ndarray
            Number of each region's track, from 1; 0 where left out.
        """
        past = [seen for seen in self._open if hours - seen.hours <= self.linking.max_gap_hours]
        used = np.flatnonzero(events)
        shared_km2 = self._shared_km2(past, regions, kinds)[:, used]
        parent = self._parents(past, hours, regions, kinds, used, shared_km2)

        tracks = np.zeros(regions.count, np.intp)
        for j, region in enumerate(used):
            if parent[j] >= 0:
                tracks[region] = past[parent[j]].track
                continue
            self._tracks += 1
            tracks[region] = self._tracks
            if shared_km2[:, j].any():
                self.split_from[int(events[region])] = past[int(shared_km2[:, j].argmax())].track

        lost = []
        for i in sorted(set(range(len(past))) - set(parent.tolist())):
            if shared_km2[i].any():
                self.merged_into[past[i].event] = int(tracks[used[shared_km2[i].argmax()]])
            else:
                lost.append(past[i])  # may be seen again
        lat, lon = regions.centroids
        seen = [
            _Sighting(
                track=int(tracks[region]),
                event=int(events[region]),
                kind=int(kinds[region]),
                lat=float(lat[region]),
                lon=float(lon[region]),
                area_km2=float(regions.area_km2[region]),
                hours=hours,
            )
            for region in used
        ]
        self._open, self._regions, self._events = lost + seen, regions, events
        return tracks

    def _shared_km2(self, past: list[_Sighting], regions: Regions, kinds: NDArray[np.integer]) -> NDArray[np.float64]:
        """Area that each past event (if in the previous snapshot) and each region of its class have in common."""
        shared = np.zeros((len(past), regions.count))
        if self._regions is None or not past or not regions.count:
            return shared
        number = {seen.event: i for i, seen in enumerate(past)}
        owner = np.array([-1, *(number.get(event, -1) for event in self._events.tolist())])
        before = owner[self._regions.labels[regions.cells]]
        both = before >= 0
        pair = before[both] * regions.count + regions.member[both]
        shared += np.bincount(pair, regions.areas[regions.cells][both], minlength=shared.size).reshape(shared.shape)
        return shared * (np.array([seen.kind for seen in past])[:, None] == kinds)

    def _parents(
        self,
        past: list[_Sighting],
        hours: float,
        regions: Regions,
        kinds: NDArray[np.integer],
        used: NDArray[np.intp],
        shared_km2: NDArray[np.float64],
    ) -> NDArray[np.intp]:
        """Which past event each used region continues, -1 for none: the one-to-one choice of least total cost.

        The cost of a pair is its distance, as a share of the farthest allowed, plus the share of the smaller one of
        the two areas that is not in common.
        """
        parent = np.full(len(used), -1, np.intp)
        if not past or not len(used):
            return parent
        from scipy.optimize import linear_sum_assignment

        lat, lon = (degrees[used] for degrees in regions.centroids)
        kind, past_lat, past_lon, past_area, past_hours = (
            np.array([getattr(seen, name) for seen in past])[:, None]
            for name in ("kind", "lat", "lon", "area_km2", "hours")
        )
        allowed_km = self.linking.max_speed_km_day * (hours - past_hours) / 24
        distance_km = sphere.great_circle_km(past_lat, past_lon, lat, lon)
        possible = (kind == kinds[used]) & ((shared_km2 > 0) | (distance_km <= allowed_km))
        far = np.minimum(distance_km / np.maximum(allowed_km, 1e-6), 2)
        apart = 1 - shared_km2 / np.minimum(past_area, regions.area_km2[used])
        impossible = 4.0 * (len(past) + len(used))  # dearer than any set of possible pairs
        chosen = linear_sum_assignment(np.where(possible, far + apart, impossible))
        for i, j in zip(*chosen, strict=True):
            if possible[i, j]:
                parent[j] = i
        return parent


def hours_since_first(times: NDArray) -> NDArray[np.float64] | None:
    """Hours since the first of some times (datetime64 or cftime, any calendar); None where they are no dates."""
    if not len(times):
        return np.empty(0)
    if isinstance(times[0], cftime.datetime):
        return np.array([(time - times[0]) / timedelta(hours=1) for time in times])
    if np.issubdtype(times.dtype, np.datetime64) and not np.isnat(times).any():
        return (times - times[0]) / np.timedelta64(1, "h")
    return None


def time_text(time: Any) -> str | None:
    """Write a time as ISO 8601 to the second, cftime in its own calendar; None for no time."""
    if isinstance(time, cftime.datetime):
        return time.isoformat(timespec="seconds")
    if isinstance(time, (np.datetime64, datetime)):
        return None if pd.isna(time) else pd.Timestamp(time).isoformat(timespec="seconds")
    return None if time is None or time is pd.NaT else str(time)
