"""Checkpoints as safetensors: weights and what belongs to them, for programs that know nothing of torch's files.

Tensors of the network are named ``model.*``, those of its statistics ``statistics.*``; the metadata hold the run's
description, the statistics' plain facts (names of channels, classes or targets) and the step, as JSON.
"""

import json
from pathlib import Path
from typing import Any

import torch

from climlab_dl.files import beside

SUFFIX = ".safetensors"
_MODEL, _STATISTICS = "model.", "statistics."


def write(state: dict[str, Any], path: Path) -> None:
    """Write the network of a checkpoint, without what only a resumption needs (optimiser, schedule, random numbers).

    Parameters
    ----------
    state
        As `climlab_dl.training.checkpoint.load` gives it.
    path
        The file.
    """
    from safetensors.torch import save

    facts = state["statistics"]
    tensors = {_MODEL + name: tensor for name, tensor in state["model"].items()}
    tensors |= {_STATISTICS + name: fact for name, fact in facts.items() if isinstance(fact, torch.Tensor)}
    plain = {name: fact for name, fact in facts.items() if not isinstance(fact, torch.Tensor)}
    metadata = {"run": state["run"], "statistics": json.dumps(plain), "step": json.dumps(state.get("step", 0))}
    # Each tensor by itself: the format has no word for two names of one piece of memory.
    apart = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    with beside(path) as new:
        new.write_bytes(save(apart, metadata))  # the library's own files are for their owner's eyes only


def read(path: Path) -> dict[str, Any]:
    """Read what `write` wrote: ``model``, ``statistics``, ``run`` and ``step`` of a checkpoint.

    Raises
    ------
    ValueError
        If the file is damaged, or not of this package.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or not of the format safetensors ({error}); export it again") from error
    if lacking := {"run", "statistics", "step"} - metadata.keys():
        raise ValueError(
            f"{path} does not say its {', '.join(sorted(lacking))}: these are weights of another program. "
            "climlab_dl.inference.export writes files that can be read back."
        )
    model = {name.removeprefix(_MODEL): tensor for name, tensor in tensors.items() if name.startswith(_MODEL)}
    facts = {name.removeprefix(_STATISTICS): part for name, part in tensors.items() if name.startswith(_STATISTICS)}
    return {
        "run": metadata["run"],
        "step": json.loads(metadata["step"]),
        "model": model,
        "statistics": json.loads(metadata["statistics"]) | facts,
    }
