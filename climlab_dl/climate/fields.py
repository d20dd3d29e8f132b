"""The fields of the atmosphere that this package knows: the 16 channels of CAM5 and what rules need besides.

Units are SI throughout. ``limits`` are what the atmosphere (and a model of it) can produce, wide enough for the
extremes of 121,266 snapshots of CAM5 that the DeepCAM statistics file records, and narrow enough that hPa for
Pa, degrees Celsius for kelvin, mm for m or an undeclared fill value fall outside.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

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


# fmt: off
_FAMILIES = (
    # name, unit, long name, CF standard name, possible values, names in files
    ("U", "m s-1", "eastward wind", "eastward_wind", (-250, 250), "U ua UGRD uwnd u-component_of_wind_isobaric"),
    ("V", "m s-1", "northward wind", "northward_wind", (-250, 250), "V va VGRD vwnd v-component_of_wind_isobaric"),
    ("T", "K", "temperature", "air_temperature", (130, 340), "T ta TMP air Temperature_isobaric"),
    ("Q", "kg kg-1", "specific humidity", "specific_humidity", (-1e-3, 0.2),
     "Q QV hus SPFH shum Specific_humidity_isobaric"),
    ("Z", "m", "geopotential height", "geopotential_height", (-2000, 60000),
     "Z H zg HGT Z3 gh Geopotential_height_isobaric"),
)

_FIELDS = (
    # name, unit, long name, CF standard name, possible values, colours, names in files
    ("TMQ", "kg m-2", "total precipitable water", "atmosphere_mass_content_of_water_vapor", (-1, 150), (0, 70),
     ("tcwv prw TQV IWV PWAT pr_wtr PWAT_entireatmosphere PWAT_entireatmosphere_consideredasasinglelayer_ "
      "Precipitable_water_entire_atmosphere_single_layer Precipitable_water_entire_atmosphere")),
    ("U", 850, (-150, 150), (-30, 30)),
    ("V", 850, (-150, 150), (-30, 30)),
    ("UBOT", "m s-1", "eastward wind at the lowest level", "eastward_wind", (-150, 150), (-20, 20),
     "ULML u10 10u VAR_10U U10M uas UGRD_10maboveground UGRD_10m"),
    ("VBOT", "m s-1", "northward wind at the lowest level", "northward_wind", (-150, 150), (-20, 20),
     "VLML v10 10v VAR_10V V10M vas VGRD_10maboveground VGRD_10m"),
    ("QREFHT", "kg kg-1", "specific humidity near the surface", "specific_humidity", (-1e-3, 0.2), (0, 0.022),
     "huss QV2M Q2 q2m sh2 2sh SPFH_2maboveground"),
    ("PS", "Pa", "surface pressure", "surface_air_pressure", (30000, 115000), (60000, 104000),
     "sp PSFC PRES_surface Pressure_surface"),
    ("PSL", "Pa", "sea level pressure", "air_pressure_at_mean_sea_level", (80000, 115000), (97000, 104000),
     ("msl SLP mslp prmsl PRMSL_meansealevel MSLET_meansealevel Pressure_reduced_to_MSL_msl "
      "MSLP_Eta_model_reduction_msl")),
    ("T", 200, (150, 290), (200, 235)),
    ("T", 500, (180, 310), (235, 275)),
    ("PRECT", "m s-1", "precipitation rate", "lwe_precipitation_rate", (-1e-7, 1e-4), (0, 6e-7),
     "pr mtpr avg_tprate tp PRECTOT PRECTOTCORR PRATE PRATE_surface Precipitation_rate_surface"),
    ("TS", "K", "surface temperature", "surface_temperature", (80, 370), (240, 310),
     "skt TSKIN TSK TMP_surface Temperature_surface"),
    ("TREFHT", "K", "temperature near the surface", "air_temperature", (80, 350), (240, 310),
     "t2m 2t VAR_2T tas T2 TMP_2maboveground TMP_2m"),
    ("Z", 1000, (-1500, 7000), (-200, 300)),
    ("Z", 200, (8000, 14500), (10800, 12600)),
    ("ZBOT", "m", "height of the lowest level", "", (0, 2000), (50, 70), "HLML"),
    # What rules need besides the 16 channels.
    ("U", 200, (-250, 250), (-60, 60)),
    ("V", 200, (-250, 250), (-60, 60)),
    ("T", 300, (160, 300), (210, 250)),
    ("T", 400, (170, 305), (220, 265)),
    ("Z", 300, (6000, 12000), (8200, 9800)),
    ("Z", 500, (3500, 7500), (4900, 5950)),
    ("Z", 850, (-500, 3500), (1000, 1650)),
    ("IVT", "kg m-1 s-1", "vertically integrated water vapour transport", "", (0, 6000), (0, 1000), "ivt_magnitude"),
    ("TUQ", "kg m-1 s-1", "vertically integrated eastward water vapour transport",
     "eastward_atmosphere_water_vapor_transport_across_unit_distance", (-6000, 6000), (-800, 800),
     "viwve p71.162 UFLXQV uIVT IVTE IVTx IVT_u"),
    ("TVQ", "kg m-1 s-1", "vertically integrated northward water vapour transport",
     "northward_atmosphere_water_vapor_transport_across_unit_distance", (-6000, 6000), (-800, 800),
     "viwvn p72.162 VFLXQV vIVT IVTN IVTy IVT_v"),
    ("VORT850", "s-1", "relative vorticity at 850 hPa", "atmosphere_relative_vorticity", (-0.02, 0.02),
     (-2e-4, 2e-4), ""),
    ("DIV850", "s-1", "divergence of wind at 850 hPa", "divergence_of_wind", (-0.02, 0.02), (-1e-4, 1e-4), ""),
    ("WIND850", "m s-1", "wind speed at 850 hPa", "wind_speed", (0, 200), (0, 40), ""),
    ("WINDBOT", "m s-1", "wind speed at the lowest level", "wind_speed", (0, 200), (0, 30), ""),
    ("ABSLAT", "degree", "distance from the equator", "", (0, 90), (0, 90), ""),
    ("TMQDAMPED", "kg m-2", "total water vapour, damped towards the equator", "", (0, 150), (0, 40), ""),
    ("PSLRISE", "Pa", "least rise of sea level pressure along eight rays of 5 degrees", "", (-30e3, 30e3),
     (-1000, 1000), ""),
    ("WARMCORE", "K", "least fall of the mean of T200 and T500 along eight rays of 5 degrees", "", (-60, 60),
     (-3, 3), ""),
    # What `contrasts` makes of them.
    *((name, "1", f"tanh of {what}", "", (-1, 1), (-1, 1), "") for name, what in (
        ("TMQEXCESS1", "damped water vapour's excess over 21 kg m-2, in steps of 1 kg m-2"),
        ("TMQEXCESS5", "damped water vapour's excess over 21 kg m-2, in steps of 5 kg m-2"),
        ("PSLRISE40", "rise of sea level pressure beyond 100 Pa, in steps of 40 Pa"),
        ("PSLRISE200", "rise of sea level pressure beyond 100 Pa, in steps of 200 Pa"),
        ("WARMCORE008", "fall of the mean of T200 and T500 beyond 0.1 K, in steps of 0.08 K"),
        ("WARMCORE04", "fall of the mean of T200 and T500 beyond 0.1 K, in steps of 0.4 K"),
    )),
)
# fmt: on

FAMILIES: dict[str, Family] = {
    name: Family(unit=unit, long_name=text, standard_name=standard, limits=limits, aliases=tuple(names.split()))
    for name, unit, text, standard, limits, names in _FAMILIES
}
"""Fields on pressure levels."""


def _field(row: tuple[Any, ...]) -> Field:
    """Make a field of a row of the table; of a short one, a cut that is named after its family and level."""
    if isinstance(row[1], str):
        name, unit, text, standard, limits, display, names = row
        family, level, aliases = "", 0, tuple(names.split())
    else:
        family, level, limits, display = row
        kind, name = FAMILIES[family], f"{family}{level}"
        unit, text, standard = kind.unit, f"{kind.long_name} at {level} hPa", kind.standard_name
        marks = (f"{level}", f"_{level}", f"_{level}mb", f"_{level}hPa")
        aliases = tuple(f"{alias}{mark}" for alias in kind.aliases for mark in marks if f"{alias}{mark}" != name)
    return Field(
        name=name,
        unit=unit,
        long_name=text,
        standard_name=standard,
        limits=limits,
        display=display,
        diverging=limits[0] == -limits[1],
        aliases=aliases,
        family=family,
        level=level,
    )


FIELDS: dict[str, Field] = {field.name: field for field in map(_field, _FIELDS)}
"""Every known field by name."""

CAM5: tuple[str, ...] = tuple(FIELDS)[:16]
"""The 16 channels in the order of the DeepCAM files (Kurth et al. 2018)."""

ACCUMULATED = ("PRECT",)
"""Fields that many models accumulate since the snapshot before, so that the first one has none."""

_BY_ALIAS = {alias.lower(): field.name for field in FIELDS.values() for alias in (field.name, *field.aliases)}

# How a field is spelled out; not those of one level, which differ from the same of another by a digit.
_BY_WORDS = {
    field.long_name.lower().replace(" ", "_"): field.name
    for field in FIELDS.values()
    if not any(map(str.isdigit, field.long_name))
}


def named(name: str) -> Field | None:
    """Give the field that a file's variable ``name`` stands for, or None; case does not matter."""
    return FIELDS.get(name) or FIELDS.get(_BY_ALIAS.get(name.lower(), ""))


def nearest(name: str, present: Iterable[str]) -> str:
    """Give the field that an unknown name is nearly that of, or nothing; one that is ``present`` is not meant."""
    spellings, there = {**_BY_ALIAS, **_BY_WORDS}, set(present)
    known = {alias: field for alias, field in spellings.items() if len(alias) > 1 and field not in there}
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.8)
    return known[near[0]] if near else ""


_WORDS = re.compile(r"[a-z]+|[0-9]+")


def likely(name: str, found: Iterable[str]) -> str:
    """Give the unknown one of the names found that most likely means the field ``name``, or nothing.

    It has a name of the field as a word, or is nearly one of them, or is made of words that describe the field. Levels
    and heights have to be the field's.
    """
    field = FIELDS[name]
    spelled = [one.lower() for one in (name, *field.aliases) if len(one) > 1]
    described = set(_WORDS.findall(" ".join([field.long_name, field.standard_name, *spelled]).lower()))
    whole_words = {one for one in spelled if len(one) > 2}

    def likeness(other: str) -> int:
        words = set(_WORDS.findall(other.lower()))
        if not {word for word in words if word.isdigit()} <= described:
            return 0
        if words & whole_words:
            return 3
        if get_close_matches(other.lower(), spelled, n=1, cutoff=0.85):
            return 2
        # So that precip_water is taken for precipitable water, but t for nothing.
        told = {word for word in words if any(long.startswith(word) for long in described)}
        return int(told == words and max(map(len, words), default=0) > 3)

    unknown = [other for other in found if named(other) is None]
    nearest = max(unknown, key=likeness, default="")
    return nearest if nearest and likeness(nearest) else ""


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
    nearest = (likely(name, found) if known else "") or (candidates[near[0]] if near else "your_name")
    parts = [f"{where} has no field {name!r} (found: {', '.join(found) or 'none'})."]
    if known is None:
        close = get_close_matches(name, FIELDS, n=1, cutoff=0.5)
        parts.append(
            f"No field of that name is known; did you mean {close[0]!r}?" if close else "It is not a known name."
        )
    elif known.aliases:
        parts.append(f"It is also read under the names {', '.join(known.aliases[:6])}.")
    parts.append(f"If it is called something else, pass names={{{nearest!r}: {name!r}}} to archive.open.")
    return ValueError(" ".join(parts))
