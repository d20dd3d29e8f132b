"""Trained networks for programs that know nothing of this package: ONNX, torch.export and safetensors.

    export.write("runs/deeplab", "deeplab.onnx")             # fields in their units in, probabilities out
    export.write("runs/cosmoflow", "cosmoflow.pt2")          # counts in, parameters in physical units out
    export.write("runs/deeplab", "deeplab.safetensors")      # the weights, which Detector.load takes as well

ONNX and torch.export hold the whole calculation, with the normalisation of the training, for any number of snapshots
or volumes of one size. They know no missing values: fill gaps with a channel's mean, which is in the metadata.
"""

import copy
import json
import logging
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from climlab_dl.climate.fields import FIELDS
from climlab_dl.files import beside
from climlab_dl.inference.detector import Detector
from climlab_dl.inference.network import Network, to_stride
from climlab_dl.inference.summaries import Summaries
from climlab_dl.training import checkpoint, portable
from climlab_dl.training.folder import checkpoint_of

SUFFIXES = (".onnx", ".pt2", portable.SUFFIX)
_NEEDED = {".onnx": ("onnx", "onnxscript"), portable.SUFFIX: ("safetensors",)}


class MasksOf(nn.Module):
    """A network for masks from fields in their units to probabilities."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: Network):
        super().__init__()
        self.model, self.stride = _own(network.model), network.stride
        self.register_buffer("mean", torch.from_numpy(network.mean)[:, None, None])
        self.register_buffer("std", torch.from_numpy(network.std)[:, None, None])

    def forward(self, fields: Tensor) -> Tensor:
        """Probabilities (batch, class, lat, lon) of fields (batch, channel, lat, lon), latitude ascending."""
        rows, columns = fields.shape[2:]
        normal = to_stride((fields - self.mean) / self.std, self.stride)
        return self.model(normal)[:, :, :rows, :columns].softmax(1)


class ParametersOf(nn.Module):
    """A network for parameters from counts to physical units, of volumes as they lie: symmetries are not averaged."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: Summaries):
        super().__init__()
        self.model = _own(*network.models)
        self.log1p, self.targets = network.log1p, len(network.names)
        self.register_buffer("mean", torch.from_numpy(network.mean)[:, None, None, None])
        self.register_buffer("std", torch.from_numpy(network.std)[:, None, None, None])
        for name in ("target_mean", "target_std"):
            self.register_buffer(name, torch.from_numpy(getattr(network, name)).float())

    def forward(self, counts: Tensor) -> Tensor:
        """Parameters (batch, target) of counts (batch, redshift, x, y, z)."""
        normal = ((counts.log1p() if self.log1p else counts) - self.mean) / self.std
        return self.model(normal)[:, : self.targets] * self.target_std + self.target_mean


def write(run: str | Path, path: str | Path, *, size: Sequence[int] | None = None, allow: Sequence[type] = ()) -> Path:
    """Write a trained network for other programs; the ending chooses the format.

    Parameters
    ----------
    run
        A run's folder, of which the best checkpoint is taken, or a checkpoint.
    path
        ``*.onnx``: opset 18 and later, input ``fields`` or ``counts``, output ``probabilities`` or ``parameters``,
        with names and units in the metadata. ``*.pt2``: the same calculation as `torch.export.load` reads it.
        ``*.safetensors``: weights, statistics and the run's description, as `Detector.load` and `posterior.fit` take
        them.
    size
        Rows and columns, or voxels (x, y, z), of what the network will look at; by default those of its training where
        the checkpoint or the network's description tells them.
    allow
        Your own dataclasses that the run may hold.

    Returns
    -------
    Path
        What was written.

    Raises
    ------
    ModuleNotFoundError
        If the packages that the format needs are not installed.
    ValueError
        If the ending is none of these, or the size is not known.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(f"{path} ends in {path.suffix!r}; a network is exported as {', '.join(SUFFIXES)}")
    if lacking := [name for name in _NEEDED.get(path.suffix, ()) if find_spec(name) is None]:
        raise ModuleNotFoundError(f"{path.suffix} needs {' and '.join(lacking)}: pip install 'climlab-dl[export]'")
    source = checkpoint_of(run)
    state = checkpoint.load(source)
    if path.suffix == portable.SUFFIX:
        portable.write(state, path)
        return path
    module, facts, names = _whole(source, state, size, allow)
    # Two, because an example of one would fix the number at one.
    example = torch.zeros(2, *facts["shape"])
    batch = ({0: torch.export.Dim("batch")},)
    program = torch.export.export(module, (example,), dynamic_shapes=batch)
    with beside(path) as new:
        if path.suffix == ".pt2":
            torch.export.save(program, new, extra_files={"facts.json": json.dumps(facts)})
        else:
            _write_onnx(program, new, facts, names)
    return path


def _whole(
    source: Path, state: dict[str, Any], size: Sequence[int] | None, allow: Sequence[type]
) -> tuple[nn.Module, dict[str, Any], tuple[str, str]]:
    """Build the calculation from end to end, what is to be known of it, and the names of what goes in and out."""
    if "classes" in state["statistics"]:
        (network,) = Detector.load(source, allow=allow).networks
        size = size or (network.grid and tuple(map(len, network.grid)))
        facts: dict[str, Any] = {
            "channels": list(network.channels),
            "units": [FIELDS[name].unit for name in network.channels],
            "axes": ["channel", "lat", "lon"],
            "mean": network.mean.tolist(),
            "classes": list(network.classes),
        }
        module, names = MasksOf(network), ("fields", "probabilities")
    else:
        summaries = Summaries.load(source, allow=allow)
        known = summaries.training
        side = known.cells or getattr(summaries.run.model, "size", None)
        size = size or ((side,) * 3 if side else None)
        facts = {
            "redshifts": known.redshifts and list(known.redshifts),
            "box_size_mpc_h": known.box_size_mpc_h,
            "axes": ["redshift", "x", "y", "z"],
            "parameters": list(summaries.names),
        }
        module, names = ParametersOf(summaries), ("counts", "parameters")
    if not size:
        raise ValueError(f"{source} does not tell the size of what its network sees; give size=, such as (64, 64, 64)")
    facts |= {"shape": [len(module.mean), *size], "step": int(state.get("step", 0)), "source": str(source)}
    return module, facts, names


def _own(model: nn.Module) -> nn.Module:
    """Copy a network that others may go on using, with its numbers in the order that any program reads."""
    copied = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    return copied.to(memory_format=torch.contiguous_format)  # pyright: ignore[reportCallIssue]


def _write_onnx(
    program: torch.export.ExportedProgram, path: Path, facts: dict[str, Any], names: tuple[str, str]
) -> None:
    # Torch says that torchvision is absent, of which nothing here makes use, and warns of what torch itself does.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        made = torch.onnx.export(
            program, dynamo=True, input_names=names[:1], output_names=names[1:], external_data=False, verbose=False
        )
    assert made is not None
    made.model.metadata_props.update({name: json.dumps(fact) for name, fact in facts.items()})
    made.save(path, external_data=False)
