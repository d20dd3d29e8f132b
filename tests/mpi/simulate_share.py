"""Under mpiexec: simulate this rank's share of five tiny universes into the folder given."""

import sys
from dataclasses import replace

from mpi4py import MPI

from climlab_dl.cosmology import simulate

preset = replace(simulate.tour(), particles=12, voxels=12, box_size_mpc_h=48.0, steps=3)
for _ in simulate.share(simulate.design(5, preset=preset), sys.argv[1], MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size):
    pass
