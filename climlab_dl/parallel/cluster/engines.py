"""Engines: ipyparallel engines that are MPI ranks, and the work that a notebook gives them."""

import concurrent.futures
import html
import logging
import threading
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import cloudpickle

from climlab_dl.bars import bar
from climlab_dl.parallel.cluster import preflight
from climlab_dl.parallel.cluster.launch import Launch
from climlab_dl.parallel.cluster.slurm import Slurm
from climlab_dl.parallel.cluster.training import Training
from climlab_dl.parallel.cluster.work import Outcome, call, perform, train_on_rank

_log = logging.getLogger(__name__)

# When a rank has failed, the others get this long to notice; what waits for it in a collective is then restarted.
_GRACE = 5.0

_LOCAL_TIMEOUT, _QUEUE_TIMEOUT = 120.0, 86_400.0
# Seconds in which a training must reach its next step and write its checkpoint when the engines are closed.
_PATIENCE = 60.0


class Engines:
    """MPI ranks that wait for work. Close them, or use them as a context manager: then nothing is left running.

    Parameters
    ----------
    ranks
        Number of MPI ranks; engine ``i`` is rank ``i``.
    threads
        Threads of each rank's numerical libraries; by default the cores divided by the ranks.
    timeout
        Seconds until a start that is not ready is given up; by default two minutes, or a day in Slurm's queue.
    slurm
        What to ask of Slurm; its ranks then count.

    Raises
    ------
    FileNotFoundError
        If there is no mpiexec.
    MemoryError
        If there is not enough free memory.
    RuntimeError
        If the ranks do not come up or are not one MPI world; the message has their log, and none of them is left.
    """

    def __init__(
        self, ranks: int, *, threads: int | None = None, timeout: float | None = None, slurm: Slurm | None = None
    ) -> None:
        if slurm is None:
            preflight.check_room(ranks)
            cores = preflight.cores()
            if ranks > cores:
                _log.warning("%d ranks share %d cores; training is fastest with one rank a core or fewer", ranks, cores)
            threads = threads or max(1, cores // ranks)
        else:
            ranks, threads = slurm.ranks, threads or slurm.cores_per_rank
        self.ranks, self.threads = ranks, threads
        self._slurm = slurm
        self._timeout = timeout or (_LOCAL_TIMEOUT if slurm is None else _QUEUE_TIMEOUT)
        self._training: Training | None = None
        self._closed = False
        # A training's thread starts dead ranks again; that and closing exclude each other.
        self._life = threading.Lock()
        self._launch = Launch(self.ranks, self.threads, self._timeout, slurm)

    def __enter__(self) -> "Engines":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def id(self) -> str:
        """Folder of this start, and the mark of its processes; :meth:`restart` changes it."""
        return self._launch.id

    @property
    def reports(self) -> list[preflight.Report]:
        """What each rank said of itself when it started: host, process number, versions."""
        return self._launch.reports

    @property
    def controller_pid(self) -> int:
        """Process number of ipyparallel's controller."""
        return self._launch.controller_pid

    # Work.

    def train(self, run: Any, folder: str | Path, *, max_restarts: int = 2, detach: bool | None = None) -> Training:
        """Train a run on all ranks; returns at once.

        Parameters
        ----------
        run
            Complete description (:class:`climlab_dl.training.run.Run`).
        folder
            Folder that the training fills. If it holds a training of the same run, that is continued from its latest
            checkpoint.
        max_restarts
            How often ranks that die are started again to continue from the latest checkpoint.
        detach
            Let the training go on when this kernel ends; :func:`climlab_dl.parallel.cluster.attach` finds it again. By
            default only under Slurm.

        Returns
        -------
        Training
            Handle that shows itself, waits, stops and resumes.

        Raises
        ------
        RuntimeError
            If the engines are closed or busy.
        """
        self._idle_launch()
        detach = self._slurm is not None if detach is None else detach
        return Training(folder, self, run, max_restarts=max_restarts, detach=detach)

    def map(self, function: Callable[[Any], Any], items: Iterable[Any], *, description: str = "") -> list[Any]:
        """Apply a function to items, each on whichever rank is free; a bar shows how far it is.

        Parameters
        ----------
        function
            Called with one item; need not be importable on the ranks.
        items
            What to apply it to. At most two items a rank are on their way at any time.
        description
            Words before the bar; by default the function's name.

        Returns
        -------
        list
            Results in the order of the items.

        Raises
        ------
        Exception
            What the function raised, as it was raised, with rank and traceback in its notes; items that were not
            begun are left out then.
        ChildProcessError
            If a rank died.
        """
        launch = self._idle_launch()
        items = list(items)
        view = launch.client.load_balanced_view()
        waiting = iter(enumerate(items))
        running: dict[Any, int] = {}
        results: list[Any] = [None] * len(items)
        name = description or getattr(function, "__name__", type(function).__name__)
        with bar(len(items), name) as progress:
            while True:
                for index, item in islice(waiting, max(0, 2 * self.ranks - len(running))):
                    running[view.apply_async(perform, call(function, item))] = index
                if not running:
                    return results
                done, _ = concurrent.futures.wait(running, 0.2, concurrent.futures.FIRST_COMPLETED)
                if died := launch.died():
                    self.restart()
                    raise ChildProcessError(f"{died}, in {name} ({progress.done} of {len(items)} done)")
                for request in done:
                    index = running.pop(request)
                    outcome = _outcome(request, launch)
                    if outcome.error is not None:
                        outcome.error.add_note(f"Item {index} of {len(items)}: {items[index]!r:.200}")
                    results[index] = outcome.value()
                    launch.client.purge_local_results(request)
                progress.advance(len(done))

    def call(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Run a function on all ranks at once, for instance one that uses MPI; returns the results by rank.

        Raises
        ------
        Exception
            What a rank raised, as it was raised, with rank and traceback in its notes. Ranks that still wait for that
            one five seconds later are restarted.
        ChildProcessError
            If a rank died.
        """
        self._idle_launch()
        return self.run_on_all(call(function, *arguments))

    def run_on_all(self, request: bytes) -> list[Any]:
        """Do what :meth:`call` does with a pickled call, whether or not a training is running."""
        launch = self._running_launch()
        requests = [launch.client[rank].apply_async(perform, request) for rank in range(self.ranks)]
        outcomes: list[Outcome] = []
        failed: list[Outcome] = []
        deadline = float("inf")
        waiting = set(requests)
        while waiting:
            done, waiting = concurrent.futures.wait(waiting, 0.2, concurrent.futures.FIRST_COMPLETED)
            if died := launch.died():
                raise ChildProcessError(died)
            outcomes += [_outcome(request, launch) for request in done]
            failed = [outcome for outcome in outcomes if outcome.error is not None]
            if failed:
                deadline = min(deadline, time.monotonic() + _GRACE)
            if waiting and time.monotonic() > deadline:
                self.restart()
                break
        if failed:
            min(failed, key=_secondary).value()
        launch.client.purge_local_results(requests)
        return [outcome.result for outcome in sorted(outcomes, key=lambda outcome: outcome.rank)]

    def train_on_all(self, run: Any, folder: Path) -> None:
        """Train on all ranks and return at the end; :meth:`train` is what notebooks use."""
        self.run_on_all(call(train_on_rank, run, folder))

    # Life.

    def restart(self) -> None:
        """End all ranks, whatever they are doing, and start as many anew."""
        with self._life:
            self._running_launch().close()
            self._launch = Launch(self.ranks, self.threads, self._timeout, self._slurm)

    def close(self) -> None:
        """Stop what is training at its next step, then end all ranks; harmless if already closed.

        A training that was started with ``detach=True`` goes on, and its ranks end with it.
        """
        training = self._active_training()
        if training and not training.detach and not self._launch.died():
            training.ask_to_stop(timeout=_PATIENCE)
        with self._life:
            if self._closed:
                return
            self._closed = True
            if training and training.detach:
                self._launch.leave()
            else:
                self._launch.close()
        if training and not training.detach:
            training.join()

    def check_idle(self) -> None:
        """Raise RuntimeError if the ranks are closed or busy; start them again if they have died."""
        self._idle_launch()

    def engage(self, training: Training) -> None:
        """Note which training has the ranks, and whether it may outlive the kernel."""
        self._training = training
        self._running_launch().engage(training.folder.path, detach=training.detach)

    def _running_launch(self) -> Launch:
        if self._closed:
            raise RuntimeError("these engines are closed; start new ones with cluster.start()")
        return self._launch

    def _active_training(self) -> Training | None:
        return self._training if self._training is not None and self._training.active() else None

    def _idle_launch(self) -> Launch:
        launch = self._running_launch()
        if training := self._active_training():
            raise RuntimeError(
                f"the engines are training {training.folder.path}; wait for it with training.wait(), or end it with "
                "training.stop()"
            )
        if died := launch.died():
            _log.warning("%s; starting the ranks again", died)
            self.restart()
        return self._running_launch()

    # How it shows itself.

    def __repr__(self) -> str:
        if self._closed:
            return "Engines(closed)"
        hosts = {each.host for each in self._launch.reports}
        training = self._active_training()
        doing = self._launch.died() or (f"training {training.folder.path}" if training else "idle")
        return f"Engines({self.ranks} MPI ranks x {self.threads} threads on {', '.join(sorted(hosts))}: {doing})"

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"


def _outcome(request: Any, launch: Launch) -> Outcome:
    import ipyparallel

    try:
        return cloudpickle.loads(request.get())
    except ipyparallel.RemoteError as error:
        # The hub may know of a death before the launcher has ended the other ranks and said whose it was.
        reason = launch.died(patience=2.0) or launch.give_up(f"a rank died: {error.evalue}")
        raise ChildProcessError(reason) from None


def _secondary(failure: Outcome) -> tuple[bool, float]:
    """Order failures: the first cause before those that only say that another rank failed."""
    error = failure.error
    told = isinstance(error, ConnectionError) or (isinstance(error, RuntimeError) and str(error).startswith("rank "))
    return told, failure.time
