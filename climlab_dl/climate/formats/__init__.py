"""One module a format, which says as `Part` s what its files offer; here, which file is of which format."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from climlab_dl.climate.fields import CAM5
from climlab_dl.climate.formats import annotations, cf, deepcam, extremeweather, wrf
from climlab_dl.climate.formats.header import Header
from climlab_dl.climate.formats.opening import datasets, empty, hdf5, kind_of
from climlab_dl.climate.parts import Part
from climlab_dl.files import Stamp


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
    stamps: dict[Path, Stamp] = {}
    for path in tqdm(paths, desc="opening", unit="file", delay=2, leave=False):
        try:
            stamps[path] = Stamp.of(path)
            kind, opened = _open(path, names, files)
            found[kind] += opened
        except (OSError, ValueError) as error:
            if problems is None:
                raise
            problems.append(str(error))
    _known(names, found)
    parts = [
        *cf.parts(found["cf"], names, problems),
        *annotations.parts(found["annotations"]),
        *deepcam.parts(found["deepcam"], names),
        *extremeweather.parts(found["extremeweather"], names),
        *wrf.parts(found["wrf"], names),
    ]
    return [replace(part, stamps=stamps) for part in parts]


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


def _open(path: Path, names: Mapping[str, str | None], files: ExitStack) -> tuple[str, list[Any]]:
    """Give the format of a file, and what the format's module reads it from."""
    kind = kind_of(path)
    if kind == "hdf5":
        with hdf5(path) as file:
            if deepcam.recognises(file):
                return "deepcam", [deepcam.Sample.of(path, file)]
            if extremeweather.recognises(file):
                return "extremeweather", [extremeweather.Sample.of(path, file)]
    opened = datasets(path, kind)
    for dataset in opened:
        files.callback(dataset.close)
    if wrf.recognises(opened[0]):
        if not wrf.snapshots(opened[0]):
            raise empty(path)
        return "wrf", [(path, dataset) for dataset in opened]
    headers = [Header(path, dataset, names, hdf5=kind == "hdf5") for dataset in opened]
    return "annotations" if annotations.recognises(headers[0]) else "cf", headers
