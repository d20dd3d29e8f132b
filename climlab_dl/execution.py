"""Run a notebook's cells so that Ctrl-C, or a batch system's SIGTERM, ends them calmly and loses nothing."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from climlab_dl.parallel import cluster
from climlab_dl.training import signals

if TYPE_CHECKING:
    from nbclient import NotebookClient

    from climlab_dl.parallel.cluster.training import Training

# Seconds that trainings get to reach their next step and write a checkpoint, and that a cell gets to end.
PATIENCE, GRACE = 30.0, 5.0


def execute(client: "NotebookClient", env: Mapping[str, str], folder: Path, say: Callable[[str], None]) -> None:
    """Execute all cells, or until a signal comes.

    On SIGINT or SIGTERM the trainings below the folder end at their next step with a checkpoint, then the cell that
    runs is interrupted and the kernel shut down; a second SIGINT waits for none of that.

    Parameters
    ----------
    client
        With the notebook.
    env
        Environment of its kernel.
    folder
        Where its trainings have their folders.
    say
        Says what is being waited for.

    Raises
    ------
    KeyboardInterrupt
        A signal came, and nothing runs any more. Its arguments: the signal's name, and in words what can be continued.
    """
    loops: list[asyncio.AbstractEventLoop] = []
    client.on_notebook_start = lambda notebook: loops.append(asyncio.get_running_loop())

    start = client.on_cell_start

    def begin(cell: Any, cell_index: int) -> None:
        if signal.name:
            raise InterruptedError("no other cell is to begin")
        start(cell=cell, cell_index=cell_index)

    def ask_kernel(to: str, **options: Any) -> None:
        while not loops and not execution.done():
            time.sleep(0.05)
        if not execution.done():
            asyncio.run_coroutine_threadsafe(getattr(client.km, to)(**options), loops[0])

    # In a thread of its own, because nbclient takes the signals of the main thread for itself.
    client.on_cell_start = begin
    with signals.caught(waits=True) as signal, ThreadPoolExecutor(1) as pool:
        execution = pool.submit(lambda: asyncio.run(client.async_execute(env=env)))
        while not execution.done() and not signal.name:
            wait([execution], 0.2)
        if not signal.name:
            execution.result()
            return
        say(f"{signal.name}: trainings end at their next step, with a checkpoint")
        with contextlib.suppress(KeyboardInterrupt):
            _stop(_trainings(folder))
            ask_kernel("interrupt_kernel")
            wait([execution], GRACE)
        ask_kernel("shutdown_kernel", now=True)
        wait([execution])
    cluster.cleanup()
    raise KeyboardInterrupt(signal.name, _kept(_trainings(folder), folder))


def _trainings(folder: Path) -> list["Training"]:
    return [cluster.attach(path.parent) for path in sorted(folder.glob("**/run.json"))]


def _stop(trainings: list["Training"]) -> None:
    deadline = time.monotonic() + PATIENCE
    for training in trainings:
        training.ask_to_stop()
    while any(training.active() for training in trainings) and time.monotonic() < deadline:
        time.sleep(0.2)


def _kept(trainings: list["Training"], folder: Path) -> str:
    kept = []
    for training in trainings:
        latest, steps = training.folder.latest(), training.status()["steps"]
        at = f"step {int(latest.stem.partition('-')[2])} of {steps}" if latest else "no checkpoint yet"
        kept.append(f"{training.folder.path.relative_to(folder)} ({at})")
    return ", ".join(kept) or "no training yet"
