"""The fields of the atmosphere that this package knows: the 16 channels of CAM5 and what rules need besides.

Units are SI throughout. ``limits`` are what the atmosphere (and a model of it) can produce, wide enough for the
extremes of 121,266 snapshots of CAM5 that the DeepCAM statistics file records, and narrow enough that hPa for
Pa, degrees Celsius for kelvin, mm for m or an undeclared fill value fall outside.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

CLASSES = ("background", "cyclone", "river")
BACKGROUND, CYCLONE, RIVER = 0, 1, 2
UNLABELLED = -1
"""Mask value of a pixel that nobody has labelled: left out of losses, scores and statistics."""

GRAVITY = 9.80665
"""Standard gravity in m/s2, which turns geopotential into geopotential height."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A two-dimensional field: what it is called, in which unit, and which values are possible.

    Attributes
    ----------
    name : str
        Name in CAM5, the vocabulary of this package.
    unit : str
        SI unit, as in CF (``"kg m-2"``).
    long_name, standard_name : str
        For people, and from the CF table (empty where CF has none).
    limits : tuple of float
        Lowest and highest physically possible value.
    display : tuple of float
        Limits of a colour scale that shows the weather.
    diverging : bool
        Whether the colours should part at zero.
    aliases : tuple of str
        Names in ERA5, CMIP, MERRA-2, GFS, WRF and CESM files; case does not matter.
    family : str
        Name of the field on levels that it is a cut of (``"U"`` for U850), or empty.
    level : float
        Pressure of that cut in hPa, or 0.
    """

    name: str
    unit: str
    long_name: str
    standard_name: str
    limits: tuple[float, float]
    display: tuple[float, float]
    diverging: bool = False
    aliases: tuple[str, ...] = ()
    family: str = ""
    level: float = 0

    @property
    def attributes(self) -> dict[str, str]:
        """CF attributes of a variable that holds this field."""
        named = {"standard_name": self.standard_name} if self.standard_name else {}
        return {"long_name": self.long_name, "units": self.unit, **named}


@dataclass(frozen=True, kw_only=True)
class Family:
    """A field on pressure levels: how it is called in files, and what its cuts have in common."""

    unit: str
    standard_name: str
    long_name: str
    aliases: tuple[str, ...]
    limits: tuple[float, float]
    diverging: bool = False


FAMILIES: dict[str, Family] = {
    "U": Family(
        unit="m s-1",
        standard_name="eastward_wind",
        long_name="eastward wind",
        aliases=("U", "ua", "UGRD", "uwnd", "u-component_of_wind_isobaric"),
        limits=(-250, 250),
        diverging=True,
    ),
    "V": Family(
        unit="m s-1",
        standard_name="northward_wind",
        long_name="northward wind",
        aliases=("V", "va", "VGRD", "vwnd", "v-component_of_wind_isobaric"),
        limits=(-250, 250),
        diverging=True,
    ),
    "T": Family(
        unit="K",
        standard_name="air_temperature",
        long_name="temperature",
        aliases=("T", "ta", "TMP", "air", "Temperature_isobaric"),
        limits=(130, 340),
    ),
    "Q": Family(
        unit="kg kg-1",
        standard_name="specific_humidity",
        long_name="specific humidity",
        aliases=("Q", "QV", "hus", "SPFH", "shum", "Specific_humidity_isobaric"),
        limits=(-1e-3, 0.2),
    ),
    "Z": Family(
        unit="m",
        standard_name="geopotential_height",
        long_name="geopotential height",
        aliases=("Z", "H", "zg", "HGT", "Z3", "gh", "Geopotential_height_isobaric"),
        limits=(-2000, 60000),
    ),
}


def _cut(family: str, level: int, limits: tuple[float, float], display: tuple[float, float], *aliases: str) -> Field:
    """Field that is one pressure level of a family; single-level files name it after family and level."""
    kind = FAMILIES[family]
    spellings = (
        f"{n}{mark}" for n in kind.aliases for mark in (f"{level}", f"_{level}", f"_{level}mb", f"_{level}hPa")
    )
    return Field(
        name=f"{family}{level}",
        unit=kind.unit,
        long_name=f"{kind.long_name} at {level} hPa",
        standard_name=kind.standard_name,
        limits=limits,
        display=display,
        diverging=kind.diverging,
        aliases=(*(s for s in spellings if s != f"{family}{level}"), *aliases),
        family=family,
        level=level,
    )


_ALL = (
    Field(
        name="TMQ",
        unit="kg m-2",
        long_name="total precipitable water",
        standard_name="atmosphere_mass_content_of_water_vapor",
        limits=(-1, 150),
        display=(0, 70),
        aliases=(
            "tcwv",
            "prw",
            "TQV",
            "IWV",
            "PWAT",
            "pr_wtr",
            "PWAT_entireatmosphere",
            "PWAT_entireatmosphere_consideredasasinglelayer_",
            "Precipitable_water_entire_atmosphere_single_layer",
            "Precipitable_water_entire_atmosphere",
        ),
    ),
    _cut("U", 850, (-150, 150), (-30, 30)),
    _cut("V", 850, (-150, 150), (-30, 30)),
    Field(
        name="UBOT",
        unit="m s-1",
        long_name="eastward wind at the lowest level",
        standard_name="eastward_wind",
        limits=(-150, 150),
        display=(-20, 20),
        diverging=True,
        aliases=("ULML", "u10", "10u", "VAR_10U", "U10M", "uas", "UGRD_10maboveground", "UGRD_10m"),
    ),
    Field(
        name="VBOT",
        unit="m s-1",
        long_name="northward wind at the lowest level",
        standard_name="northward_wind",
        limits=(-150, 150),
        display=(-20, 20),
        diverging=True,
        aliases=("VLML", "v10", "10v", "VAR_10V", "V10M", "vas", "VGRD_10maboveground", "VGRD_10m"),
    ),
    Field(
        name="QREFHT",
        unit="kg kg-1",
        long_name="specific humidity near the surface",
        standard_name="specific_humidity",
        limits=(-1e-3, 0.2),
        display=(0, 0.022),
        aliases=("huss", "QV2M", "Q2", "q2m", "sh2", "2sh", "SPFH_2maboveground"),
    ),
    Field(
        name="PS",
        unit="Pa",
        long_name="surface pressure",
        standard_name="surface_air_pressure",
        limits=(30000, 115000),
        display=(60000, 104000),
        aliases=("sp", "PSFC", "PRES_surface", "Pressure_surface"),
    ),
    Field(
        name="PSL",
        unit="Pa",
        long_name="sea level pressure",
        standard_name="air_pressure_at_mean_sea_level",
        limits=(80000, 115000),
        display=(97000, 104000),
        aliases=(
            "msl",
            "SLP",
            "mslp",
            "prmsl",
            "PRMSL_meansealevel",
            "MSLET_meansealevel",
            "Pressure_reduced_to_MSL_msl",
            "MSLP_Eta_model_reduction_msl",
        ),
    ),
    _cut("T", 200, (150, 290), (200, 235)),
    _cut("T", 500, (180, 310), (235, 275)),
    Field(
        name="PRECT",
        unit="m s-1",
        long_name="precipitation rate",
        standard_name="lwe_precipitation_rate",
        limits=(-1e-7, 1e-4),
        display=(0, 6e-7),
        aliases=(
            "pr",
            "mtpr",
            "avg_tprate",
            "tp",
            "PRECTOT",
            "PRECTOTCORR",
            "PRATE",
            "PRATE_surface",
            "Precipitation_rate_surface",
        ),
    ),
    Field(
        name="TS",
        unit="K",
        long_name="surface temperature",
        standard_name="surface_temperature",
        limits=(80, 370),
        display=(240, 310),
        aliases=("skt", "TSKIN", "TSK", "TMP_surface", "Temperature_surface"),
    ),
    Field(
        name="TREFHT",
        unit="K",
        long_name="temperature near the surface",
        standard_name="air_temperature",
        limits=(80, 350),
        display=(240, 310),
        aliases=("t2m", "2t", "VAR_2T", "tas", "T2", "TMP_2maboveground", "TMP_2m"),
    ),
    _cut("Z", 1000, (-1500, 7000), (-200, 300)),
    _cut("Z", 200, (8000, 14500), (10800, 12600)),
    Field(
        name="ZBOT",
        unit="m",
        long_name="height of the lowest level",
        standard_name="",
        limits=(0, 2000),
        display=(50, 70),
        aliases=("HLML",),
    ),
    _cut("U", 200, (-250, 250), (-60, 60)),
    _cut("V", 200, (-250, 250), (-60, 60)),
    _cut("T", 300, (160, 300), (210, 250)),
    _cut("T", 400, (170, 305), (220, 265)),
    _cut("Z", 300, (6000, 12000), (8200, 9800)),
    _cut("Z", 500, (3500, 7500), (4900, 5950)),
    _cut("Z", 850, (-500, 3500), (1000, 1650)),
    Field(
        name="IVT",
        unit="kg m-1 s-1",
        long_name="vertically integrated water vapour transport",
        standard_name="",
        limits=(0, 6000),
        display=(0, 1000),
        aliases=("ivt_magnitude",),
    ),
    Field(
        name="TUQ",
        unit="kg m-1 s-1",
        long_name="vertically integrated eastward water vapour transport",
        standard_name="eastward_atmosphere_water_vapor_transport_across_unit_distance",
        limits=(-6000, 6000),
        display=(-800, 800),
        diverging=True,
        aliases=("viwve", "p71.162", "UFLXQV", "uIVT", "IVTE", "IVTx", "IVT_u"),
    ),
    Field(
        name="TVQ",
        unit="kg m-1 s-1",
        long_name="vertically integrated northward water vapour transport",
        standard_name="northward_atmosphere_water_vapor_transport_across_unit_distance",
        limits=(-6000, 6000),
        display=(-800, 800),
        diverging=True,
        aliases=("viwvn", "p72.162", "VFLXQV", "vIVT", "IVTN", "IVTy", "IVT_v"),
    ),
    Field(
        name="VORT850",
        unit="s-1",
        long_name="relative vorticity at 850 hPa",
        standard_name="atmosphere_relative_vorticity",
        limits=(-0.02, 0.02),
        display=(-2e-4, 2e-4),
        diverging=True,
    ),
    Field(
        name="DIV850",
        unit="s-1",
        long_name="divergence of wind at 850 hPa",
        standard_name="divergence_of_wind",
        limits=(-0.02, 0.02),
        display=(-1e-4, 1e-4),
        diverging=True,
    ),
    Field(
        name="WIND850",
        unit="m s-1",
        long_name="wind speed at 850 hPa",
        standard_name="wind_speed",
        limits=(0, 200),
        display=(0, 40),
    ),
    Field(
        name="WINDBOT",
        unit="m s-1",
        long_name="wind speed at the lowest level",
        standard_name="wind_speed",
        limits=(0, 200),
        display=(0, 30),
    ),
)

FIELDS: dict[str, Field] = {field.name: field for field in _ALL}
"""Every known field by name."""

CAM5: tuple[str, ...] = tuple(FIELDS)[:16]
"""The 16 channels in the order of the DeepCAM files (Kurth et al. 2018)."""

_BY_ALIAS = {alias.lower(): field.name for field in _ALL for alias in (field.name, *field.aliases)}


def named(name: str) -> Field | None:
    """Give the field that a file's variable ``name`` stands for, or None; case does not matter."""
    return FIELDS.get(name) or FIELDS.get(_BY_ALIAS.get(name.lower(), ""))


def missing(name: str, found: Iterable[str], where: str = "The archive") -> ValueError:
    """Build the error for a field that is not there: what was found, what is nearest, what to do.

    Parameters
    ----------
    name : str
        The field that is needed.
    found : iterable of str
        Names that are there.
    where : str
        What was searched, for the beginning of the sentence.
    """
    found = list(found)
    known = FIELDS.get(name)
    candidates = {other.lower(): other for other in found if named(other) is None}
    near = get_close_matches(name.lower(), candidates, n=1, cutoff=0.5)
    parts = [f"{where} has no field {name!r} (found: {', '.join(found) or 'none'})."]
    if known is None:
        close = get_close_matches(name, FIELDS, n=1, cutoff=0.5)
        parts.append(
            f"No field of that name is known; did you mean {close[0]!r}?" if close else "It is not a known name."
        )
    elif known.aliases:
        parts.append(f"It is also read under the names {', '.join(known.aliases[:6])}.")
    nearest = candidates[near[0]] if near else "your_name"
    parts.append(f"If it is called something else, pass names={{{nearest!r}: {name!r}}} to archive.open.")
    return ValueError(" ".join(parts))
