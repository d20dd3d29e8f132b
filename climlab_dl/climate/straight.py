"""Snapshots of an archive straight from its files into arrays that are there already.

The general way, through xarray and dask, makes an array for every field and every snapshot, and a task for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from climlab_dl.climate.stack import Stack


@dataclass(frozen=True)
class Straight:
    """Reads some variables of one snapshot after the other.

    Attributes
    ----------
    plan : list of (Stack, list of int, list of int or None)
        What is read together, where in the array it goes, and which components of it are wanted.
    """

    plan: list[tuple[Stack, list[int], list[int] | None]]

    @classmethod
    def of(cls, fields: xr.Dataset, names: Sequence[str]) -> "Straight | None":
        """Give the reader of an archive as it was opened, or None.

        Files of several layouts are read the general way, and so are fields that follow from others.
        """
        stacks = fields.encoding.get("stacks", {})
        if not set(names) <= set(stacks):
            return None
        plan: dict[int, tuple[Stack, list[int], list[int] | None]] = {}
        for place, name in enumerate(names):
            stack, component = stacks[name]
            _, places, picks = plan.setdefault(id(stack), (stack, [], None if component is None else []))
            places.append(place)
            if picks is not None and component is not None:
                picks.append(component)
        return cls(list(plan.values()))

    def read(self, number: int, out: np.ndarray) -> bool:
        """Read snapshot ``number`` into ``out`` (variable, lat, lon), and say whether a field of it has gaps (NaN).

        Raises
        ------
        OSError, ValueError
            Naming the file, when it cannot be read, or holds what cannot be.
        """
        gaps = False
        for stack, places, picks in self.plan:
            if picks is None:
                gaps |= stack.fill(number, out[places[0]])
                out[places[1:]] = out[places[0]]
            elif places == list(range(len(out))):
                gaps |= stack.fill(number, out, None if picks == list(range(*stack.inner[:1])) else picks)
            else:
                some = np.empty((len(places), *out.shape[1:]), out.dtype)
                gaps |= stack.fill(number, some, picks)
                out[places] = some
        return gaps
