"""Checkpoints: plain tensors and plain types in one file, written beside and renamed, read without pickle."""

import errno
import os
import zipfile
from pathlib import Path
from typing import Any

import torch

from climlab_dl.files import beside
from climlab_dl.training import portable

FORMAT = 1


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint, so that a killed process or a full disk leaves the files that were there.

    Raises
    ------
    OSError
        If the disk is full, saying how much was needed.
    """
    try:
        with beside(path) as new, new.open("wb") as file:
            torch.save({"format": FORMAT, **state}, file)
            file.flush()
            os.fsync(file.fileno())
    except (OSError, RuntimeError) as error:
        # torch follows the failure to write by one of its own, about the file's end.
        cause = error.__context__ if isinstance(error, RuntimeError) else error
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            need = sum(tensor.nbytes for tensor in _tensors(state)) / 2**20
            raise OSError(
                errno.ENOSPC,
                f"cannot write the checkpoint, about {need:.0f} MiB, to {path.parent}: the disk or quota is full. "
                "Earlier checkpoints are intact; make room and train again to resume from the latest",
            ) from error
        raise


def load(path: Path | str) -> dict[str, Any]:
    """Read a checkpoint to the CPU; one that was exported to ``*.safetensors`` has the network only.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is damaged or no checkpoint of this package.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist; give a run's folder, or one of the *.pt files in its checkpoints/"
        )
    if path.suffix == portable.SUFFIX:
        return portable.read(path)
    if path.suffix != ".pt":
        raise ValueError(f"{path} is no checkpoint; give a run's folder, or one of the *.pt files in its checkpoints/")
    try:
        _verify(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises a different type for each kind of damage
        raise ValueError(f"{path} is damaged or not a checkpoint ({type(error).__name__}). {_remedy(path)}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(f"{path} is not a checkpoint of format {FORMAT} of this package")
    return state


def _verify(path: Path) -> None:
    """Compare every part of the file with its checksum, which torch does not."""
    with zipfile.ZipFile(path) as parts:
        if damaged := parts.testzip():
            raise zipfile.BadZipFile(f"{damaged} does not fit its checksum")


def _remedy(path: Path) -> str:
    if not path.name.startswith("step-"):
        return "Delete it to use the latest of the folder, or give another"
    before = sorted(other.name for other in path.parent.glob("step-*.pt") if other.name < path.name)
    return f"Delete it to resume from the one before ({before[-1] if before else 'there is none: it starts afresh'})"


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for part in parts for tensor in _tensors(part)]
