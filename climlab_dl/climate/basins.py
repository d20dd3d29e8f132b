"""Ocean basins of tropical cyclones."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Where Central America parts the Atlantic from the Pacific: latitudes, and longitudes 0..360, from Ecuador over
# Panama, Lake Nicaragua and Tehuantepec to Mexico; north of it 100W.
_DIVIDE_LAT = (0.0, 8.0, 9.0, 10.0, 12.0, 14.5, 16.5, 20.0)
_DIVIDE_LON = (282.0, 282.5, 280.0, 276.0, 274.0, 269.0, 265.5, 260.0)


def basin(lat: ArrayLike, lon: ArrayLike) -> NDArray[np.str_]:
    """Name the basin of positions in degrees, longitude in any convention.

    In the abbreviations of IBTrACS: NA North Atlantic (to 30E, with the Mediterranean), EP eastern North Pacific (to
    180), WP western North Pacific (100E to 180), NI North Indian (30E to 100E), SI South Indian (20E to 135E), SP South
    Pacific (135E to 70W), SA South Atlantic. From CSV, ``pandas.read_csv`` keeps NA with ``keep_default_na=False,
    na_values=[""]``, as `climlab_dl.events.read_tracks` does.
    """
    lat, lon = np.broadcast_arrays(np.asarray(lat, float), np.asarray(lon, float) % 360)
    divide = np.interp(lat, _DIVIDE_LAT, _DIVIDE_LON)
    north = np.select(
        [lon < 30, lon < 100, lon < 180, lon < divide],
        ["NA", "NI", "WP", "EP"],
        "NA",
    )
    south = np.select([lon < 20, lon < 135, lon < 290], ["SA", "SI", "SP"], "SA")
    return np.where(lat >= 0, north, south)
