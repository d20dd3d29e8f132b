"""Where the data of a run lie: as the user told it, and the folder that relative paths were told from."""

import copy
import glob
import os
from typing import Any

STARTED_IN = "started_in"
_PATHS = ("source", "statistics")
_READING = ("memory_gigabytes", "workers", "stage_to")
"""How samples are read, and not which: the training is the same."""


def noted(described: dict[str, Any]) -> dict[str, Any]:
    """Add to a run's description the folder that its relative paths are told from, if it has any."""
    data = described.get("data")
    told = [path for name in _PATHS for path in _each(data.get(name))] if isinstance(data, dict) else []
    if all(os.path.isabs(os.path.expanduser(path)) for path in told):
        return described
    return {**described, STARTED_IN: os.getcwd()}


def located(described: dict[str, Any]) -> dict[str, Any]:
    """Make absolute the paths of a description whose files lie where they were told from.

    The others, such as those of a project that was moved as a whole, stay as they were told.
    """
    described = copy.deepcopy(described)
    home, data = described.pop(STARTED_IN, None), described.get("data")
    if home is not None and isinstance(data, dict):
        for name in set(_PATHS) & set(data):
            told = data[name]
            data[name] = [_from(home, path) for path in told] if isinstance(told, list) else _from(home, told)
    return described


def same_data(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two descriptions learn from the same, as they are told or as they lie, however it is read."""
    return _samples(one.get("data"), None) == _samples(other.get("data"), None) or (
        _samples(one.get("data"), one.get(STARTED_IN)) == _samples(other.get("data"), other.get(STARTED_IN))
    )


def _samples(data: Any, home: str | None) -> Any:
    """Keep of a description of data what says which samples they are: of paths, told from a folder, where they lead."""
    if not isinstance(data, dict):
        return data
    kept = {name: part for name, part in data.items() if name not in _READING}
    for name in _PATHS if home is None or os.path.isdir(home) else ():
        if told := _each(kept.get(name)):
            kept[name] = [os.path.realpath(os.path.join(home or "", os.path.expanduser(path))) for path in told]
    return kept


def _each(told: Any) -> list[str]:
    return [path for path in (told if isinstance(told, list) else [told]) if isinstance(path, str)]


def _from(home: str, told: Any) -> Any:
    if not isinstance(told, str):
        return told
    path = os.path.join(home, os.path.expanduser(told))
    return path if os.path.exists(path) or next(glob.iglob(path, recursive=True), None) else told
