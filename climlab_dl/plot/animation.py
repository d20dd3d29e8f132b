"""The static map through time, as an animated GIF or a film."""

import io
import shutil
import subprocess
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import xarray as xr

from climlab_dl.files import beside
from climlab_dl.plot import layers, styles
from climlab_dl.plot.pictures import in_words, png
from climlab_dl.plot.static import static
from climlab_dl.words import counted


def animate(
    fields: xr.Dataset | xr.DataArray,
    mask: xr.DataArray | None = None,
    *,
    path: str | Path,
    seconds: float = 0.5,
    dpi: int = 80,
    **options: Any,
) -> Path:
    """Draw every snapshot and write them as an animation, which says in words what it shows, as pictures do.

    The words are a GIF's comment, and a film's title and comment.

    Parameters
    ----------
    fields, mask
        As for `static`; snapshots are read one at a time.
    path
        Of the animation, ``*.gif``, or ``*.mp4`` where the program ffmpeg is installed.
    seconds
        That each snapshot is shown.
    dpi
        Of the pictures.
    options
        More of `static`: truth, channel, wind, storms, projection and so on.

    Raises
    ------
    ValueError
        The path ends in something else, or there is no time.
    FileNotFoundError
        A film is asked for and there is no ffmpeg.
    RuntimeError
        ffmpeg cannot write it; the message has what it said.
    """
    path = Path(path)
    if path.suffix not in (".gif", ".mp4"):
        raise ValueError(f"{path.name} ends in {path.suffix!r}; an animation is written as .gif or .mp4")
    if "time" not in fields.dims:
        raise ValueError(
            f"an animation needs a dimension time, found {tuple(fields.dims)}; static() draws one snapshot"
        )
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise FileNotFoundError(
            f"{path.name}: films are written by ffmpeg, which is not on PATH; install it (apt-get install ffmpeg, "
            "conda install ffmpeg, brew install ffmpeg) or write a .gif"
        )
    there = fields.sizes["time"]
    if "look" not in options:  # or each picture would have to look at the first snapshot anew
        channel = options.get("channel")
        options["look"] = styles.style(layers.channels_of(fields, [channel] if channel else None)[0])
    first = static(fields, mask, time=0, **options)
    said = f"{in_words(first)}; the first of {counted(there, 'picture')}, {seconds:g} s each"
    if last := styles.dates(fields)[-1]:
        said += f", until {last}"
    figures = chain([first], (static(fields, mask, time=time, **options) for time in range(1, there)))
    # Not cut to what is drawn, for all pictures have to be equally large.
    pictures = (png(figure, dpi) for figure in figures)
    with beside(path) as new:
        (_film if path.suffix == ".mp4" else _gif)(pictures, new, seconds, said)
    return path


def _gif(pictures: Iterator[bytes], path: Path, seconds: float, said: str) -> None:
    from PIL import Image

    # An octree keeps the few pixels of the classes, which the usual median cut would spend on shades of the field.
    how = {"colors": 256, "method": Image.Quantize.FASTOCTREE}
    first, *rest = [Image.open(io.BytesIO(picture)).convert("RGB").quantize(**how) for picture in pictures]
    timing = {"duration": round(1000 * seconds), "loop": 0}
    first.save(path, format="GIF", save_all=True, append_images=rest, comment=said, **timing)


def _film(pictures: Iterator[bytes], path: Path, seconds: float, said: str) -> None:
    """Hand the pictures to ffmpeg one by one, as H.264 that browsers and slides play: even sizes, 4:2:0."""
    command = ["ffmpeg", "-y", "-loglevel", "error", "-f", "image2pipe", "-framerate", str(1 / seconds), "-i", "-"]
    command += ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white", "-pix_fmt", "yuv420p", "-movflags", "+faststart"]
    command += ["-metadata", f"title={said.partition(';')[0]}", "-metadata", f"comment={said}"]
    with subprocess.Popen([*command, "-f", "mp4", str(path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as ffmpeg:
        assert ffmpeg.stdin is not None
        try:
            for picture in pictures:
                ffmpeg.stdin.write(picture)
        except BrokenPipeError:
            pass  # it has ended early, and says why
        _, why = ffmpeg.communicate()
    if ffmpeg.returncode:
        raise RuntimeError(f"ffmpeg could not write {path.name}: {why.decode(errors='replace').strip()}")
