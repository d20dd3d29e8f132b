"""One start of a controller and its ranks: up in one call, gone in one call."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from climlab_dl.parallel.cluster import preflight, processes, record
from climlab_dl.parallel.cluster.slurm import Slurm, check_here
from climlab_dl.parallel.cluster.work import call, perform
from climlab_dl.words import counted

_LOOPBACK = ("--ip=127.0.0.1", "--location=127.0.0.1")
# Other hosts must reach the controller; who has not the keys in the private folder cannot talk to it, nor listen.
_EVERYWHERE = ("--ip=*", f"--location={socket.gethostname()}", "--IPController.enable_curve=True")
_CONTROLLER = (
    # Engines are registered on a heartbeat: a short period is a quick start. Death is seen by mpiexec's end, not by
    # missed beats, so a machine that swaps for half a minute loses nothing.
    "--HeartMonitor.period=500",
    "--HeartMonitor.max_heartmonitor_misses=60",
    "--IPController.broadcast_scheduler_depth=0",
    # Else the hub keeps every result of every map until the end.
    "--nodb",
)
_ENGINE = ("--mpi", "--IPEngine.wait_for_url_file=60", "--IPEngine.timeout=60")


class Launch:
    """A controller and MPI ranks that are ipyparallel engines: here over loopback, on other hosts, or in a Slurm job.

    Parameters
    ----------
    ranks
        Number of MPI ranks.
    threads
        Threads that each rank's numerical libraries may use.
    timeout
        Seconds until a start that is not ready is given up.
    hosts
        Hosts that share the ranks evenly, reached by ssh; by default ranks are started on this machine.
    slurm
        What to ask of Slurm.

    Raises
    ------
    FileNotFoundError
        If there is no mpiexec, or no srun.
    RuntimeError
        If the ranks do not come up, with the end of their log; nothing of theirs is left then.
    """

    def __init__(
        self, ranks: int, threads: int, timeout: float, hosts: Sequence[str] = (), slurm: Slurm | None = None
    ) -> None:
        self.ranks = ranks
        if slurm:
            check_here("srun")
        mpiexec = None if slurm else processes.mpiexec()
        remote = bool(hosts or slurm)
        self.folder = record.new_folder(shared=remote)
        self.id = str(self.folder)
        self.log = self.folder / "log"
        self._profile = self.folder / "profile"
        self._keys = self.folder / "engine.json"
        spread = ["-hosts", ",".join(hosts), "-ppn", str(ranks // len(hosts))] if hosts else []
        launcher = slurm.srun(self.folder.name) if slurm else [str(mpiexec), *spread, "-n", str(ranks)]
        self._profile.mkdir()
        record.write(self.folder, ranks)
        self._client: Any = None
        self._death: str | None = None
        self._closing = threading.Lock()
        this = psutil.Process()
        environment = os.environ | {processes.MARK: self.id, "IPYTHONDIR": str(self.folder)}
        environment[processes.KERNEL] = f"{this.pid} {this.create_time()}"
        if not remote:
            environment.setdefault("UCX_NET_DEVICES", "lo")  # Else MPICH's ranks listen on the host's address too.
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        python = [sys.executable, "-m"]
        here = [f"--ipython-dir={self.folder}", f"--profile-dir={self._profile}"]
        guard = [*python, "climlab_dl.parallel.cluster.guard", str(self.folder)]
        self._guard = self._start(guard, dict(os.environ), stdin=subprocess.PIPE)
        try:
            listen = _EVERYWHERE if remote else _LOOPBACK
            self._controller = self._start(
                [*python, "ipyparallel.controller", *here, *listen, *_CONTROLLER], environment
            )
            engine = [*python, "ipyparallel.engine", *here, f"--file={self._keys}", *_ENGINE]
            self._launcher = self._start([*launcher, *engine], environment)
            self.client = self._connect(time.monotonic() + timeout)
            self.reports = self._preflight()
        except BaseException:
            self.close()
            raise

    def _start(
        self, command: list[str], environment: dict[str, str], stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command,
                env=environment,
                stdin=stdin,
                stdout=log,
                stderr=subprocess.STDOUT,
                # An interrupted cell interrupts the kernel's process group; the ranks are not part of it.
                start_new_session=True,
            )

    def _connect(self, deadline: float) -> Any:
        import ipyparallel

        connection, keys = (self._profile / "security" / f"ipcontroller-{who}.json" for who in ("client", "engine"))
        self._wait(lambda: _is_json(connection) and _is_json(keys), deadline, "the controller to write its keys")
        # Engines start while the controller does, and would read its file half written: they wait for this name.
        os.link(keys, self._keys)
        client = ipyparallel.Client(
            str(connection), timeout=60, ipython_dir=str(self.folder), profile_dir=str(self._profile)
        )
        self._client = client
        self._wait(lambda: len(client.ids) >= self.ranks, deadline, f"{counted(self.ranks, 'rank')} to register")
        return client

    def _wait(self, condition: Any, deadline: float, what: str) -> None:
        while not condition():
            died = self.died()
            if died or time.monotonic() > deadline:
                raise RuntimeError(
                    f"waited for {what}, and {died or 'time ran out'}. Their log ends:\n{self.log_tail()}"
                )
            time.sleep(0.02)

    def _preflight(self) -> list[preflight.Report]:
        import cloudpickle

        request = self.client[:].apply_async(perform, call(preflight.report, sys.path))
        self._wait(request.ready, time.monotonic() + 60, "the ranks' first all-reduce")
        reports = [cloudpickle.loads(outcome).value() for outcome in request.get()]
        preflight.check_reports(reports, self.ranks)
        # Engine ids are ranks: ipyparallel asks for that, and a message to "rank 1" relies on it.
        numbers = [each.rank for each in reports]
        if numbers != list(range(self.ranks)):
            raise RuntimeError(f"engines 0 to {self.ranks - 1} are MPI ranks {numbers}; start again")
        return reports

    @property
    def controller_pid(self) -> int:
        """Process number of the controller."""
        return self._controller.pid

    def died(self, patience: float = 0.0) -> str | None:
        """Say what of this start has ended, or None if all of it (still, after ``patience`` seconds) runs."""
        if patience:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._launcher.wait(patience)
        if self._death is None:
            if (code := self._launcher.poll()) is not None:
                self._death = self._epitaph(code)
            elif (code := self._controller.poll()) is not None:
                self._death = f"the controller ended with code {code}"
        return self._death

    def _epitaph(self, code: int) -> str:
        """Name the rank that died first, from what was said as the others ended; the launcher ended with ``code``."""
        log = self.log_tail(200)
        # mpiexec names the rank that it ended last; the engines' nannies say in order whose process is gone.
        gone = re.search(r"KernelNanny\.(\d+)\] (?:Pipe closed|Parent \d+ exited)", log)
        who = f"rank {gone[1]} died" if gone else "a rank died"
        if "Killed (signal 9)" in log or re.search(r"tasks? [\d,-]+: Killed", log):
            return f"{who}: killed (signal 9; out of memory is the usual cause)"
        return f"{who}: its launcher ended with code {code}"

    def give_up(self, reason: str) -> str:
        """Count this start as dead from now on, though its launcher has not ended yet; returns why."""
        self._death = self._death or reason
        return self._death

    def log_tail(self, lines: int = 30) -> str:
        """Last lines that controller and ranks have written."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def engage(self, training: Path, *, detach: bool) -> None:
        """Note what trains here, and whether it may go on when this kernel is gone."""
        record.write(self.folder, self.ranks, training=training, detached=detach)

    def leave(self) -> None:
        """Leave the ranks to the guard, which ends them when the training that may outlive this kernel has ended."""
        self._client.close()
        self._hang_up()

    def close(self) -> None:
        """End controller and ranks, and return when no process and no file of them is left; again is harmless."""
        with self._closing:
            if self._client is not None:
                self._client.close()
            self._death = self._death or "the ranks were ended"
            record.end_cluster(self.folder)
            for started in ("_launcher", "_controller"):
                if process := getattr(self, started, None):
                    process.wait()
            self._hang_up()
            self._guard.wait()

    def _hang_up(self) -> None:
        assert self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._guard.stdin.close()


def _is_json(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):  # not there yet, or half written
        return False
