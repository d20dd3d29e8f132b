"""Distributed deep learning for climate and cosmology, from a notebook cell.

``import climlab_dl as lab`` costs nothing: each noun and verb below is imported when it is first used.
"""

from importlib import import_module
from typing import Any

# Where each name of the front door lives: a module, or "module:attribute".
_FRONT_DOOR = {
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
    "archive_map": "climlab_dl.parallel.archive_map",
    "Detector": "climlab_dl.inference.detect:Detector",
    "detect": "climlab_dl.inference.detect:detect",
    "evaluate": "climlab_dl.inference.evaluation:evaluate",
    "outputs": "climlab_dl.inference.outputs",
    "posterior": "climlab_dl.inference.posterior",
    "calibration": "climlab_dl.inference.calibration",
    "estimates": "climlab_dl.inference.estimates",
    "curves": "climlab_dl.plot.curves",
    "live": "climlab_dl.plot.live",
    "maps": "climlab_dl.plot.maps",
    "posteriors": "climlab_dl.plot.posteriors",
    "report": "climlab_dl.reporting:report",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("climlab-dl")
    if name in _FRONT_DOOR:
        module, _, attribute = _FRONT_DOOR[name].partition(":")
        return getattr(import_module(module), attribute) if attribute else import_module(module)
    raise AttributeError(f"climlab_dl has no {name!r}; it has {', '.join(sorted(_FRONT_DOOR))}")


def __dir__() -> list[str]:
    return sorted(["__version__", *_FRONT_DOOR])
