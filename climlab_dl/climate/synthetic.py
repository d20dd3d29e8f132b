"""A seeded atmosphere with planted cyclones and rivers: the schema of a real archive, the truth known."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from climlab_dl.climate.fields import CAM5, CLASSES, CYCLONE, FIELDS, RIVER
from climlab_dl.climate.mesh import degrees_between

HOURS = 6
METRES_PER_KELVIN = 47.1  # of Z200 - Z1000, by the hypsometric equation


@dataclass(frozen=True)
class Vortex:
    """A round low: depth in Pa, radius of strongest wind in degrees, drift in degrees a step, core in K."""

    lat: float
    lon: float
    depth: float
    radius: float
    drift: tuple[float, float]
    core: float

    def wind(self) -> float:
        """Strongest 850 hPa wind in m/s, of the size that cyclostrophic balance gives for the depth."""
        return 5.5 * np.sqrt(self.depth / 100)


@dataclass(frozen=True)
class Band:
    """A moist band: from (lat, lon) it reaches `span` degrees poleward and eastward, `width` degrees to 1/e."""

    lat: float
    lon: float
    span: tuple[float, float]
    width: float
    moisture: float
    drift: float


def atmosphere(times: int = 8, shape: tuple[int, int] = (48, 96), seed: int = 0) -> xr.Dataset:
    """Make six-hourly snapshots of an ocean planet with storms whose place is known.

    Every field is a formula in latitude, longitude and time, so that one seed gives the same weather on any grid.
    Warm-core cyclones (from 13-24 degrees) drift westward and poleward; rivers (about 22-55 degrees)
    drift eastward; the first of each crosses longitude 0. Cold-core lows, round moist patches and the moist
    tropics are there to be told apart: no single channel gives a class away.

    Parameters
    ----------
    times
        Number of snapshots.
    shape
        Rows and columns of the global grid; rows lie half a step from the poles.
    seed
        Of the random generator.

    Returns
    -------
    xarray.Dataset
        The 16 CAM5 channels (time, lat, lon) in SI units, float32, one snapshot a chunk, and the truth ``mask``
        (int8: 0 background, 1 cyclone, 2 river).
    """
    rows, columns = shape
    if times < 1 or rows < 8 or columns < 16:
        raise ValueError(f"times={times}, shape={shape}: at least 1 snapshot of 8 x 16 cells is needed")
    lat = (np.arange(rows) + 0.5) * 180.0 / rows - 90.0
    lon = np.arange(columns) * 360.0 / columns
    rng = np.random.default_rng(seed)
    vortices = _vortices(rng)
    bands = _bands(rng)
    waves = rng.uniform((3, 0, 200), (8, 2 * np.pi, 450), size=(4, 3))
    snapshots = [_snapshot(lat[:, None], lon[None], step, vortices, bands, waves) for step in range(times)]

    start = np.datetime64("2001-08-01T00", "ns")
    coords = {
        "time": ("time", start + np.arange(times) * np.timedelta64(HOURS, "h"), {"standard_name": "time"}),
        "lat": ("lat", lat, {"units": "degrees_north", "standard_name": "latitude"}),
        "lon": ("lon", lon, {"units": "degrees_east", "standard_name": "longitude"}),
    }
    made = xr.Dataset(coords=coords, attrs={"title": "Synthetic atmosphere with planted storms", "seed": seed})
    for name in CAM5:
        about = FIELDS[name].attributes
        made[name] = ("time", "lat", "lon"), np.stack([fields[name] for fields, _ in snapshots]), about
    flags = {"flag_values": np.arange(len(CLASSES), dtype=np.int8), "flag_meanings": " ".join(CLASSES)}
    made["mask"] = ("time", "lat", "lon"), np.stack([mask for _, mask in snapshots]), flags
    return made.chunk(time=1)


def _vortices(rng: np.random.Generator) -> list[Vortex]:
    made = []
    for i, east in enumerate((0.0, 70.0, 130.0, 200.0, 285.0)):  # far enough apart never to meet
        side = (-1) ** i
        lat = side * rng.uniform(13, 24)
        lon = east + (1.0 if i == 0 else rng.uniform(-15, 15))
        drift = (side * rng.uniform(0.1, 0.3), -rng.uniform(0.4, 1.0))
        made.append(Vortex(lat, lon, rng.uniform(2500, 5000), rng.uniform(2.5, 3.5), drift, rng.uniform(4, 7)))
    for i, east in enumerate((40.0, 160.0, 250.0, 320.0)):
        side = (-1) ** i
        drift = (0.0, rng.uniform(0.5, 1.5))
        made.append(
            Vortex(side * rng.uniform(48, 60), east + rng.uniform(-15, 15), rng.uniform(2000, 3500), 5.0, drift, -4.0)
        )
    return made


def _bands(rng: np.random.Generator) -> list[Band]:
    made = []
    for i, east in enumerate((345.0, 55.0, 150.0, 230.0)):
        side = -((-1) ** i)
        lon = east + (0.0 if i == 0 else rng.uniform(-10, 10))
        span = (side * rng.uniform(24, 32), rng.uniform(28, 45))
        made.append(
            Band(side * rng.uniform(21, 26), lon, span, rng.uniform(2.6, 3.4), rng.uniform(24, 30), rng.uniform(0.5, 1))
        )
    # Round moist patches: as moist as a river, and none.
    for i, east in enumerate((20.0, 110.0, 190.0, 290.0)):
        side = (-1) ** i
        made.append(
            Band(side * rng.uniform(30, 40), east + rng.uniform(-10, 10), (0.0, 0.0), 4.0, 22.0, rng.uniform(0.5, 1))
        )
    return made


def _snapshot(
    lat: np.ndarray, lon: np.ndarray, step: int, vortices: list[Vortex], bands: list[Band], waves: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    phi = np.radians(lat)
    shape = np.broadcast_shapes(lat.shape, lon.shape)
    mask = np.zeros(shape, dtype=np.int8)
    ripple, psl, wave_u, wave_v = _waves(lat, lon, step, waves)
    psl = psl + 101300 + 700 * np.exp(-(((abs(lat) - 30) / 12) ** 2)) - 1800 * np.exp(-(((abs(lat) - 62) / 14) ** 2))
    u = wave_u - 6 * np.exp(-((lat / 15) ** 2)) + 9 * np.exp(-(((abs(lat) - 45) / 14) ** 2))
    v = wave_v + 0 * lat
    tmq = (40 * np.exp(-((lat / 21) ** 2)) + 5) * (1 + 0.08 * ripple)
    rain = 6e-8 * np.exp(-((lat / 8) ** 2)) * (1 + 0.5 * ripple) + 1e-8 + 0 * tmq
    core = np.zeros(shape)  # K at 500 hPa

    for band in bands:
        profile, east, north = _along(band, lat, lon, step)
        tmq = tmq + band.moisture * profile
        rain = rain + 1.5e-7 * profile
        if band.span != (0.0, 0.0):
            u, v = u + 16 * east * profile, v + 16 * north * profile
            mask[profile > 0.5] = RIVER
    for vortex in vortices:
        distance, east, north = _around(vortex, lat, lon, step)
        inside = distance / vortex.radius
        bell = np.exp(-0.5 * inside**2)
        speed = vortex.wind() * inside * np.exp(0.5 * (1 - inside**2))
        psl = psl - vortex.depth * bell
        u, v = u + speed * east, v + speed * north
        core = core + vortex.core * bell
        tmq = tmq + (20 if vortex.core > 0 else 4) * bell
        rain = rain + (5e-7 if vortex.core > 0 else 1e-7) * bell
        if vortex.core > 0:
            mask[inside < 1.5] = CYCLONE

    surface = 300 - 42 * np.sin(phi) ** 2 + 1.5 * ripple
    z1000 = (psl - 1e5) / 11.8
    saturation = 611.2 * np.exp(17.67 * (surface - 273.15) / (surface - 29.65))
    fields = {
        "TMQ": tmq,
        "U850": u,
        "V850": v,
        "UBOT": 0.75 * u,
        "VBOT": 0.75 * v,
        "QREFHT": 0.8 * 0.622 * saturation / psl,
        "PS": psl,
        "PSL": psl,
        "T200": 218 + 2 * np.sin(phi) ** 2 + 0.4 * core - 1.0 * ripple,
        "T500": 268 - 30 * np.sin(phi) ** 2 + core + 0.5 * ripple,
        "PRECT": np.maximum(rain, 0),
        "TS": surface + 1,
        "TREFHT": surface,
        "Z1000": z1000,
        "Z200": z1000 + 12350 - 1400 * np.sin(phi) ** 2 + METRES_PER_KELVIN * core + 20 * ripple,
        "ZBOT": 60 + 0 * psl,
    }
    return {name: np.broadcast_to(value, shape).astype(np.float32) for name, value in fields.items()}, mask


def _waves(lat: np.ndarray, lon: np.ndarray, step: int, waves: np.ndarray) -> tuple[np.ndarray, ...]:
    """Ripple (order 1, everywhere) and mid-latitude waves: pressure in Pa and the geostrophic wind of it in m/s."""
    phi, hemisphere = np.radians(lat), np.sign(lat)
    envelope = np.exp(-(((abs(lat) - 48) / 13) ** 2))
    slope = -2 * (abs(lat) - 48) / 13**2 * hemisphere * envelope * 180 / np.pi / 6.371e6  # per metre northward
    coriolis = 1.458e-4 * np.sin(phi)
    coriolis = np.where(abs(coriolis) < 5e-5, 5e-5 * np.where(hemisphere < 0, -1, 1), coriolis)
    ripple = psl = u = v = 0.0
    for number, phase, height in waves:
        number = round(number)
        angle = number * np.radians(lon) + phase * (1 + 0.5 * hemisphere) - 0.1 * step
        ripple = ripple + np.cos(number * np.radians(lon) + phase + 4 * phi - 0.1 * step) / 2
        psl = psl + height * np.cos(angle) * envelope
        u = u - height * np.cos(angle) * slope / (1.1 * coriolis)
        v = v - height * number * np.sin(angle) * envelope / (1.1 * coriolis * 6.371e6 * np.cos(phi))
    return ripple, psl, u, v  # type: ignore[return-value]


def _around(vortex: Vortex, lat: np.ndarray, lon: np.ndarray, step: int) -> tuple[np.ndarray, ...]:
    """Degrees from the centre, and the eastward and northward parts of the cyclonic unit vector."""
    centre = float(np.clip(vortex.lat + step * vortex.drift[0], -60, 60)), vortex.lon + step * vortex.drift[1]
    phi, phi0, turn = np.radians(lat), np.radians(centre[0]), np.radians(centre[1] - lon)
    inward = np.arctan2(
        np.sin(turn) * np.cos(phi0), np.cos(phi) * np.sin(phi0) - np.sin(phi) * np.cos(phi0) * np.cos(turn)
    )
    spin = np.sign(vortex.lat)
    return degrees_between(*centre, lat, lon), spin * np.cos(inward), -spin * np.sin(inward)


def _along(band: Band, lat: np.ndarray, lon: np.ndarray, step: int) -> tuple[np.ndarray, float, float]:
    """Moisture profile (1 on the axis) of a band, and the direction of its flow."""
    parts = np.linspace(0, 1, 40 if band.span != (0.0, 0.0) else 1)
    lats = band.lat + band.span[0] * parts**1.2
    lons = band.lon + step * band.drift + band.span[1] * parts
    near = np.full(np.broadcast_shapes(lat.shape, lon.shape), np.inf)
    for point in zip(lats, lons, strict=True):
        near = np.minimum(near, degrees_between(*point, lat, lon))
    length = float(np.hypot(band.span[0], 0.8 * band.span[1])) or 1.0
    return np.exp(-((near / band.width) ** 2)), 0.8 * band.span[1] / length, band.span[0] / length
