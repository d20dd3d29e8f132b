"""NetCDF, Zarr and GRIB of any model: which field a variable is, by its name, its CF attributes and its level."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from climlab_dl.climate import times
from climlab_dl.climate.fields import FAMILIES, FIELDS, named
from climlab_dl.climate.formats.header import VERSIONS, Header
from climlab_dl.climate.formats.levels import STANDARD_AXIS, HybridPressure, offers
from climlab_dl.climate.formats.opening import reading
from climlab_dl.climate.formats.plain import Plain
from climlab_dl.climate.labels import ANNOTATOR, CLASS, DETECTED, LABELS, MASK, PROBABILITIES, as_mask, flagged
from climlab_dl.climate.parts import Content, Part
from climlab_dl.climate.units import SAME, Conversion, conversion

log = logging.getLogger(__name__)

_MASKS = ("mask", "labels", "label")
_HOUR = 3600.0
_BY_STANDARD_NAME = {
    field.standard_name: field
    for field in FIELDS.values()
    if field.name in ("TMQ", "PS", "PSL", "PRECT", "TS", "TUQ", "TVQ")
} | {"air_pressure_at_sea_level": FIELDS["PSL"], "precipitation_flux": FIELDS["PRECT"]}
_FAMILY_BY_NAME = {alias.lower(): name for name, family in FAMILIES.items() for alias in family.aliases}
_FAMILY_BY_STANDARD_NAME = {family.standard_name: name for name, family in FAMILIES.items()} | {"geopotential": "Z"}


@dataclass(frozen=True)
class Variables:
    """Reads a snapshot of one variable out of several files, each opened when it is needed."""

    files: Sequence[Path]
    variables: Sequence[xr.Variable]
    time: str
    dims: tuple[str, ...]
    plain: "tuple[str, tuple[int | None, ...]] | None" = None
    """Name in the file and index of the first dimensions, None for that of the snapshot, where HDF5 may lie plainly."""

    def __call__(self, file: int, index: int) -> np.ndarray:
        """Give snapshot ``index`` of a file, with dimensions in the order of ``dims``."""
        variable = self.variables[file]
        if self.plain is not None:
            name, first = self.plain
            place = Plain.find(self.files[file], name, [index if at is None else at for at in first])
            if place is not None and place.shape == variable.shape[-len(self.dims) :]:
                return place.read(self.files[file])
        if self.time in variable.dims:
            variable = variable.isel({self.time: index})
        with reading(self.files[file]):
            values, dims = variable.to_numpy(), list(variable.dims)
        if VERSIONS in dims:
            values = np.moveaxis(values, dims.index(VERSIONS), 0)
            dims.remove(VERSIONS)
            values = np.where(np.isnan(values[0]), values[-1], values[0])
        return np.transpose(values, [dims.index(d) for d in self.dims])


@dataclass(frozen=True)
class Labels:
    """Reads a snapshot of labels and checks that they are classes."""

    variables: Variables

    def __call__(self, file: int, index: int) -> np.ndarray:
        """Give snapshot ``index`` of a file as int8."""
        return as_mask(self.variables(file, index), str(self.variables.files[file]))


class Offer(NamedTuple):
    """What a variable can be read as."""

    name: str
    content: Content
    rank: int
    """0 is the surest: the user said so; 1 by our name, 2 by an alias, 3 by its standard name, 4 cut from levels."""
    axis: tuple[str, xr.Variable] | None = None
    """Name and coordinate of a dimension before latitude and longitude."""


def parts(headers: Sequence[Header], names: Mapping[str, str | None], problems: list[str] | None = None) -> list[Part]:
    """Group files that can be read alike, and say what each group offers; problems as for `formats.read`."""
    alike: dict[tuple, list[Header]] = {}
    for header in headers:
        alike.setdefault(header.signature, []).append(header)
    found = []
    for group in alike.values():
        try:
            found.append(_part(group, names))
        except ValueError as error:
            if problems is None:
                raise
            problems.append(str(error))
    return found


def _part(headers: list[Header], names: Mapping[str, str | None]) -> Part:
    first = headers[0]
    found: dict[str, Offer] = {}
    coordinates: dict[str, xr.Variable] = {}
    unrecognised, crowded = [], []
    for name in map(str, first.dataset.data_vars):
        if name in names and names[name] is None:
            continue
        found_here = _offers(headers, name, names.get(name))
        for offer in found_here:
            if offer.name not in found or offer.rank < found[offer.name].rank:
                found[offer.name] = offer
            if offer.axis is not None:
                coordinates |= dict([offer.axis])
        if not found_here and first.holds(first.dataset[name]):
            unrecognised.append(name)
            crowded += _crowded(first, name, names.get(name))
    for reason in crowded:
        if not found:
            raise ValueError(reason)
        log.warning("%s It is left out.", reason)
    snapshots = [header.snapshots for header in headers]
    return Part(
        files=[header.path for header in headers],
        where=np.array([(i, k) for i, n in enumerate(snapshots) for k in range(n)]),
        time=_time(headers),
        numbers=np.repeat([header.numbers for header in headers], snapshots, axis=0),
        grid=first.grid,
        contents={name: offer.content for name, offer in found.items()},
        coordinates=coordinates,
        unrecognised=tuple(unrecognised),
    )


def _offers(headers: Sequence[Header], name: str, wanted: str | None) -> list[Offer]:
    """Say what a variable can be read as: nothing, one field, or a field at several levels."""
    first = headers[0]
    variable = first.dataset[name]
    beside = first.beside(variable)
    several = [d for d in beside if variable.sizes[d] > 1 or first.pressure(d) is not None]
    if not first.holds(variable) or len(several) > 1:
        return []
    standard = str(variable.attrs.get("standard_name", ""))
    family = _FAMILY_BY_NAME.get(name.lower()) or _FAMILY_BY_STANDARD_NAME.get(standard)
    family = wanted if wanted in FAMILIES else family
    scalars = [d for d in map(str, variable.coords) if variable.coords[d].ndim == 0]
    level = next((d for d in (several or scalars) if first.pressure(d) is not None), None)
    if family and level:
        return _at_levels(headers, name, family, level)
    if family and several and first.hybrid(several[0]):
        return _from_hybrid(headers, name, family, several[0])
    if name == LABELS and several == [ANNOTATOR]:
        read = _reader(headers, name, (ANNOTATOR,))
        content = Content(read=read, dims=(ANNOTATOR,), inner=(variable.sizes[ANNOTATOR],))
        return [Offer(LABELS, content, rank=1, axis=(ANNOTATOR, first.dataset[ANNOTATOR].variable))]
    if wanted is None and name in DETECTED and variable.attrs.get("units") == DETECTED[name]["units"]:
        return _detected(headers, name, several)
    if several:
        return []
    read = _reader(headers, name)
    if (wanted or name).lower() in _MASKS:
        kinds = {kind for header in headers for kind in flagged(header.dataset[name].attrs)}
        return [Offer(MASK, Content(read=Labels(read), kinds=tuple(kinds)), rank=0 if wanted else 1)]
    by_name = FIELDS[wanted] if wanted in FIELDS else named(name)
    field = by_name or _BY_STANDARD_NAME.get(standard)
    if field is None:
        return []
    rank = 0 if wanted else 1 if name == field.name else 2 if by_name else 3
    # A file of ours says itself what the field was called before.
    original = str(variable.attrs.get("original_name", name)) if name == field.name else name
    to_si = _to_si(first.path, variable, field.unit, field.name)
    return [Offer(field.name, Content(read=read, conversion=to_si, original=original), rank)]


def _detected(headers: Sequence[Header], name: str, several: list[str]) -> list[Offer]:
    """Give what a network said of the classes at each pixel, as `detect` writes it."""
    first, dims = headers[0], (CLASS,) if name == PROBABILITIES else ()
    if tuple(several) != dims or not set(dims) <= set(first.dataset.variables):
        return []
    read = _reader(headers, name, dims)
    if not dims:
        return [Offer(name, Content(read=read), rank=1)]
    classes = np.array([str(name) for name in first.dataset.variables[CLASS].to_numpy()])
    content = Content(read=read, dims=dims, inner=classes.shape)
    return [Offer(name, content, rank=1, axis=(CLASS, xr.Variable(CLASS, classes)))]


def _crowded(header: Header, name: str, wanted: str | None) -> list[str]:
    """Say of a variable that is a field but for a dimension too many, such as the member of an ensemble, which one."""
    variable = header.dataset[name]
    is_field = wanted or named(name) or str(variable.attrs.get("standard_name", "")) in _BY_STANDARD_NAME
    extra = [dim for dim in header.beside(variable) if variable.sizes[dim] > 1]
    if not is_field or not extra:
        return []
    besides = ", ".join(f"{dim} ({variable.sizes[dim]})" for dim in extra)
    chosen = ", ".join(f"{dim}=0" for dim in extra)
    what = f"{header.path}: {name} has besides time, latitude and longitude the dimension {besides}."
    return [f"{what} Choose one of it and save that, e.g. with xarray's isel({chosen})."]


def _at_levels(headers: Sequence[Header], name: str, family: str, level: str) -> list[Offer]:
    """Cuts of a field on pressure levels at those of them that are known fields, and the whole of it."""
    first = headers[0]
    variable, levels = first.dataset[name], first.pressure(level)
    if levels is None:
        return []
    to_si = _to_si(first.path, variable, FAMILIES[family].unit, family)
    cuts = []
    for field in FIELDS.values():
        if field.family == family and field.level in levels:
            fixed = {level: int(np.argmax(levels == field.level))} if level in variable.dims else {}
            original = f"{name} at {field.level:g} hPa"
            content = Content(read=_reader(headers, name, fixed=fixed), conversion=to_si, original=original)
            cuts.append(Offer(field.name, content, rank=4))
    if len(levels) > 1:
        read = _reader(headers, name, (level,))
        content = Content(read=read, dims=("level",), inner=levels.shape, conversion=to_si, original=name)
        axis = xr.Variable("level", levels, {"units": "hPa", "standard_name": "air_pressure"})
        cuts.append(Offer(family, content, rank=4, axis=("level", axis)))
    return cuts


def _from_hybrid(headers: Sequence[Header], name: str, family: str, level: str) -> list[Offer]:
    """Cuts of a field on CESM's hybrid levels, interpolated, and the whole of it on standard pressures."""
    first = headers[0]
    a, b = (first.dataset[k].to_numpy().astype(float) for k in ("hyam", "hybm"))
    reference = float(first.dataset["P0"]) if "P0" in first.dataset else 1e5
    pressure = HybridPressure(_reader(headers, "PS"), a, b, reference)
    to_si = _to_si(first.path, first.dataset[name], FAMILIES[family].unit, family)
    return [
        Offer(found, replace(content, conversion=to_si, original=name), 4, STANDARD_AXIS if found == family else None)
        for found, content in offers(family, _reader(headers, name, (level,)), pressure).items()
    ]


def _reader(
    headers: Sequence[Header], name: str, dims: tuple[str, ...] = (), fixed: Mapping[str, int] | None = None
) -> Variables:
    """Read a variable with ``dims`` before latitude and longitude; any other dimension holds one value."""
    first = headers[0]
    single = {d: 0 for d in first.beside(first.dataset[name]) if d not in dims} | dict(fixed or {})
    variables = [header.dataset.variables[name] for header in headers]
    dims = (*dims, first.row, first.column)
    plain = _plain(first, name, single, dims) if all(header.hdf5 for header in headers) else None
    if single:
        variables = [variable.isel(single) for variable in variables]
    return Variables([header.path for header in headers], variables, first.time_dim, dims, plain)


def _plain(
    header: Header, name: str, single: Mapping[str, int], dims: tuple[str, ...]
) -> tuple[str, tuple[int | None, ...]] | None:
    """Name and leading index of a variable whose last dimensions are ``dims`` and whose others hold one value each."""
    lead = header.dataset.variables[name].dims[: -len(dims)]
    if header.dataset.variables[name].dims[-len(dims) :] != dims or set(lead) - {header.time_dim, *single}:
        return None
    return name, tuple(None if dim == header.time_dim else single[str(dim)] for dim in lead)


def _to_si(path: Path, variable: xr.DataArray, wanted: str, canonical: str) -> Conversion:
    """Find the conversion to the canonical unit; of a unit that cannot be, say so and believe the numbers."""
    unit, name = str(variable.attrs.get("units", "")), variable.name
    found = conversion(unit, wanted)
    if found is not None:
        return found
    if canonical == "PRECT" and (depth := conversion(unit, "m")) is not None:
        log.warning("%s: %s in %s is taken as an accumulation over one hour, as in hourly ERA5", path.name, name, unit)
        return Conversion(depth.scale / _HOUR)
    what = f"the unit {unit!r} of {name} cannot be converted" if unit else f"{name} has no unit"
    log.warning("%s: %s; its numbers are taken as %s", path.name, what, wanted)
    return SAME


def _time(headers: Sequence[Header]) -> xr.Variable:
    """Time of every snapshot of the files: from their coordinate, or else from their names, or else numbers."""
    raw = [header.time for header in headers if header.time is not None]
    if len(raw) == len(headers) and all("units" in variable.attrs for variable in raw):
        if len({(v.attrs["units"], v.attrs.get("calendar")) for v in raw}) == 1:
            numbers = np.concatenate([np.atleast_1d(v.values) for v in raw])
            return times.decode(xr.Variable("time", numbers, raw[0].attrs), f"The time of {headers[0].path}")
        return times.coordinate([date for v in raw for date in np.atleast_1d(times.dates(v))])
    dates = [date for header in headers for date in header.times()]
    if all(date is not None for date in dates):
        return times.coordinate([date for date in dates if date is not None])
    where = headers[0].path.name
    if len(raw) == len(headers) and all(variable.ndim and variable.dtype.kind in "iuf" for variable in raw):
        log.warning("The time of %s has no units; its numbers are kept", where)
        return xr.Variable("time", np.concatenate([variable.values for variable in raw]), raw[0].attrs)
    log.warning("%s says nowhere when its snapshots are; they are numbered instead", where)
    return times.numbered(sum(header.snapshots for header in headers))
