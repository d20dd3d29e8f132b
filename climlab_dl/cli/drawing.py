"""The verb for maps."""

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import arg

from climlab_dl.cli.app import Count, Files, Names, app, masks_apart, wrong_use
from climlab_dl.cli.sources import opened


@app.command(name="map")
def draw(
    files: Files,
    /,
    *,
    out: Path,
    mask: tuple[str, ...] = (),
    channel: Annotated[tuple[str, ...], arg(aliases=["-c"])] = (),
    time: str | None = None,
    wind: bool = False,
    storms: bool = False,
    hide_mask: bool = False,
    projection: Literal["PlateCarree", "Robinson", "Mollweide", "Orthographic", "NorthPolarStereo", "SouthPolarStereo"]
    | None = None,
    central_longitude: float | None = None,
    dpi: Count = 150,
    names: Names = (),
) -> None:
    """Draw climate files and masks: a picture, a page or an animation.

    Example: climlab-dl map labelled.nc --out map.html --storms

    Args:
        files: Files, folders or patterns.
        out: ``*.png``, ``*.pdf`` or ``*.svg`` for a picture of one time, ``*.html`` for a page with all times, or as
            many as it can hold, ``*.gif`` or ``*.mp4`` for an animation.
        mask: Files of the mask that ``climlab-dl detect`` made; by default the mask in the files, if any.
        channel: Which fields: a page offers them all, a picture is of the first. By default a page offers every field
            and a picture is of TMQ, IVT or what comes first. Of what ``climlab-dl detect`` wrote also entropy,
            mutual_information, and by class such as probability_of_river.
        time: Of a picture: a position, or a date such as 2001-08-14T06; by default the first.
        wind: Draw the wind at 850 hPa as arrows.
        storms: Draw the storms' tracks until this time, dots where they begin, and under a page list the storms.
        hide_mask: Leave the mask out, which may lie over what is to be seen, such as the entropy where a storm is.
        projection: Of the map; by default Robinson for pictures and animations of the whole Earth, whose areas it
            hardly distorts, and PlateCarree, with degrees along its sides, for regions and for pages.
        central_longitude: In the middle of the map, in degrees east; by default 0, or the middle of a region.
        dpi: Pixels in an inch of a picture, which is nine inches wide.
    """
    from climlab_dl import events, maps
    from climlab_dl.plot import styles

    endings = {".html", ".gif", ".mp4", ".png", ".pdf", ".svg"}
    if out.suffix not in endings:
        wrong_use(f"--out {out} ends in {out.suffix!r}; a map is written as {', '.join(sorted(endings))}")
    of_masks, of_fields = masks_apart(names) if mask else ((), names)
    fields = opened(files, of_fields)
    if set(fields) == {"mask"}:
        named = ["--names", *names] if names else []
        over = shlex.join(["--mask", *files, *named, *(["--storms"] if storms else []), "--out", str(out)])
        raise ValueError(f"these are masks only; draw them over their fields: climlab-dl map YOUR_FIELDS {over}")
    marked = opened(mask, of_masks) if mask else fields
    if "mask" not in marked and (mask or storms):
        raise ValueError(f"{(mask or files)[0]} has no mask; climlab-dl label or detect makes one")
    found = marked.get("mask")
    shown = None if hide_mask else found
    channels = list(channel) or [name for name in ("TMQ", "IVT") if name in fields][:1] or None
    options: Any = {
        "wind": ("U850", "V850") if wind else None,
        "storms": events.find(found, fields) if storms else None,
        "central_longitude": central_longitude,
    }
    if projection is not None:  # each kind of drawing has its own default
        options["projection"] = projection
    if out.suffix == ".html":
        maps.explore(fields, shown, channels=list(channel) or None, **options).save(out)
    elif out.suffix in (".gif", ".mp4"):
        maps.animate(fields, shown, path=out, channel=channels and channels[0], **options)
    else:
        dates = styles.dates(fields)
        if time is None and len(dates) > 1:
            print(f"drawn is {dates[0]}, the first of {len(dates)} times; --time chooses another", file=sys.stderr)
        step = _position(dates, time or "0")
        maps.static(fields, shown, path=out, channel=channels and channels[0], time=step, dpi=dpi, **options)
    print(out)


def _position(dates: list[str], time: str) -> int:
    """Position of a snapshot that is named by its position or its date."""
    if time.lstrip("-").isdigit():
        return int(time)
    named = [step for step, date in enumerate(dates) if date.startswith(time.replace("T", " "))]
    if not named:
        raise ValueError(f"--time {time}: no snapshot is of that time; there are {dates[0]} to {dates[-1]}")
    return named[0]
