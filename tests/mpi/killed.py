"""Train on two ranks, one of which is killed: ``killed.py ARCHIVE FOLDER RANK STEP`` (RANK -1 for none)."""

import os
import signal
import sys

from runs import tiny

from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.parallel import ranks
from climlab_dl.training.loop import train

archive, folder, rank, step = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
model = Tiramisu(blocks=(1, 1), growth=4, kernel=3, stem=4, dropout=0.3, norm="batch")
for report in train(tiny(archive, steps=10, model=model, checkpoint_every=2), folder):
    if report.step == step and ranks.rank() == rank:
        os.kill(os.getpid(), signal.SIGKILL)
