"""Verbs for climate files: check, convert, label, events."""

import sys
from pathlib import Path
from typing import Literal

from climlab_dl.cli.app import Files, app, refuse_to_overwrite, source_of


@app.command
def check(files: Files, /) -> None:
    """Report on climate files: grid, calendar, missing times, extremes per channel; exit 1 where something is wrong.

    Example: climlab-dl check "cam5/*.nc"

    Args:
        files: Files, folders or patterns.
    """
    from climlab_dl import archive

    report = archive.check(source_of(files))
    print(report)
    sys.exit(0 if report.ok else 1)


@app.command
def convert(files: Files, /, *, out: Path, layout: Literal["cf", "deepcam", "climatenet"] = "cf") -> None:
    """Write climate files of any known format as one archive with canonical names and SI units.

    Example: climlab-dl convert "era5/*.grib" --out era5.zarr

    Args:
        files: Files, folders or patterns.
        out: ``*.nc`` or ``*.zarr``; a folder for the layouts deepcam and climatenet.
        layout: CF-1.11, or one file a snapshot as DeepCAM's or ClimateNet's own readers want it.
    """
    from climlab_dl import archive

    print(archive.save(archive.open(source_of(files)), out, layout=layout))


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
    from climlab_dl import archive, heuristics

    fields = archive.open(source_of(files))
    lows, streams = heuristics.Cyclones, heuristics.Rivers
    for_cyclones = {"kurth": lows.kurth(), "teca": lows.teca_for(fields), "tempest": lows.tempest(), "none": None}
    for_rivers = {
        "kurth": streams.kurth(river_threshold),
        "ivt": streams.ivt(),
        "tempest": streams.tempest(),
        "none": None,
    }
    if mask_only:
        refuse_to_overwrite(out, files)
    mask = heuristics.label(fields, cyclones=for_cyclones[cyclones], rivers=for_rivers[rivers], wrap=wrap)
    print(archive.save(mask.to_dataset() if mask_only else fields.assign(mask=mask), out))


@app.command
def events(
    files: Files,
    /,
    *,
    csv: Path | None = None,
    geojson: Path | None = None,
    tracks: Path | None = None,
    min_area_km2: float = 0.0,
) -> None:
    """List the storms of labelled files: one row for each event and time, with its track.

    Example: climlab-dl events labelled.nc --csv storms.csv --geojson storms.geojson

    Args:
        files: Files with a ``mask``, as ``climlab-dl label`` or ``detect`` writes them.
        csv: Table to write; units are in the columns' names.
        geojson: Outlines to write (RFC 7946).
        tracks: Tracks to write, NetCDF of CF trajectories.
        min_area_km2: Leave out events smaller than this, in km2.
    """
    from climlab_dl import archive
    from climlab_dl import events as storms

    fields = archive.open(source_of(files))
    if "mask" not in fields:
        sys.exit(f"{files[0]} has no mask; climlab-dl label or detect makes one")
    table = storms.find(fields["mask"], fields, min_area_km2=min_area_km2)
    if csv:
        print(storms.to_csv(table, csv))
    if geojson:
        storms.to_geojson(fields["mask"], geojson, table=table)
        print(geojson)
    if tracks:
        print(storms.to_netcdf(table, tracks))
    if not (csv or geojson or tracks):
        print(table.to_string(index=False))
