"""The static map through time, as one animated GIF."""

import io
from pathlib import Path
from typing import Any

import xarray as xr

from climlab_dl.files import beside
from climlab_dl.plot.static import static


def animate(
    fields: xr.Dataset | xr.DataArray,
    mask: xr.DataArray | None = None,
    *,
    path: str | Path,
    seconds: float = 0.5,
    dpi: int = 80,
    **options: Any,
) -> Path:
    """Draw every snapshot and write them as an animated GIF.

    Parameters
    ----------
    fields, mask
        As for `static`; snapshots are read one at a time.
    path
        Of the animation, ``*.gif``.
    seconds
        That each snapshot is shown.
    dpi
        Of the pictures.
    options
        More of `static`: truth, channel, wind, projection and so on.

    Raises
    ------
    ValueError
        The path ends in something else, or there is no time.
    """
    from PIL import Image

    path = Path(path)
    if path.suffix != ".gif":
        raise ValueError(f"{path.name} ends in {path.suffix!r}; an animation is written as .gif")
    if "time" not in fields.dims:
        raise ValueError(
            f"an animation needs a dimension time, found {tuple(fields.dims)}; static() draws one snapshot"
        )
    pictures = []
    for time in range(fields.sizes["time"]):
        buffer = io.BytesIO()
        # Not cut to what is drawn, for all pictures have to be equally large.
        static(fields, mask, time=time, **options).savefig(buffer, format="png", dpi=dpi)
        pictures.append(Image.open(buffer).convert("RGB").quantize(128))
    with beside(path) as new:
        more = {"save_all": True, "append_images": pictures[1:], "duration": round(1000 * seconds), "loop": 0}
        pictures[0].save(new, format="GIF", **more)
    return path
