"""Engines: ipyparallel engines that are MPI ranks, and the work that a notebook gives them."""

import html
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from climlab_dl.parallel.cluster import calls, preflight
from climlab_dl.parallel.cluster.launch import Launch
from climlab_dl.parallel.cluster.slurm import Slurm
from climlab_dl.parallel.cluster.training import Training
from climlab_dl.parallel.cluster.work import call, train_on_rank
from climlab_dl.parallel.cores import cores
from climlab_dl.words import counted

_log = logging.getLogger(__name__)

_LOCAL_TIMEOUT, _QUEUE_TIMEOUT = 120.0, 86_400.0
# Seconds in which a training must reach its next step and write its checkpoint when the engines are closed.
_PATIENCE = 60.0


class Engines:
    """MPI ranks that wait for work. Close them, or use them as a context manager: then nothing is left running.

    Engine ``i`` is rank ``i``. :func:`climlab_dl.parallel.cluster.start` makes them, and says what its parameters mean
    and what it raises.
    """

    def __init__(
        self,
        ranks: int,
        *,
        threads: int | None = None,
        timeout: float | None = None,
        hosts: Sequence[str] = (),
        slurm: Slurm | None = None,
    ) -> None:
        if slurm is not None:
            self.ranks, self.threads = slurm.ranks, threads or slurm.cores_per_rank
        else:
            here = preflight.check_share(ranks, len(hosts) or 1)
            self.ranks, self.threads = ranks, threads or max(1, cores() // here)
            if not hosts:
                preflight.check_room(ranks, self.threads)
        self._hosts, self._slurm = tuple(hosts), slurm
        self._timeout = timeout or (_LOCAL_TIMEOUT if slurm is None else _QUEUE_TIMEOUT)
        self._training: Training | None = None
        self.closed = False  # or being closed
        # A training's thread starts dead ranks again; that and closing exclude each other.
        self._life = threading.Lock()
        self._launch = self._start()

    def _start(self) -> Launch:
        return Launch(self.ranks, self.threads, self._timeout, self._hosts, self._slurm)

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

    def train(
        self,
        run: Any,
        folder: str | Path,
        *,
        max_restarts: int = 2,
        detach: bool | None = None,
        timeout: float = 600.0,
    ) -> Training:
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
        timeout
            Seconds after which ranks give up waiting for one that is cut off or hangs, with a ConnectionError.

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
        return Training(folder, self, run, max_restarts=max_restarts, detach=detach, timeout=timeout)

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
        name = description or getattr(function, "__name__", type(function).__name__)
        return calls.on_each(self._idle_launch(), function, list(items), name)

    def detect(
        self, detector: Any, files: str | Path | Iterable[str | Path], folder: str | Path, **options: Any
    ) -> list[Path]:
        """Find cyclones and rivers in many files, each on whichever rank is free; what is done is not done again.

        Parameters
        ----------
        detector
            A :class:`climlab_dl.Detector`, or the run's folder or checkpoint of one.
        files
            As for :func:`climlab_dl.archive.open`.
        folder
            Gets an output for each input, under its name.
        **options
            Of :class:`climlab_dl.outputs.Outputs`: ``probabilities``, ``uncertainty``, ``regrid``, ``missing``.

        Returns
        -------
        list of Path
            The outputs, in the order of the files.

        Raises
        ------
        RuntimeError
            If some files failed, with why; the others' outputs are there.
        """
        from climlab_dl.climate import archive
        from climlab_dl.inference import outputs
        from climlab_dl.parallel.memory import keep_freed

        make = outputs.into(Path(folder).absolute(), detector, **options)
        inputs = [path.absolute() for path in archive.paths(files if isinstance(files, str | Path) else list(files))]
        outputs.refuse_same_names(inputs, make)
        self.call(keep_freed)
        return outputs.settle(self.map(make.attempt, inputs, description="detect"))

    def call(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Run a function on all ranks at once, for instance one that uses MPI; returns the results by rank.

        Raises
        ------
        Exception
            What a rank raised, as it was raised, with rank and traceback in its notes. Ranks that still wait for that
            one five seconds later are ended, and started again for the next call.
        ChildProcessError
            If a rank died.
        """
        return calls.on_all(self._idle_launch(), call(function, *arguments))

    def train_on_all(self, run: Any, folder: Path, timeout: float) -> None:
        """Train on all ranks and return at the end; :meth:`train` is what notebooks use."""
        calls.on_all(self._running_launch(), call(train_on_rank, run, folder, timeout))

    # Life.

    def restart(self) -> None:
        """End all ranks, whatever they are doing, and start as many anew."""
        with self._life:
            self._running_launch().close()
            self._launch = self._start()

    def close(self) -> None:
        """Stop what is training at its next step, then end all ranks; harmless if already closed.

        A training that was started with ``detach=True`` goes on, and its ranks end with it. Interrupting the wait for
        the next step ends the ranks at once.
        """
        training = self._active_training()
        try:
            if training and not training.detach and not self._launch.died():
                training.ask_to_stop(timeout=_PATIENCE)
        finally:
            self._end(training)

    def _end(self, training: Training | None) -> None:
        self.closed, again = True, self.closed  # said before a restart that is under way is waited for
        with self._life:
            if again:
                return
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
        if self.closed:
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
        if self.closed:
            return "Engines(closed)"
        hosts = {each.host for each in self._launch.reports}
        training = self._active_training()
        doing = self._launch.died() or (f"training {training.folder.path}" if training else "idle")
        size = f"{counted(self.ranks, 'MPI rank')} x {counted(self.threads, 'thread')}"
        return f"Engines({size} on {', '.join(sorted(hosts))}: {doing})"

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"
