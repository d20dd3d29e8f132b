"""Which format a file has, by its first bytes; and one module a format, which gives `Part` s of one dataset."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import xarray as xr

from climlab_dl.climate.fields import CAM5
from climlab_dl.climate.formats import annotations, cf, deepcam, extremeweather, wrf
from climlab_dl.climate.formats.header import Header
from climlab_dl.climate.parts import Part


def read(
    paths: Sequence[Path],
    names: Mapping[str, str | None],
    files: ExitStack,
    problems: list[str] | None = None,
) -> list[Part]:
    """Look into every file, and say what groups of like files offer.

    Parameters
    ----------
    paths, names
        As for `archive.open`.
    files : ExitStack
        Closes at its end what was opened; arrays open their file again when they are read later.
    problems : list of str, optional
        Notes the files that cannot be read, which are left out; without it the first of them ends it.
    """
    found: dict[str, list[Any]] = {kind: [] for kind in ("deepcam", "extremeweather", "annotations", "wrf", "cf")}
    for path in _shown(paths):
        try:
            kind, opened = _open(path, files)
            found[kind] += opened
        except (OSError, ValueError) as error:
            if problems is None:
                raise
            problems.append(str(error))
    _known(names, found)
    return [
        *cf.parts(found["cf"], names),
        *annotations.parts(found["annotations"]),
        *deepcam.parts(found["deepcam"], names),
        *extremeweather.parts(found["extremeweather"], names),
        *wrf.parts(found["wrf"], names),
    ]


def _known(names: Mapping[str, str | None], found: Mapping[str, list[Any]]) -> None:
    """Refuse a name that no file has."""
    there = {str(name) for header in found["cf"] for name in header.dataset.variables}
    there |= {str(name) for _, dataset in found["wrf"] for name in dataset.variables}
    there |= set(CAM5) if found["deepcam"] or found["extremeweather"] else set()
    for name in names:
        if name not in there:
            near = get_close_matches(name, there, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f" (found: {', '.join(sorted(there))})."
            raise ValueError(f"names has {name!r}, but no variable is called so{hint}")


def _open(path: Path, files: ExitStack) -> tuple[str, list[Any]]:
    """Give the kind of a file, and what its format's module reads it from."""
    engine = _engine(path)
    if engine == "netcdf4" and (module := _hdf5(path)) is not None:
        return module.__name__.rpartition(".")[2], [module.Sample.of(path)]
    datasets = _datasets(path, engine)
    for dataset in datasets:
        files.callback(dataset.close)
    if wrf.recognises(datasets[0]):
        return "wrf", [(path, dataset) for dataset in datasets]
    headers = [Header(path, dataset) for dataset in datasets]
    return "annotations" if annotations.recognises(headers[0]) else "cf", headers


def _hdf5(path: Path) -> ModuleType | None:
    """Find the module of an HDF5 file that is not NetCDF."""
    if not h5py.is_hdf5(path):
        return None
    try:
        with h5py.File(path, locking=False) as file:
            return next((module for module in (deepcam, extremeweather) if module.recognises(file)), None)
    except OSError as error:
        raise unreadable(path, error) from None


def _engine(path: Path) -> str:
    """Say by the first bytes which engine of xarray opens a file; a name's ending proves nothing."""
    if path.is_dir():
        return "zarr"
    with path.open("rb") as file:
        start = file.read(8)
    if start == b"\x89HDF\r\n\x1a\n" or start[:4] in (b"CDF\x01", b"CDF\x02", b"CDF\x05"):
        return "netcdf4"
    if start[:4] == b"GRIB":
        if find_spec("cfgrib") is None:
            raise OSError(f"{path} is GRIB, which needs the package cfgrib: pip install 'climlab-dl[grib]'.")
        return "cfgrib"
    raise OSError(
        f"{path} is none of NetCDF, HDF5, Zarr and GRIB (it begins with {start!r}); a text file or a failed download?"
    )


def _datasets(path: Path, engine: str) -> list[xr.Dataset]:
    """Open with xarray, without decoding times; NetCDF and Zarr are one dataset, GRIB may be several."""
    options: dict[str, Any] = {"chunks": None, "cache": False, "decode_times": False}
    try:
        with warnings.catch_warnings():
            # Warnings of xarray about fill values and metadata of files that we did not write help nobody here.
            warnings.simplefilter("ignore")
            if engine == "cfgrib":
                import cfgrib  # pyright: ignore[reportMissingImports]

                # One file holds fields of several kinds of level, which are several datasets.
                return cfgrib.open_datasets(str(path), backend_kwargs={"indexpath": ""}, **options)
            return [xr.open_dataset(path, engine=engine, **options)]
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> OSError:
    """Say which file cannot be read, and most likely why."""
    text = str(error)
    if getattr(error, "errno", 0) in (11, 35, 37) or "lock" in text.lower():
        return OSError(
            f"{path} is locked ({text}). Another program has it open, or the file system knows no locks: "
            "set HDF5_USE_FILE_LOCKING=FALSE before Python starts."
        )
    return OSError(
        f"{path} cannot be read: it is truncated or damaged, {path.stat().st_size:,} bytes long ({text}). "
        "Copy or download it again, or leave it out."
    )


def _shown(paths: Sequence[Path]) -> Iterable[Path]:
    """Paths, with a progress bar where opening them takes longer than two seconds."""
    if len(paths) < 100:
        return paths
    from tqdm.auto import tqdm

    return tqdm(paths, desc="opening", unit="file", delay=2, leave=False)
