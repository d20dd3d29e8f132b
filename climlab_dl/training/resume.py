"""What a checkpoint holds beside the network, so that a resumed training repeats the uninterrupted one bit by bit.

Nothing of it grows with the number of ranks: each step begins its random numbers anew, and the running statistics are
the same on all ranks.
"""

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from climlab_dl.parallel import ranks
from climlab_dl.words import counted

if TYPE_CHECKING:
    from climlab_dl.training.session import Session

logger = logging.getLogger(__name__)
_COUNTERS = ("step", "epoch", "offset", "best", "stale_evaluations", "loss_sum", "loss_count")

_NEEDED = ("model", "optimizer", "scaler", "lag", "ranks", "samples_per_step", *_COUNTERS)


class RunningStatistics:
    """Floating-point buffers of a network, such as batch normalisation's, kept the same on all ranks.

    Parameters
    ----------
    model
        The network; its buffers are the same on all ranks by now.
    """

    def __init__(self, model: nn.Module) -> None:
        self._buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        self._before = self._joined()

    def average(self) -> None:
        """Average over ranks what a step has changed: each rank has seen other samples."""
        if ranks.size() == 1 or not self._buffers:
            return
        # Of the change and not of the values, so that what does not change keeps every bit.
        self._before += ranks.mean(self._joined() - self._before, "running statistics")
        parts = self._before.split([buffer.numel() for buffer in self._buffers])
        for buffer, part in zip(self._buffers, parts, strict=True):
            buffer.copy_(part.reshape(buffer.shape))

    def _joined(self) -> Tensor:
        return torch.cat([buffer.flatten().float() for buffer in self._buffers]) if self._buffers else torch.empty(0)


def begin_randomness(seed: int, step: int) -> None:
    """Begin the random numbers of a step, of which each rank has others."""
    torch.manual_seed(int(np.random.SeedSequence([seed, ranks.rank(), step]).generate_state(1, np.uint64)[0]))


def check_finite(state: dict[str, Any]) -> None:
    """Refuse to keep weights that are no numbers: a training could not go on from them.

    Raises
    ------
    FloatingPointError
        Naming the step and what of the network is not finite.
    """
    broken = [name for name, tensor in state["model"].items() if not tensor.isfinite().all()]
    if broken:
        raise FloatingPointError(
            f"after step {state['step']} {counted(len(broken), 'tensor')} of the network, {broken[0]} first, are not "
            "finite; the checkpoints before are kept. Lower the learning rate, or set clip_norm"
        )


def network(session: "Session") -> dict[str, Any]:
    """Return what whoever uses the network needs: the run, its weights and the statistics to normalise with."""
    model = {name: tensor.detach().cpu().clone() for name, tensor in session.model.state_dict().items()}
    return {"run": session.described, "step": session.step, "model": model, "statistics": session.data.facts}


def whole(session: "Session") -> dict[str, Any]:
    """Return what a training resumes from."""
    return network(session) | {name: getattr(session, name) for name in _COUNTERS} | {
        "ranks": ranks.size(),
        "samples_per_step": session.samples_per_step,
        "optimizer": session.optimizer.state_dict(),
        "scaler": session.scaler.state(),
        "lag": session.exchange.state(),
        "stepped": session.stepped,
        "seen": session.seen,
    }  # fmt: skip


def restore(session: "Session", saved: dict[str, Any]) -> None:
    """Put a training back where :func:`whole` found it, or, on another number of ranks, close to it.

    Raises
    ------
    ValueError
        If the checkpoint holds less than a training, or another network's weights.
    """
    path = session.folder.checkpoint(saved.get("step", 0))
    if lacking := [part for part in _NEEDED if part not in saved]:
        raise ValueError(
            f"{path} has no {', '.join(lacking)}: it holds a network, as best.pt does, and not what a training resumes "
            "from. Delete it, or move it elsewhere"
        )
    try:
        session.model.load_state_dict(saved["model"])
        session.optimizer.load_state_dict(saved["optimizer"])
    except (RuntimeError, ValueError, KeyError, TypeError) as error:
        first = "".join(str(error).splitlines()[:2]).replace("\t", " ")
        raise ValueError(
            f"{path} is of another network or optimiser than the run describes, or their code has changed since "
            f"({first}). Train in another folder, or delete this one to start afresh"
        ) from error
    session.scaler.restore(saved["scaler"])
    session.exchange.restore(saved["lag"])
    for name in _COUNTERS:
        setattr(session, name, saved[name])
    session.stepped, session.seen = saved.get("stepped", {}), saved.get("seen", True)
    session.message = f"resumed after step {session.step}"
    if saved["ranks"] != ranks.size():
        session.message += f" on {counted(ranks.size(), 'rank')} instead of {saved['ranks']}"
    if saved["samples_per_step"] != session.samples_per_step:
        samples = counted(session.samples_per_step, "sample")
        session.message += f", {samples} a step instead of {saved['samples_per_step']}"
        if session.offset + session.shared_per_step > len(session.data.training):
            session.epoch, session.offset = session.epoch + 1, 0
    (logger.info if saved["ranks"] == ranks.size() else logger.warning)("%s", session.message)
