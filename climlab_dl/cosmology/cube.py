"""One density cube and what is known of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from climlab_dl import cards


@dataclass(frozen=True, kw_only=True, repr=False)
class Volume:
    """One cube and what is known of it.

    Parameters
    ----------
    counts
        (x, y, z, redshifts): particles in each voxel, int16, or float32 in the 2018 records.
    names
        Of the parameters; empty where the file does not tell.
    unit
        Parameters scaled to [-1, 1] over the prior; of one parameter, its number will do.
    physical
        Parameters themselves; likewise.
    redshifts
        Of the channels; likewise.
    box_size_mpc_h
        Side of the cube in Mpc/h.
    source
        File that it came from.
    periodic
        Whether opposite sides touch: true of whole simulations only.

    Raises
    ------
    ValueError
        If counts are no whole or floating-point numbers (but truth values, complex ones), or other values no numbers.
    """

    counts: NDArray[Any]
    source: Path
    names: tuple[str, ...] = ()
    unit: NDArray[np.float64] | None = None
    physical: NDArray[np.float64] | None = None
    redshifts: NDArray[np.float64] | None = None
    box_size_mpc_h: float | None = None
    periodic: bool = True
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts)
        if counts.dtype.kind not in "iuf":
            raise ValueError(
                f"{self.source} has counts of type {counts.dtype}; expected whole or floating-point numbers: of truth "
                "values write counts.astype('int16'), of complex ones what of them is a density"
            )
        object.__setattr__(self, "counts", counts)
        for name in ("unit", "physical", "redshifts"):
            if (values := getattr(self, name)) is not None:
                try:
                    object.__setattr__(self, name, np.ravel(np.asarray(values, dtype=np.float64)))
                except (TypeError, ValueError) as fault:
                    raise ValueError(f"{self.source}: {name} is {values!r}; expected numbers") from fault

    def __repr__(self) -> str:
        return f"Volume({'; '.join(f'{name} {text}' for name, text in self._told().items())})"

    def _repr_html_(self) -> str:
        return cards.card(self._told(), "Volume")

    def _told(self) -> dict[str, str]:
        """Say what is known."""
        values = self.unit if self.physical is None else self.physical
        named = len(self.names) == (0 if values is None else len(values))
        texts = [f"{value:.4g}" for value in (() if values is None else values)]
        return {
            "source": str(self.source),
            "counts": f"{self.counts.shape} {self.counts.dtype}",
            "redshifts": "not told" if self.redshifts is None else ", ".join(f"{z:g}" for z in self.redshifts),
            "box": "not told" if self.box_size_mpc_h is None else f"{self.box_size_mpc_h:g} Mpc/h",
            "parameters" if self.unit is None or self.physical is not None else "scaled parameters": ", ".join(
                map("=".join, zip(self.names, texts, strict=True)) if named else texts
            )
            or "not told",
        }

    @property
    def parameters(self) -> dict[str, float]:
        """Physical parameters by name."""
        if self.physical is None or not self.names:
            raise ValueError(f"{self.source.name} does not tell its physical parameters; it has only scaled ones")
        return dict(zip(self.names, self.physical.tolist(), strict=True))

    def at(self, redshifts: Sequence[float]) -> "Volume":
        """Only these redshifts, in this order.

        Raises
        ------
        ValueError
            If the volume lacks one.
        """
        there = [] if self.redshifts is None else self.redshifts.tolist()
        places = [i for wanted in redshifts for i, z in enumerate(there) if np.isclose(z, wanted)]
        if len(places) < len(redshifts):
            lacking = ", ".join(f"{wanted:g}" for wanted in redshifts if not np.isclose(wanted, there).any())
            raise ValueError(
                f"{self.source.name} has no redshift {lacking} (it has {', '.join(f'{z:g}' for z in there) or 'none'})"
            )
        return replace(self, counts=self.counts[..., places], redshifts=np.asarray(redshifts, dtype=np.float64))

    def subvolumes(self, size: int) -> "list[Volume]":
        """Cut into cubes of ``size`` voxels a side, in C order; they are views and no longer periodic."""
        voxels = self.counts.shape[0]
        if voxels % size:
            raise ValueError(f"{self.source.name} has {voxels} voxels a side, which {size} does not divide")
        if size == voxels:
            return [self]
        box = None if self.box_size_mpc_h is None else self.box_size_mpc_h * size / voxels
        corners = product(range(0, voxels, size), repeat=3)
        cut = (self.counts[x : x + size, y : y + size, z : z + size] for x, y, z in corners)
        return [replace(self, counts=piece, box_size_mpc_h=box, periodic=False) for piece in cut]


def names_of(told: Any) -> tuple[str, ...]:
    """Names as a file tells them: texts or bytes, several or one, in which commas part them; none where it does not."""
    each = [] if told is None else np.ravel(np.asarray(told)).tolist()
    texts = [text.decode() if isinstance(text, bytes) else str(text) for text in each]
    return tuple(name.strip() for name in texts[0].split(",")) if len(texts) == 1 else tuple(texts)


def channels_last(counts: NDArray[Any], owner: str | Path) -> NDArray[Any]:
    """Cubes (n, n, n), (n, n, n, channels) or (channels, n, n, n) as (n, n, n, channels), a view.

    Raises
    ------
    ValueError
        If the array is none of these, naming whose it is.
    """
    shape = counts.shape
    if counts.ndim == 3 and len(set(shape)) == 1:
        return counts[..., None]
    if counts.ndim == 4 and shape[0] == shape[1] == shape[2]:
        return counts
    if counts.ndim == 4 and shape[1] == shape[2] == shape[3]:
        return np.moveaxis(counts, 0, -1)
    raise ValueError(
        f"{owner} holds an array {tuple(shape)}; expected a cube (n, n, n), (n, n, n, channels) or (channels, n, n, n)"
    )
