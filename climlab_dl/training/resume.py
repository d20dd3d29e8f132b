"""What a checkpoint holds beside the network, so that a resumed training repeats the uninterrupted one bit by bit."""

import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from climlab_dl.parallel import ranks

if TYPE_CHECKING:
    from climlab_dl.training.session import Session

logger = logging.getLogger(__name__)
_COUNTERS = ("step", "epoch", "offset", "best", "stale_evaluations", "loss_sum", "loss_count")


def network(session: "Session") -> dict[str, Any]:
    """Return what whoever uses the network needs: the run, its weights and the statistics to normalise with."""
    with averaged_buffers(session.model):
        model = {name: tensor.detach().cpu().clone() for name, tensor in session.model.state_dict().items()}
    return {"run": session.run.to_json(), "step": session.step, "model": model, "statistics": session.data.facts}


def whole(session: "Session") -> dict[str, Any]:
    """Return what a training on as many ranks resumes from; every rank calls this, for each has its own part."""
    # One element more, because a network without running statistics would gather nothing.
    own = torch.cat([torch.zeros(1), *(buffer.flatten().float().cpu() for buffer in _buffers(session.model))])
    state = network(session) | {name: getattr(session, name) for name in _COUNTERS}
    state |= {
        "ranks": ranks.size(),
        "samples_per_step": session.samples_per_step,
        "optimizer": session.optimizer.state_dict(),
        "scaler": session.scaler.state(),
        "lag": session.exchange.state(),
        "rng": ranks.gather(torch.get_rng_state(), "random states"),
        "buffers": ranks.gather(own, "running statistics of each rank"),
    }
    if session.device.type == "cuda":
        state["cuda_rng"] = ranks.gather(torch.cuda.get_rng_state(session.device), "random states of GPUs")
    return state


def restore(session: "Session", saved: dict[str, Any]) -> None:
    """Put a training back where :func:`whole` found it, or, on another number of ranks, close to it."""
    session.model.load_state_dict(saved["model"])
    session.optimizer.load_state_dict(saved["optimizer"])
    session.scaler.restore(saved["scaler"])
    session.exchange.restore(saved["lag"])
    for name in _COUNTERS:
        setattr(session, name, saved[name])
    session.message = f"resumed after step {session.step}"
    if saved["ranks"] == ranks.size():
        torch.set_rng_state(saved["rng"][ranks.rank()])
        if "cuda_rng" in saved and session.device.type == "cuda":
            torch.cuda.set_rng_state(saved["cuda_rng"][ranks.rank()], session.device)
        buffers = _buffers(session.model)
        own = saved["buffers"][ranks.rank()][1:].split([buffer.numel() for buffer in buffers])
        for buffer, part in zip(buffers, own, strict=True):
            buffer.copy_(part.reshape(buffer.shape))
    else:
        session.message += f" on {ranks.size()} ranks instead of {saved['ranks']}, with new random streams"
        torch.manual_seed(session.run.seed + 1_000_003 * (ranks.rank() + 1) + session.step)
    if saved["samples_per_step"] != session.samples_per_step:
        session.message += f", {session.samples_per_step} samples a step instead of {saved['samples_per_step']}"
        if session.offset + session.shared_per_step > len(session.data.training):
            session.epoch, session.offset = session.epoch + 1, 0
    (logger.info if saved["ranks"] == ranks.size() else logger.warning)("%s", session.message)


@contextlib.contextmanager
def averaged_buffers(model: nn.Module) -> Iterator[None]:
    """Average running statistics over ranks in the body: each rank has seen other samples."""
    buffers = _buffers(model)
    own = [buffer.clone() for buffer in buffers]
    for buffer in buffers if ranks.size() > 1 else ():
        buffer.copy_(ranks.mean(buffer, "running statistics"))
    try:
        yield
    finally:
        for buffer, before in zip(buffers, own, strict=True):
            buffer.copy_(before)


def _buffers(model: nn.Module) -> list[Tensor]:
    return [buffer for buffer in model.buffers() if buffer.is_floating_point()]
