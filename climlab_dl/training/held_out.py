"""What whoever watches a training gets to see after each evaluation, beside its scores."""

from typing import TYPE_CHECKING

from climlab_dl.parallel import ranks
from climlab_dl.training.metrics import Parameters, Segmentation

if TYPE_CHECKING:
    from climlab_dl.training.session import Session


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
