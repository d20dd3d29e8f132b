"""A real Slurm on this machine: started by the test, used as a login node would, and ended."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from climlab_dl import archive, runs, synthetic
from climlab_dl.parallel import cluster
from climlab_dl.parallel.cluster import slurm
from climlab_dl.parallel.cluster.processes import marks

_CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
KillWait=5
FirstJobId={first}
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def until(condition: Callable[[], object], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def queue(*options: str) -> str:
    return subprocess.run(["squeue", "--noheader", *options], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def login_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make this machine a Slurm cluster of one node, with its own keys and files, and unmake it."""
    missing = [name for name in ("munged", "slurmctld", "slurmd", "srun") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)} (apt-get install slurmctld slurmd slurm-client munge)")
    if os.getuid() != 0:
        pytest.skip("slurmd must be started by root")
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    conf = folder / "slurm.conf"
    # Job numbers that no Slurm of another test had: what one of its jobs left behind has that job's number.
    first = 1 + secrets.randbelow(60_000_000)
    conf.write_text(_CONF.format(host=socket.gethostname().partition(".")[0], folder=folder, ports=ports, first=first))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "log", "pid", "seed")]
    daemons = [
        ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *files],
        ["slurmctld", "-D", "-f", str(conf)],
        ["slurmd", "-D", "-f", str(conf)],
    ]
    started: list[subprocess.Popen] = []
    with pytest.MonkeyPatch.context() as patch, (folder / "daemons.log").open("wb") as log:
        patch.setenv("SLURM_CONF", str(conf))
        patch.setenv("HOME", str(folder))
        try:
            for command in daemons:
                started.append(subprocess.Popen(command, stdout=log, stderr=log))
                time.sleep(1.0)
            until(lambda: "idle" in subprocess.run(["sinfo"], capture_output=True, text=True, check=False).stdout, 30)
            yield
        finally:
            subprocess.run(["scancel", "--me"], check=False)
            for daemon in reversed(started):
                daemon.terminate()
                daemon.wait()


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.slurm
def test_engines_come_from_an_allocation_and_give_it_back(login_node: None) -> None:
    with cluster.start(slurm=cluster.Slurm(ranks_per_node=2)) as engines:
        name = Path(engines.id).name
        assert queue(f"--name={name}", "--format=%D %C %T") == "1 2 RUNNING"
        assert engines.map(abs, [-1, -2, -3]) == [1, 2, 3]
        assert [report.size for report in engines.reports] == [2, 2]
    assert not marks().get(engines.id)
    until(lambda: not queue(f"--name={name}"), 30)


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.slurm
def test_a_job_trains_stops_with_a_checkpoint_when_warned_and_is_queued_again(login_node: None, tmp_path: Path) -> None:
    source = archive.save(synthetic.atmosphere(times=12, shape=(24, 48), seed=0), tmp_path / "atmosphere.nc")
    run = replace(runs.small_tiramisu(source), steps=100_000, report_every=1, checkpoint_every=100_000)
    training = cluster.submit(run, tmp_path / "run", cluster.Slurm(ranks_per_node=2))
    job = training.status()["message"].split()[2]
    until(lambda: training.status()["step"] >= 3)
    # What Slurm sends two minutes before the time is up.
    subprocess.run(["scancel", "--signal=USR1", job], check=True)
    until(lambda: training.status()["state"] == "stopped")
    latest = training.folder.latest()
    assert latest is not None
    assert "stopped by SIGUSR1" in training.status()["message"]
    until(lambda: queue(f"--jobs={job}", "--format=%T") == "PENDING")
    assert training.folder.environment()["ranks"] == 2


def test_the_script_asks_for_what_was_said_and_is_shell(tmp_path: Path) -> None:
    asked = cluster.Slurm(
        nodes=8, ranks_per_node=4, time="02:00:00", account="m1234", gpus_per_node=4, options=("--constraint=gpu",)
    )
    assert asked.ranks == 32
    text = slurm.script(tmp_path / "a folder", asked)
    for line in ("--nodes=8", "--ntasks-per-node=4", "--time=02:00:00", "--account=m1234", "--constraint=gpu"):
        assert f"#SBATCH {line}\n" in text
    assert "--partition" not in text
    assert f"'{tmp_path}/a folder'" in text
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="nodes=0 must be at least 1"):
        cluster.Slurm(nodes=0)
    with pytest.raises(ValueError, match="options has '--qos debug'"):
        cluster.Slurm(options=("--qos debug",))


def test_a_machine_without_slurm_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="no srun on PATH"):
        cluster.start(slurm=cluster.Slurm())
