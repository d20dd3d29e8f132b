"""What MPI tells of the ranks, on real ranks."""

from collections.abc import Callable
from pathlib import Path

import pytest

from climlab_dl.parallel import mpi
from climlab_dl.parallel.mpi import World


@pytest.mark.mpi
def test_ranks_that_are_killed_leave_no_shared_memory_behind(mpiexec: Callable[..., str], tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(
        "import os, signal\n"
        "from pathlib import Path\n"
        "from climlab_dl.parallel import mpi\n"
        "from mpi4py import MPI\n"
        "lines = Path('/proc/self/maps').read_text().splitlines()\n"
        "segments = {line.split()[5] for line in lines if '/dev/shm/mpich_shm_' in line}\n"
        f"Path({str(tmp_path)!r}, f'segments{{MPI.COMM_WORLD.rank}}').write_text(' '.join(segments))\n"
        "place = mpi.place()\n"
        "assert (place.size, place.local_size, place.nodes) == (2, 2, 1)\n"
        # They still reach each other through it.
        "assert MPI.COMM_WORLD.allgather('x' * 100_000) == ['x' * 100_000] * 2\n"
        "if place.rank == 1:\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "MPI.COMM_WORLD.barrier()\n"
    )
    with pytest.raises(AssertionError, match="Killed"):
        mpiexec(2, script)
    segments = [(tmp_path / f"segments{rank}").read_text() for rank in range(2)]
    assert segments[0] == segments[1]
    if not segments[0]:
        pytest.skip("this MPI names no memory that its ranks share")
    assert not Path(segments[0]).exists()


def test_ranks_of_one_node_meet_on_loopback() -> None:
    assert mpi.address(World(rank=1, size=2, local_rank=1, local_size=2)) == "127.0.0.1"
    assert mpi.interface("127.0.0.1") in ("lo", "lo0")
    assert mpi.interface("192.0.2.254") is None
