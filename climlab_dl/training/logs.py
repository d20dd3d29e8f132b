"""Other people's formats for what a training does: MLPerf's log lines, TensorBoard's events, a profiler's trace."""

import importlib.util
import inspect
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch

from climlab_dl.parallel import ranks
from climlab_dl.training.climate_archive import ClimateArchive

if TYPE_CHECKING:
    from climlab_dl.training.session import Session

Kind = Literal["mlperf", "tensorboard"]


class Log(Protocol):
    """What hears of marks (``run_start``, ``epoch_start``, values with a name) and of reports."""

    def mark(self, key: str, value: Any = None, **metadata: Any) -> None:
        """Note that something happened, or has a value."""
        ...

    def report(self, row: Mapping[str, Any]) -> None:
        """Note a report."""
        ...


def check(kinds: tuple[Kind, ...]) -> None:
    """Refuse kinds that are unknown or not installed.

    Raises
    ------
    ValueError
        Saying what to do.
    """
    for kind in kinds:
        if kind not in ("mlperf", "tensorboard"):
            raise ValueError(f"logs={kinds!r}: choose among 'mlperf' and 'tensorboard'")
        if kind == "tensorboard" and importlib.util.find_spec("tensorboard") is None:
            raise ValueError("logs: 'tensorboard' needs its package: pip install tensorboard")


def start(kinds: tuple[Kind, ...], folder: Path) -> list[Log]:
    """Open the logs that a run asks for, in its folder."""
    return [MLPerf(folder / "mlperf.log") if kind == "mlperf" else TensorBoard(folder / "events") for kind in kinds]


class MLPerf:
    """Lines ``:::MLLOG {json}`` as the MLPerf HPC rules ask for; epochs count from 1, and a resumed training appends.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def mark(self, key: str, value: Any = None, **metadata: Any) -> None:
        """Write one line."""
        kind = {"start": "INTERVAL_START", "stop": "INTERVAL_END"}.get(key.rpartition("_")[2], "POINT_IN_TIME")
        caller = inspect.stack(context=0)[2]
        line = {
            "namespace": "",
            "time_ms": int(time.time() * 1000),
            "event_type": kind,
            "key": key,
            "value": value,
            "metadata": {"file": Path(caller.filename).name, "lineno": caller.lineno, **metadata},
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f":::MLLOG {json.dumps(line)}\n")

    def report(self, row: Mapping[str, Any]) -> None:
        """Write the throughput, and after an evaluation the benchmark's score."""
        self.mark("tracked_stats", {"throughput": row["rate"]}, step=row["step"])
        for key, metric in (("eval_accuracy", "iou_per_sample"), ("eval_error", "mae_mean")):
            if metric in row["metrics"]:
                self.mark(key, row["metrics"][metric], epoch_num=row["epoch"])


def facts(session: "Session") -> dict[str, Any]:
    """Give what MLPerf's rules want to be logged of a training before its first step."""
    run, here = session.run, ranks.world()
    return {
        "submission_benchmark": "deepcam" if isinstance(run.data, ClimateArchive) else "cosmoflow",
        "seed": run.seed, "number_of_ranks": here.size, "number_of_nodes": here.nodes,
        "accelerators_per_node": here.local_size if session.device.type == "cuda" else 0,
        "global_batch_size": session.samples_per_step, "train_samples": len(session.data.training),
        "eval_samples": len(session.data.held_out), "opt_name": type(session.optimizer).__name__,
        "opt_base_learning_rate": run.optimizer.learning_rate, "scheduler_type": type(run.schedule).__name__,
    }  # fmt: skip


class TensorBoard:
    """Reports as scalars; ``tensorboard --logdir RUN/events`` shows them.

    Parameters
    ----------
    folder
        Where the event files go.
    """

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def mark(self, key: str, value: Any = None, **metadata: Any) -> None:
        """Leave out what is no number."""

    def report(self, row: Mapping[str, Any]) -> None:
        """Write loss, learning rate, rate and metrics."""
        scalars = {name: row[name] for name in ("loss", "learning_rate", "rate")}
        for name, value in {**scalars, **row["metrics"]}.items():
            self._writer.add_scalar(name, value, row["step"])
        self._writer.flush()


class Profiler:
    """A trace of some steps, for chrome://tracing or Perfetto.

    Parameters
    ----------
    window
        First and last step, 1-based; None for none.
    path
        The trace that the last step leaves.
    """

    def __init__(self, window: tuple[int, int] | None, path: Path) -> None:
        self.first, self.last = window or (0, 0)
        self.path = path
        self._profiler: torch.profiler.profile | None = None

    def before(self, step: int) -> None:
        """Begin with the window's first step."""
        if step == self.first:
            self._profiler = torch.profiler.profile()
            self._profiler.start()

    def after(self, step: int) -> None:
        """Write the trace after the window's last step."""
        if step >= self.last:
            self.close()

    def close(self) -> None:
        """Write the trace of a window that has begun, whether or not its last step has come."""
        if self._profiler is not None:
            # Left running, torch's profiler ends the process when Python ends.
            self._profiler.stop()
            self._profiler.export_chrome_trace(str(self.path))
            self._profiler = None
