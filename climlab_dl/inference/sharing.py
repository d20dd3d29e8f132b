"""Whether volumes can be of one universe's parameters, as those are taken to be whose likelihoods are multiplied."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from climlab_dl.inference.densities import Likelihood
from climlab_dl.words import counted

log = logging.getLogger(__name__)
Array = NDArray[np.float64]
# So improbable is what volumes of one universe are not believed to do.
IMPROBABLE = 1e-3


def warn_of_others(
    sources: Sequence[Path],
    physical: Sequence[Array | None],
    summaries: Array,
    likelihood: Likelihood,
    names: Sequence[str],
) -> None:
    """Say in the log where the files tell that parameters differ or, where they tell nothing, the estimates do.

    Parameters
    ----------
    sources
        Files of the volumes that are drawn from together.
    physical
        Parameters that each file tells, if any.
    summaries
        The network's estimates (volumes, parameters).
    likelihood
        Of these estimates.
    names
        Of the parameters that are estimated.
    """
    told: dict[tuple[float, ...], str] = {}
    for source, values in zip(sources, physical, strict=True):
        if values is not None:
            told.setdefault(tuple(np.round(values, 6).tolist()), source.name)
    taken = "volumes that are drawn from together are taken to share their parameters, but"
    remedy = "draw from those of one universe at a time, or from each alone (climlab-dl infer --apart)"
    if len(told) > 1:
        first = ", ".join([*told.values()][:3])
        log.warning("%s: %s the files tell %d sets of them; %s", first, taken, len(told), remedy)
    elif (probability := likelihood.agreement(summaries)) < IMPROBABLE:
        distances = likelihood.distances(summaries)
        farthest, which = divmod(int(np.abs(distances).argmax()), len(names))
        distance = distances[farthest, which]
        log.warning(
            "%s the estimates of %s contradict each other (p = %.1g): %s of %s lies %.1f times the scatter %s the mean "
            "of the others; %s",
            taken, counted(len(sources), "volume"), probability, names[which], sources[farthest].name,
            abs(distance), "above" if distance > 0 else "below", remedy,
        )  # fmt: skip
