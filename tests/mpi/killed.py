"""Train on two ranks, one of which is killed: ``killed.py ARCHIVE FOLDER RANK STEP STEPS``.

RANK is -1 for none; the training has STEPS steps.
"""

import os
import signal
import sys

from runs import tiny

from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.parallel import ranks
from climlab_dl.training.loop import train

archive, folder = sys.argv[1:3]
rank, step, steps = (int(text) for text in sys.argv[3:])
model = Tiramisu(blocks=(1, 1), growth=4, kernel=3, stem=4, dropout=0.3, norm="batch")
for report in train(tiny(archive, steps=steps, model=model, checkpoint_every=2), folder):
    if report.step == step and ranks.rank() == rank:
        os.kill(os.getpid(), signal.SIGKILL)
