"""Dataclasses within dataclasses as plain types, for JSON, and back."""

import contextlib
import importlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """Return a value in the types of JSON: of each dataclass its ``class`` and its fields.

    Raises
    ------
    TypeError
        If it holds anything else.
    """
    if is_dataclass(value) and not isinstance(value, type):
        parts = {part.name: plain(getattr(value, part.name)) for part in fields(value)}
        # A mapping of nothing says nothing, and a run that was described before there was one is the same run.
        return {"class": _name(type(value)), **{name: part for name, part in parts.items() if part != {}}}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"a run holds {value!r}; its parts must be dataclasses, numbers, text, or sequences or mappings of them"
    )


def rebuilt(value: Any, allow: Iterable[type] = ()) -> Any:
    """Rebuild what :func:`plain` returned; fields that it lacks have their defaults.

    Parameters
    ----------
    value
        The plain types.
    allow
        Dataclasses from outside this package that it may hold; code is never loaded because a file names it.

    Raises
    ------
    ValueError
        If it names another class.
    """
    return _rebuilt(value, {_name(extra): extra for extra in allow})


def classes(value: Any) -> Iterator[type]:
    """Yield the dataclasses that a value holds."""
    if is_dataclass(value) and not isinstance(value, type):
        yield type(value)
        for part in fields(value):
            yield from classes(getattr(value, part.name))
    elif isinstance(value, list | tuple | Mapping):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from classes(item)


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _rebuilt(value: Any, allowed: dict[str, type]) -> Any:
    if isinstance(value, list):
        return tuple(_rebuilt(item, allowed) for item in value)
    if not isinstance(value, dict):
        return value
    if "class" not in value:
        return {key: _rebuilt(item, allowed) for key, item in value.items()}
    name = value.get("class", "")
    parts = {key: _rebuilt(item, allowed) for key, item in value.items() if key != "class"}
    if name in allowed:
        return allowed[name](**parts)
    module, _, member = name.rpartition(".")
    found = None
    if module.startswith("climlab_dl."):
        with contextlib.suppress(ModuleNotFoundError):
            found = getattr(importlib.import_module(module), member, None)
    if not (isinstance(found, type) and is_dataclass(found)):
        raise ValueError(f"the JSON names {name!r}, which is none of this package's descriptions; pass it in allow=")
    return found(**parts)
