"""Several runs side by side, each on its share of the ranks, with a table of how they do and a way to stop one."""

import html
import queue
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import pandas as pd

from climlab_dl.parallel.cluster.engines import Engines
from climlab_dl.parallel.cluster.training import Training
from climlab_dl.parallel.cores import cores
from climlab_dl.training.table import Runs, table
from climlab_dl.words import counted


class Sweep:
    """Runs that train side by side; a context manager, which stops what still trains and leaves nothing running.

    :func:`climlab_dl.parallel.cluster.sweep` makes it, and says what its parameters mean and what it raises.
    """

    def __init__(self, runs: Mapping[str, Any], folder: str | Path, *, ranks: int, at_once: int) -> None:
        if not runs:
            raise ValueError("runs={}: a sweep needs at least one run")
        if not 1 <= at_once <= ranks:
            raise ValueError(f"at_once={at_once} runs on ranks={ranks} ranks: each needs at least one rank")
        self.folder = Path(folder).absolute()
        self.trainings: dict[str, Training] = {}
        self.failed: dict[str, BaseException] = {}
        self._runs = dict(runs)
        self._waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._skipped: set[str] = set()
        for name in runs:
            self._waiting.put(name)
        self._closing = False
        share = ranks // at_once
        # Started here and one after the other: what is missing is said before anything trains.
        self.engines: list[Engines] = []
        try:
            for _ in range(min(at_once, len(runs))):
                self.engines.append(Engines(share, threads=max(1, cores() // ranks)))
        except BaseException:
            self.close()
            raise
        self._threads = [
            threading.Thread(target=self._work, args=(engines,), name="sweep", daemon=True) for engines in self.engines
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, engines: Engines) -> None:
        """Train one waiting run after the other; one that fails does not keep the next from its turn."""
        while not self._closing:
            try:
                name = self._waiting.get_nowait()
            except queue.Empty:
                return
            if name in self._skipped:
                continue
            try:
                self.trainings[name] = engines.train(self._runs[name], self.folder / name)
                self.trainings[name].wait()
            except Exception as error:
                self.failed[name] = error

    def active(self) -> bool:
        """Whether some run trains or waits for its turn."""
        return any(thread.is_alive() for thread in self._threads)

    def stop(self, name: str) -> None:
        """Stop one run at its next step, with a checkpoint; one that has not had its turn is left out.

        Raises
        ------
        KeyError
            If there is no such run.
        """
        if name not in self._runs:
            raise KeyError(f"no run {name!r} in this sweep; there are {', '.join(self._runs)}")
        if name in self.trainings:
            self.trainings[name].ask_to_stop()
        else:
            self._skipped.add(name)

    def table(self) -> Runs:
        """How each run does, and in what they differ (:func:`climlab_dl.training.table.table`)."""
        begun = [self.folder / name for name in self._runs if name in self.trainings]
        known = table(begun) if begun else Runs(columns=["state"])
        known.index = pd.Index([path.name for path in begun], name="run")
        waiting = {name: "left out" if name in self._skipped else "waiting" for name in self._runs}
        states = [known["state"].get(name, words) for name, words in waiting.items()]
        return Runs(known.reindex(list(self._runs)).assign(state=states))

    def wait(self) -> Runs:
        """Wait until every run has ended; interrupting the wait interrupts no run.

        Returns
        -------
        DataFrame
            The table at the end.

        Raises
        ------
        Exception
            What ended the first run that failed, after the others have ended.
        """
        while self.active():
            time.sleep(0.2)
        for name in self._runs:
            if name in self.failed:
                raise self.failed[name]
        return self.table()

    def close(self) -> None:
        """Stop what trains at its next step, leave out what waits, and end all ranks; harmless if already closed."""
        self._closing = True
        for training in self.trainings.values():
            training.ask_to_stop()
        for engines in self.engines:
            engines.close()

    def __enter__(self) -> "Sweep":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Sweep of {counted(len(self._runs), 'run')} in {self.folder}\n{self.table().to_string()}"

    def _repr_html_(self) -> str:
        title = f"<p>Sweep of {counted(len(self._runs), 'run')} in <code>{html.escape(str(self.folder))}</code></p>"
        return title + self.table()._repr_html_()
