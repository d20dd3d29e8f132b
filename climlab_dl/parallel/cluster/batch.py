"""Train, on this rank, the run that a folder describes: what a batch job starts on every rank.

srun python -m climlab_dl.parallel.cluster.batch FOLDER
"""

import sys

from climlab_dl.parallel.cluster.slurm import UNFINISHED
from climlab_dl.training.folder import RunFolder


def main() -> int:
    """Train to the end; the exit code says whether a signal ended it early."""
    from climlab_dl.training.loop import train
    from climlab_dl.training.run import Run

    folder = RunFolder(sys.argv[1])
    try:
        for _ in train(Run.from_json(folder.described()), folder.path):
            pass
    except KeyboardInterrupt as signalled:
        print(signalled, file=sys.stderr)
        return UNFINISHED
    return 0


if __name__ == "__main__":
    sys.exit(main())
