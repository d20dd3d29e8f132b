"""The front door to climate data: whatever people have, one lazy dataset; and back to files.

    fields = archive.open("cam5/*.nc")      any mix of NetCDF, Zarr, GRIB, ClimateNet, DeepCAM, ExtremeWeather
    print(archive.check("cam5/*.nc"))       what is in there, and whether it can be
    archive.save(fields, "cam5.zarr")       NetCDF, Zarr, DeepCAM HDF5 or ClimateNet
    archive.restore(mask)                   the user's own latitude order and longitude convention

Of the fields nothing is read before it is looked at; `check` reads all.
"""

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path

import xarray as xr

from climlab_dl.climate.checks import look
from climlab_dl.climate.combining import combine
from climlab_dl.climate.derived import complete, require
from climlab_dl.climate.fields import FAMILIES, FIELDS, nearest
from climlab_dl.climate.formats import read
from climlab_dl.climate.formats.header import COORDINATES
from climlab_dl.climate.grid import restore
from climlab_dl.climate.labels import MASK
from climlab_dl.climate.parts import Part
from climlab_dl.climate.report import Report, survey
from climlab_dl.climate.writing import save

__all__ = ["Report", "check", "open", "paths", "require", "restore", "sample", "save"]

Source = str | Path | Sequence[str | Path]
_ENDINGS = (".nc", ".nc4", ".cdf", ".netcdf", ".h5", ".hdf5", ".he5", ".grib", ".grib2", ".grb", ".grb2")


def open(source: Source, *, names: Mapping[str, str | None] | None = None) -> xr.Dataset:  # noqa: A001
    """Open files as one lazy dataset with canonical names, SI units and one grid convention.

    Parameters
    ----------
    source : str, Path or sequence of these
        A file, a Zarr store, a glob, a directory, or a list of files.
    names : mapping, optional
        What variables of the files are called here: ``{"their_name": "TMQ"}``; coordinates are ``lat``, ``lon``,
        ``time`` and ``level``. None leaves a variable out.

    Returns
    -------
    Dataset
        A float32 variable (time, lat, lon) for every field of `fields.FIELDS` that the files have or that follows
        from their levels, and an int8 ``mask`` where they are labelled; of files that `detect` has filled also its
        ``probabilities`` (time, class, lat, lon), ``entropy`` and ``mutual_information``. Dask arrays of one snapshot a
        chunk.
        Latitude ascends, longitude is 0..360 and ascends. `restore` leads back to the user's convention.

    Raises
    ------
    FileNotFoundError
        When nothing is found.
    TypeError
        When what is given was opened by xarray already.
    OSError
        When a file is truncated or locked, or is none of the formats.
    ValueError
        When grids, calendars or times of the files do not go together, or the first snapshot holds what cannot be:
        a field outside its limits or without a number, labels that are no classes. Later snapshots are looked at when
        they are read, and then end whatever reads them, naming the file, the time and the field.
    """
    with _opened(source, names or {}) as (found, parts):
        look(_dataset(found, parts))
        return _dataset(found, parts, guarded=True)


def sample() -> Path:
    """Folder of the packaged sample archive: T63 model weather, 40 daily, then 20 six-hourly snapshots (CC0)."""
    return Path(str(files("climlab_dl"))) / "data" / "sample"


def check(source: Source, *, names: Mapping[str, str | None] | None = None) -> Report:
    """Read everything once and report: grid, calendar, missing times, extremes and gaps of each field, problems.

    Parameters
    ----------
    source, names
        As for `open`.

    Returns
    -------
    Report
        ``print(report)`` shows it; ``report.ok`` is False where something is wrong with the files.

    Raises
    ------
    TypeError
        When what is given was opened by xarray already.
    """
    shown = str(source) if isinstance(source, str | Path) else f"{len(source)} sources"
    problems: list[str] = []
    try:
        with _opened(source, names or {}, problems) as (found, parts):
            return survey(shown, _dataset(found, parts), problems)
    except (OSError, ValueError) as error:
        return Report(source=shown, problems=(*problems, str(error)))


@contextmanager
def _opened(
    source: Source, names: Mapping[str, str | None], problems: list[str] | None = None
) -> Iterator[tuple[list[Path], list[Part]]]:
    """Give files and what they offer; at the end the files are closed, to be opened again when they are read."""
    for theirs, ours in names.items():
        if ours is not None and ours not in (*FIELDS, *FAMILIES, *COORDINATES, MASK):
            raise ValueError(
                f"names={{{theirs!r}: {ours!r}}}: no field is called {ours!r}. "
                f"Expected {', '.join(FIELDS)}, or {', '.join(FAMILIES)} on levels, or {MASK!r}; "
                f"of a coordinate {', '.join(COORDINATES)}."
            )
    found = paths(source) if problems is None else _there(source, problems)
    with ExitStack() as files:
        parts = read(found, names, files, problems)
        if not parts:
            # What is wrong with the last of the files that cannot be read stands for all.
            raise OSError(
                problems.pop()
                if problems
                else f"{found[0]} holds no snapshot, only statistics as DeepCAM keeps them; name the files beside it."
            )
        yield found, parts


def _dataset(found: list[Path], parts: list[Part], *, guarded: bool = False) -> xr.Dataset:
    """Put together what the files offer, and what follows from it."""
    dataset = complete(combine(parts, guarded=guarded))
    if not dataset.data_vars:
        unknown = str(dataset.attrs.get("unrecognised", ""))
        theirs, ours = next(((name, near) for name in unknown.split() if (near := nearest(name, ()))), ("", ""))
        raise ValueError(
            f"{found[0]} has no field that is known (found {unknown or 'nothing on a grid'}). "
            f"Say what they are with names={{{theirs or 'their_name'!r}: {ours or 'TMQ'!r}}}."
        )
    return dataset


def paths(source: Source) -> list[Path]:
    """List the files that a source stands for, in order and each once.

    Raises
    ------
    FileNotFoundError
        When nothing is found.
    TypeError
        When what is given was opened by xarray already.
    """
    if isinstance(source, xr.Dataset | xr.DataArray):
        raise TypeError(
            f"An xarray {type(source).__name__} was given, but files are expected: a path, a pattern or a list of "
            'them. Save it with .to_netcdf("mine.nc") and open "mine.nc"; fields that have our names, units and grid '
            "already are used as they are, without archive.open."
        )
    if not isinstance(source, str | Path):
        return list(dict.fromkeys(path for one in source for path in paths(one)))
    path = Path(source).expanduser()
    if _is_store(path) or (path.exists() and not path.is_dir()):
        return [path]
    if path.is_dir():
        found = _within(path)
        if not found:
            raise FileNotFoundError(f"{path} has no climate files (looked for {' '.join(_ENDINGS)} and Zarr stores).")
        return found
    if glob.has_magic(str(path)):
        found = [Path(p) for p in sorted(glob.glob(str(path), recursive=True))]
        if found:
            return [file for p in found for file in paths(p)]
        raise FileNotFoundError(f"Nothing matches {path} (searched from {Path.cwd()}).")
    raise FileNotFoundError(f"There is no {path} (searched from {Path.cwd()}).")


def _there(source: Source, problems: list[str]) -> list[Path]:
    """List the files of those sources that are there, and say which are not."""
    found = []
    for one in source if isinstance(source, Sequence) and not isinstance(source, str) else [source]:
        try:
            found += paths(one)
        except FileNotFoundError as error:
            problems.append(str(error))
    if not found:
        raise FileNotFoundError(problems.pop() if problems else "no files are named")
    return list(dict.fromkeys(found))


def _within(folder: Path) -> list[Path]:
    """Climate files of a folder; of the folders in it where it has none itself (train, validation; AR, TC)."""
    # What begins with a dot is not for readers: among it the half-written files of a process that was killed.
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    found = [path for path in inside if path.suffix.lower() in _ENDINGS or _is_store(path)]
    return found or [path for one in inside if one.is_dir() for path in _within(one)]


def _is_store(path: Path) -> bool:
    return path.is_dir() and any((path / mark).exists() for mark in (".zgroup", ".zmetadata", "zarr.json"))
