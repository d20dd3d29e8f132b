"""Slurm: ranks for a notebook from an allocation, and batch jobs that train what a folder describes.

Either way ranks are started by ``srun`` and meet over MPI; nothing is asked of the compute nodes but this environment
and a file system that they share with this machine.
"""

import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from climlab_dl.parallel.cluster.training import Training
from climlab_dl.training.folder import RunFolder

# Exit code of a training that a signal (time limit, preemption) has stopped with a checkpoint: try again (sysexits.h).
UNFINISHED = 75
_WARNING_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Slurm:
    """What to ask of Slurm.

    Parameters
    ----------
    nodes, ranks_per_node
        How many nodes, and MPI ranks on each.
    time
        Wall-clock limit, as Slurm writes it: "hours:minutes:seconds".
    account, partition
        Whom to charge and where to run; by default what the site has set.
    cores_per_rank
        Cores, and threads of the numerical libraries, of each rank.
    gpus_per_node
        GPUs, one to a rank; 0 asks for none.
    mpi
        How srun tells ranks of each other: "pmi2" for MPICH, "pmix" for Open MPI (``srun --mpi=list`` shows what the
        site has).
    options
        More options of sbatch and srun, such as ``("--constraint=gpu", "--qos=debug")``.
    """

    nodes: int = 1
    ranks_per_node: int = 1
    time: str = "01:00:00"
    account: str | None = None
    partition: str | None = None
    cores_per_rank: int = 1
    gpus_per_node: int = 0
    mpi: str = "pmi2"
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("nodes", "ranks_per_node", "cores_per_rank"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if self.gpus_per_node < 0:
            raise ValueError(f"gpus_per_node={self.gpus_per_node} must be 0 or more")
        for option in self.options:
            if not option.startswith("-") or any(character.isspace() for character in option):
                raise ValueError(f"options has {option!r}: write each option as one word, such as '--qos=debug'")

    @property
    def ranks(self) -> int:
        """MPI ranks on all nodes together."""
        return self.nodes * self.ranks_per_node

    def arguments(self, name: str) -> list[str]:
        """Options of sbatch and srun, for a job of that name."""
        asked = {
            "job-name": name,
            "nodes": self.nodes,
            "ntasks-per-node": self.ranks_per_node,
            "cpus-per-task": self.cores_per_rank,
            "time": self.time,
            "account": self.account,
            "partition": self.partition,
            "gpus-per-node": self.gpus_per_node or None,
        }
        return [f"--{option}={value}" for option, value in asked.items() if value is not None] + [*self.options]

    def srun(self, name: str) -> list[str]:
        """Command that starts ranks in an allocation of their own and ends with them."""
        return ["srun", *self.arguments(name), f"--mpi={self.mpi}", "--kill-on-bad-exit=1", "--unbuffered"]


def script(folder: str | Path, slurm: Slurm) -> str:
    """Write the batch script that trains the run described in a folder.

    Two minutes before its time is up, or when it is preempted, the training stops at its next step with a checkpoint,
    and the job goes back into the queue to continue from there.
    """
    folder = RunFolder(folder).path
    train = [sys.executable, "-m", "climlab_dl.parallel.cluster.batch", str(folder)]
    options = [
        *slurm.arguments(folder.name),
        f"--output={folder}/slurm-%j.log",
        "--open-mode=append",
        "--requeue",
        f"--signal=USR1@{_WARNING_SECONDS}",
    ]
    return "\n".join(
        [
            "#!/bin/bash",
            *(f"#SBATCH {option}" for option in options),
            f"export OMP_NUM_THREADS={slurm.cores_per_rank}",
            f"srun --mpi={slurm.mpi} --kill-on-bad-exit=1 {shlex.join(train)}",
            "code=$?",
            f'if [ "$code" -eq {UNFINISHED} ]; then scontrol requeue "$SLURM_JOB_ID"; fi',
            'exit "$code"',
            "",
        ]
    )


def submit(run: Any, folder: str | Path, slurm: Slurm) -> Training:
    """Queue a batch job that trains a run; its folder is watched as any other.

    Parameters
    ----------
    run
        Complete description, all of whose parts are this package's: a job cannot import what a notebook defines.
    folder
        Folder that the training fills, on a file system that the compute nodes share; the script is ``job.sbatch``.
    slurm
        What to ask of Slurm.

    Returns
    -------
    Training
        Handle that shows itself, waits and stops; :func:`climlab_dl.parallel.cluster.attach` finds it again.

    Raises
    ------
    FileNotFoundError
        If this machine has no sbatch.
    ValueError
        If the run has parts that are not this package's, or the folder holds another run or more steps.
    RuntimeError
        If Slurm refuses the job, with its words; or another training is at work in the folder.
    """
    from climlab_dl.training.lock import refuse_if_taken
    from climlab_dl.training.run import Run, has_steps_left

    check_here("sbatch")
    Run.from_json(run.to_json())
    target = RunFolder(folder)
    refuse_if_taken(target.path)
    if not has_steps_left(run, target):
        return Training(target.path)
    target.begin(run.to_json())
    path = target.path / "job.sbatch"
    path.write_text(script(target.path, slurm), encoding="utf-8")
    answer = subprocess.run(["sbatch", "--parsable", str(path)], capture_output=True, text=True, check=False)  # noqa: S607
    if answer.returncode:
        raise RuntimeError(f"sbatch refused {path}: {answer.stderr.strip()}")
    status = target.status()
    job = answer.stdout.strip().partition(";")[0]
    target.write_status("starting", step=status["step"], steps=status["steps"], message=f"Slurm job {job} is queued")
    return Training(target.path)


def check_here(program: str) -> None:
    """Check that this machine can start Slurm jobs.

    Raises
    ------
    FileNotFoundError
        If it has no such program.
    """
    if shutil.which(program) is None:
        raise FileNotFoundError(
            f"no {program} on PATH: this is no login node of a Slurm cluster; cluster.start(ranks=2) uses this machine"
        )
