"""Each rank makes its share of an archive's outputs: checkpoint, output folder, then the inputs."""

import sys

from climlab_dl.inference import outputs
from climlab_dl.parallel import ranks

if __name__ == "__main__":
    checkpoint, folder, *files = sys.argv[1:]
    with ranks.joined() as world:
        for made in outputs.share(files, outputs.into(folder, checkpoint), world.rank, world.size):
            print(world.rank, made.path.name, flush=True)
