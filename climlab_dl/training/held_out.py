"""The network before what is held out: how it scores, what is seen of it, and whether the training is to go on."""

import math
from typing import TYPE_CHECKING

import torch

from climlab_dl.parallel import ranks
from climlab_dl.training import resume
from climlab_dl.training.batches import held_out_batches
from climlab_dl.training.metrics import Parameters, Segmentation

if TYPE_CHECKING:
    from climlab_dl.training.session import Session


def evaluate(session: "Session") -> dict[str, float]:
    """Score the network on what is held out, each sample once, whatever the number of ranks; keep the best."""
    metrics = session.data.metrics()
    session.model.eval()
    with ranks.together("evaluation"), torch.no_grad():
        for values, target, _ in held_out_batches(session.data, session.run.batch_size, session.device):
            with session.precision.autocast(session.device):
                prediction = session.model(values)
            metrics.update(prediction.float(), target)
    session.model.train()
    metrics.over_ranks()
    scores = metrics.scores()
    show(session, metrics)
    judge(session, scores, scores[metrics.best] * (1 if metrics.larger_is_better else -1))
    return scores


def judge(session: "Session", scores: dict[str, float], score: float) -> None:
    """Keep the network if no other was better, and end the training if its target is reached or its patience at an end.

    Parameters
    ----------
    session
        Of the training.
    scores
        What was measured.
    score
        The leading one, of which more is better. NaN, where nothing could be scored, is worse than any other.
    """
    if session.best is None or math.isnan(session.best) or score > session.best:
        session.best, session.stale_evaluations = score, 0
        session.write(session.folder.checkpoints / "best.pt", resume.network(session) | {"metrics": scores})
    else:
        session.stale_evaluations += 1
    target, patience = session.run.target, session.run.patience
    if target is not None and target.reached(scores):
        session.ending = "finished"
        session.message = f"reached {target.metric} {scores[target.metric]:.4g} after step {session.step}"
    elif patience is not None and session.stale_evaluations >= patience:
        session.ending = "finished"
        session.message = f"no better score in {patience} evaluations, ended after step {session.step}"


def show(session: "Session", metrics: Segmentation | Parameters) -> None:
    """Let rank 0 write what the network says of the first held-out snapshot, or of all held-out universes.

    Rank 0 always scores the first of what is held out, so this costs no further pass and no message. A mask without a
    grid is no map, and is left out.
    """
    data = session.data
    with ranks.together("writing what was held out"):
        if session.leader:
            seen = metrics.seen().assign_attrs(step=session.step, sample=data.held_out.describe(0))
            grid = {name: data.facts[name].numpy() for name in ("lat", "lon") if name in data.facts}
            if "mask" not in seen or len(grid) == 2:
                session.folder.write_held_out(seen.assign_coords(grid))
