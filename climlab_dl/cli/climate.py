"""Verbs for climate files: check, convert, label, events; the first two take files of volumes as well."""

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from climlab_dl.cli.app import (
    AsJson,
    Files,
    Names,
    app,
    masks_apart,
    refuse_names,
    refuse_to_overwrite,
    renamed,
    source_of,
    wrong_use,
)
from climlab_dl.cli.shell import in_shell
from climlab_dl.cli.sources import are_volumes, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from tqdm import tqdm


_NO_VOLUMES = (
    "No file there can be read as a volume of the universe, either: HDF5 with a cube 'full' or 'x', TFRecord or Zarr."
)


@app.command
def check(files: Files, /, *, names: Names = (), as_json: AsJson = False) -> None:
    """Report on files before long work; exit 1 if one is wrong.

    Climate: grid, calendar, missing times, extremes of each field, share of each class. Volumes of the universe
    (TFRecord, HDF5, Zarr): counts and parameters.

    Example: climlab-dl check "cam5/*.nc"

    Args:
        files: Files, folders or patterns.
        as_json: Print JSON for a script: the report, with ``ok`` and ``problems``.
    """
    from climlab_dl import archive

    if are_volumes(files):
        from climlab_dl.cosmology import checks

        refuse_names(names)
        report, hint = checks.check(source_of(files)), ""
    else:
        report = archive.check(source_of(files), names=renamed(names))
        hint = "" if report.files else f"climlab-dl: {_NO_VOLUMES}\n"
    print(json.dumps(report.to_dict(), indent=2) if as_json else in_shell(str(report), "check"), flush=True)
    sys.stderr.write(hint)
    sys.exit(0 if report.ok else 1)


@app.command
def convert(
    files: Files,
    /,
    *,
    out: Path,
    layout: Literal["cf", "deepcam", "climatenet", "zarr", "hdf5"] | None = None,
    names: Names = (),
) -> None:
    """Write climate files of any known format as one archive in SI units.

    Volumes of the universe become a folder of Zarr stores or HDF5 files, which read faster than TFRecords.

    Example: climlab-dl convert "era5/*.nc" --out era5.zarr

    Args:
        files: Files, folders or patterns.
        out: ``*.nc`` or ``*.zarr``; a folder for the layouts deepcam and climatenet, and for volumes.
        layout: Climate: CF-1.11 (unless asked for another), or one file a snapshot as DeepCAM's or ClimateNet's own
            readers want it. Volumes: zarr (unless asked for another) or hdf5.
    """
    from climlab_dl import archive

    if are_volumes(files):
        from climlab_dl.cosmology import checks

        refuse_names(names)
        if out.suffix:
            wrong_use(f"volumes become a file each; expected a folder, not --out {out}")
        if layout not in (None, "zarr", "hdf5"):
            wrong_use(f"--layout {layout} is for climate, {files[0]} has volumes; expected zarr or hdf5")
        print(*checks.convert(source_of(files), out, layout=layout or "zarr"), sep="\n")
        return
    if layout in ("zarr", "hdf5"):
        wrong_use(f"--layout {layout} is for volumes; for climate expected cf, deepcam or climatenet")
    try:
        archive.paths(files)
    except FileNotFoundError as fault:  # what --out should be depends on what there is
        sys.exit(f"climlab-dl: {fault} {_NO_VOLUMES}")
    if layout in (None, "cf"):
        _must_end_as_an_archive(out, "; for a folder with a file a snapshot add --layout deepcam or climatenet")
    refuse_to_overwrite(out, files)
    fields = archive.open(source_of(files), names=renamed(names))
    print(archive.save(fields, out, layout=layout or "cf"))


@app.command
def label(
    files: Files,
    /,
    *,
    out: Path,
    cyclones: Literal["kurth", "teca", "tempest", "none"] = "kurth",
    rivers: Literal["kurth", "ivt", "tempest", "none"] = "kurth",
    river_threshold: float = 21.0,
    wrap: bool = True,
    mask_only: bool = False,
    names: Names = (),
) -> None:
    """Mark cyclones and rivers by published rules.

    Example: climlab-dl label "cam5/*.nc" --out labelled.nc --cyclones teca

    Args:
        files: Files, folders or patterns.
        out: NetCDF or Zarr for the fields with their mask.
        cyclones: Kurth et al. 2018 (very loose), TECA's criteria for the grid's spacing, TempestExtremes', or none.
        rivers: Kurth et al. 2018 (damped water vapour), IVT above 250 kg/m/s, TempestLR, or no rivers.
        river_threshold: Of Kurth's rule, in kg/m2 (the paper: 21 and 24).
        wrap: Join the first and last longitude; the published labels do not.
        mask_only: Leave the fields out.
    """
    from tqdm import tqdm

    from climlab_dl import archive, heuristics

    _must_end_as_an_archive(out)
    fields = opened(files, names)
    lows, streams = heuristics.Cyclones, heuristics.Rivers
    for_cyclones = {"kurth": lows.kurth(), "teca": lows.teca_for(fields), "tempest": lows.tempest(), "none": None}
    for_rivers = {
        "kurth": streams.kurth(river_threshold),
        "ivt": streams.ivt(),
        "tempest": streams.tempest(),
        "none": None,
    }
    refuse_to_overwrite(out, files)
    mask = heuristics.label(fields, cyclones=for_cyclones[cyclones], rivers=for_rivers[rivers], wrap=wrap)
    with tqdm(total=mask.sizes["time"], desc="labelling", unit="snapshot", delay=2, leave=False) as bar:
        mask = mask.copy(data=mask.data.map_blocks(_advancing(bar), dtype=mask.dtype, meta=mask.data))
        written = archive.save(mask.to_dataset() if mask_only else fields.assign(mask=mask), out)
    print(written)


@app.command
def events(
    files: Files,
    /,
    *,
    fields: tuple[str, ...] = (),
    csv: Path | None = None,
    geojson: Path | None = None,
    tracks: Path | None = None,
    min_area_km2: float = 0.0,
    names: Names = (),
    as_json: AsJson = False,
) -> None:
    """List the storms of labelled files: a row for each event and time.

    Example: climlab-dl events labelled.nc --csv storms.csv --geojson storms.geojson

    Args:
        files: Files with a ``mask``, as ``climlab-dl label`` or ``detect`` writes them.
        fields: Files of the masks' times and grid, from which pressure, wind, water vapour, IVT, precipitation and
            scales are taken; by default what FILES hold besides the mask, which is nothing where ``detect`` wrote them.
        csv: Table to write; units are in the columns' names, longitudes as in the files.
        geojson: Outlines to write (RFC 7946), with the table as properties; longitudes are -180 to 180.
        tracks: Tracks to write, NetCDF of CF trajectories.
        min_area_km2: Leave out events smaller than this, in km2.
        as_json: Print JSON for a script: a list of rows, longitudes as in the table.
    """
    from climlab_dl import events as storms
    from climlab_dl.climate.fields import FIELDS
    from climlab_dl.climate.tracks import time_text
    from climlab_dl.files import refuse_unwritable

    of_masks, of_fields = masks_apart(names) if fields else (names, ())
    marked = opened(files, of_masks)
    if "mask" not in marked:
        sys.exit(f"climlab-dl: {files[0]} has no mask; climlab-dl label or detect makes one")
    for path in filter(None, (csv, geojson, tracks)):
        refuse_to_overwrite(path, (*files, *fields))
        refuse_unwritable(path)
    described = opened(fields, of_fields) if fields else marked
    if not set(described) & set(FIELDS):
        print(
            "climlab-dl: these are masks alone: the table has no pressure, wind, water vapour, IVT, precipitation or "
            "scales of the storms; --fields FILES names the fields to take them from",
            file=sys.stderr,
        )
    table = storms.find(marked["mask"], described, min_area_km2=min_area_km2)
    written = []
    if csv:
        written.append(storms.to_csv(table, csv))
    if geojson:
        storms.to_geojson(marked["mask"], geojson, table=table, fields=described if min_area_km2 else None)
        written.append(geojson)
    if tracks:
        written.append(storms.to_netcdf(table, tracks))
    if as_json:
        dated = table.assign(time=[time_text(time) for time in table["time"]])
        print(dated.to_json(orient="records", indent=2, double_precision=15))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        print(*written or [table.to_string(index=False, line_width=width)], sep="\n")


def _advancing(bar: "tqdm[Any]") -> "Callable[[np.ndarray], np.ndarray]":
    """Give what passes masks (time, lat, lon) on, as they are computed in some thread, and advances the bar."""

    def advance(mask: "np.ndarray") -> "np.ndarray":
        with bar.get_lock():
            bar.update(len(mask))
        return mask

    return advance


def _must_end_as_an_archive(out: Path, otherwise: str = "") -> None:
    if out.suffix not in (".nc", ".zarr"):
        wrong_use(f"--out {out} ends in {out.suffix!r}; expected .nc or .zarr{otherwise}")
