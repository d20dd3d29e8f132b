"""How strong: the Saffir-Simpson scale for cyclones and the scale of Ralph et al. for atmospheric rivers."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

KNOT_M_S = 1852 / 3600

# Lower bounds in knots of tropical storm and hurricane categories 1 to 5 (Saffir-Simpson Hurricane Wind Scale of the
# National Hurricane Center, revision of 2012): 63, 119, 154, 178, 209, 252 km/h.
SAFFIR_SIMPSON_KNOTS = (34.0, 64.0, 83.0, 96.0, 113.0, 137.0)

# Ralph et al. 2019, BAMS 100(2), fig. 4: transport bounds in kg m-1 s-1, duration bounds in hours.
RIVER_IVT_KG_M_S = (250.0, 500.0, 750.0, 1000.0, 1250.0)
RIVER_HOURS = (24.0, 48.0)


def saffir_simpson(wind_m_s: ArrayLike) -> NDArray[np.int8]:
    """Rate the sustained 10 m wind in m/s: -1 tropical depression, 0 tropical storm, 1 to 5 hurricane.

    The numbers are those of IBTrACS' ``usa_sshs``. NaN is rated -1. The scale is defined for one-minute means at 10 m;
    grid-cell means of a model, and winds of its lowest level, are not the same thing, and coarse grids rate low.
    """
    knots = np.round(np.nan_to_num(np.asarray(wind_m_s, float), nan=0.0) / KNOT_M_S, 6)
    return (np.searchsorted(SAFFIR_SIMPSON_KNOTS, knots, side="right") - 1).astype(np.int8)


def river_scale(ivt_kg_m_s: ArrayLike, hours: ArrayLike) -> NDArray[np.int8]:
    """Rate an atmospheric river at a place, 0 (none) to 5, as in Ralph et al. 2019.

    Parameters
    ----------
    ivt_kg_m_s
        Largest integrated vapour transport at the place while the river was there, in kg m-1 s-1.
    hours
        How long the transport stayed at 250 kg m-1 s-1 or more without a break.

    Returns
    -------
    numpy.ndarray
        int8 rating. The transport gives a preliminary category (250: 1, 500: 2, 750: 3, 1000: 4, 1250: 5); less than
        24 h lowers it by one, 48 h or more raise it by one, to 5 at most.

    References
    ----------
    F. M. Ralph et al. (2019), A scale to characterize the strength and impacts of atmospheric rivers, BAMS 100(2),
    269-289, doi:10.1175/BAMS-D-18-0023.1, fig. 4.
    """
    ivt = np.nan_to_num(np.asarray(ivt_kg_m_s, float), nan=0.0)
    preliminary = np.searchsorted(RIVER_IVT_KG_M_S, ivt, side="right")
    by_duration = np.searchsorted(RIVER_HOURS, np.asarray(hours, float), side="right") - 1
    return np.where(preliminary > 0, np.clip(preliminary + by_duration, 0, 5), 0).astype(np.int8)


class RiverSpells:
    """How long and how strongly rivers have been over each place, followed through time.

    Parameters
    ----------
    max_gap_hours
        A longer time between two snapshots ends every spell.
    """

    def __init__(self, max_gap_hours: float) -> None:
        self.max_gap_hours = max_gap_hours
        self._hours: NDArray[np.float64] = np.zeros(())
        self._ivt: NDArray[np.float64] = np.zeros(())
        self.restart()

    def restart(self) -> None:
        """End every spell: the next snapshot is of another series."""
        self._last = np.nan

    def rate(
        self, hours: float, step_hours: float, river: NDArray[np.bool_], ivt: NDArray[np.floating]
    ) -> NDArray[np.int8]:
        """Take up the next snapshot and rate each place, 0..5, by its spell so far.

        Parameters
        ----------
        hours
            Time of the snapshot in hours since any instant.
        step_hours
            How long a river lasts, in hours, that is in this snapshot and not in the one before.
        river
            Where there is a river (lat, lon).
        ivt
            Integrated vapour transport (lat, lon) in kg m-1 s-1.
        """
        since = hours - self._last
        if not since <= self.max_gap_hours:  # or there was none before
            self._hours = self._ivt = np.zeros(river.shape)
        goes_on = river & (ivt >= RIVER_IVT_KG_M_S[0])
        added = np.where(self._hours > 0, since, step_hours)
        self._hours = np.where(goes_on, self._hours + added, 0.0)
        self._ivt = np.where(goes_on, np.fmax(self._ivt, ivt), 0.0)
        self._last = hours
        ratings = np.zeros(river.shape, np.int8)
        ratings[goes_on] = river_scale(self._ivt[goes_on], self._hours[goes_on])
        return ratings
