"""A training of which one rank is sent SIGTERM before its first step."""

import os
import signal
import sys
import time
from dataclasses import dataclass
from typing import Any

from climlab_dl.parallel import ranks
from climlab_dl.training import runs
from climlab_dl.training.batches import Prepared
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.loop import train
from climlab_dl.training.run import Run


@dataclass(frozen=True, kw_only=True)
class Interrupted(ClimateArchive):
    """An archive in whose preparation rank 1 is asked to end."""

    def prepare(self, seed: int, known: dict[str, Any] | None = None) -> Prepared:
        """Send the signal, and give it time to come."""
        if ranks.rank() == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
        return super().prepare(seed, known)


if __name__ == "__main__":
    small = runs.small_deeplab(sys.argv[1])
    run = Run(data=Interrupted(source=sys.argv[1]), model=small.model, loss=small.loss, steps=2)
    next(train(run, sys.argv[2]))
