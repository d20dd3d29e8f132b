"""Distributed deep learning for climate and cosmology, from a notebook cell.

``import climlab_dl as lab`` costs nothing: each noun below is imported when it is first used.
"""

from importlib import import_module
from typing import Any

_NOUNS = {
    "archive": "climlab_dl.climate.archive",
    "fields": "climlab_dl.climate.fields",
    "heuristics": "climlab_dl.climate.heuristics",
    "events": "climlab_dl.climate.events",
    "synthetic": "climlab_dl.climate.synthetic",
    "volumes": "climlab_dl.cosmology.volumes",
    "simulate": "climlab_dl.cosmology.simulate",
    "spectrum": "climlab_dl.cosmology.spectrum",
    "runs": "climlab_dl.training.runs",
    "cluster": "climlab_dl.parallel.cluster",
    "detect": "climlab_dl.inference.detect",
    "posterior": "climlab_dl.inference.posterior",
    "maps": "climlab_dl.plot.maps",
    "live": "climlab_dl.plot.live",
    "posteriors": "climlab_dl.plot.posteriors",
}

__all__ = ["__version__", *_NOUNS]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("climlab-dl")
    if name in _NOUNS:
        return import_module(_NOUNS[name])
    raise AttributeError(f"climlab_dl has no {name!r}; it has {', '.join(sorted(_NOUNS))}")


def __dir__() -> list[str]:
    return sorted(__all__)
