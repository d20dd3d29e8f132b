"""A run is a folder: whoever can read it can watch, stop, resume or compare the run. Needs no torch.

===================  ==================================================================================
``run.json``         the complete description (:meth:`climlab_dl.training.run.Run.to_json`)
``status.json``      state, step, steps, time, message, host, pid of rank 0
``progress.jsonl``   one line per report: step, epoch, loss, learning rate, rate, metrics
``held_out.nc``      what the network said at its latest evaluation of one held-out snapshot, or of the universes held
                     out, beside the truth
``environment.json`` versions, host, ranks, commit, seed
``checkpoints/``     ``step-00000120.pt`` (the latest few) and ``best.pt``
``stop``             while it exists, the training checkpoints and ends at its next step
===================  ==================================================================================
"""

import json
import math
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import pandas as pd

from climlab_dl import cards
from climlab_dl.files import beside, refuse_unwritable, sweep, write_text
from climlab_dl.training.reports import Reports, parsed

if TYPE_CHECKING:
    import xarray as xr

_ANEW = "delete it, the next start of the training writes it anew"
_NAMED = 8
State = Literal["starting", "running", "stopped", "finished", "failed"]


def _read(path: Path, remedy: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}): {remedy}") from error
    if not isinstance(found, dict) or not found:
        raise ValueError(f"{path} is damaged (it says {found!r}): {remedy}")
    return found


def _finite(value: Any) -> Any:
    """JSON has no NaN: what is not finite becomes null, and NaN again in the table."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return value


class RunFolder:
    """The folder that a run's training fills.

    Parameters
    ----------
    path
        The folder; it need not exist yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self.run_json = self.path / "run.json"
        self.held_out_nc = self.path / "held_out.nc"
        self.checkpoints = self.path / "checkpoints"
        self._progress = self.path / "progress.jsonl"
        self._reports = Reports(self._progress)
        self._status = self.path / "status.json"
        self._environment = self.path / "environment.json"
        self._stop = self.path / "stop"

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def _repr_html_(self) -> str:
        if not self.path.is_dir():
            return cards.card({"folder": self.path, "state": "not there yet"}, "Run")
        status, latest, best = self.status(), self.latest(), self.best()
        rows = {"folder": self.path, "state": status["state"], "step": f"{status['step']} of {status['steps']}"}
        rows |= {"message": status["message"], "checkpoints": [path.name for path in (latest, best) if path]}
        return cards.card(rows, "Run")

    # Reading: what a notebook, a batch script or a colleague needs.

    def status(self) -> dict[str, Any]:
        """State, step, steps, time (Unix seconds of the last sign of life), message, host and pid.

        Raises
        ------
        FileNotFoundError
            If there is no such folder.
        """
        if not self.path.is_dir():
            raise FileNotFoundError(f"no run folder at {self.path}; a training creates it")
        if not self._status.exists():
            self._refuse_several()
            return {"state": "starting", "step": 0, "steps": 0, "time": self.path.stat().st_mtime, "message": ""}
        return _read(self._status, _ANEW)

    def progress(self) -> pd.DataFrame:
        """Read the reports so far, one row each; metrics are columns, NaN where a report did not evaluate."""
        return self._reports.table()

    def described(self) -> str:
        """Read the description of the run.

        Raises
        ------
        FileNotFoundError
            If there is none.
        ValueError
            If the file is damaged.
        """
        if not self.run_json.exists():
            self._refuse_several()
            if self.latest() is not None:
                raise FileNotFoundError(
                    f"{self.path} has checkpoints, but no run.json that says of what: restore it from a copy, or "
                    "choose another folder"
                )
            raise FileNotFoundError(f"{self.path} has no run.json: engines.train(run, folder) makes one")
        _read(self.run_json, "restore it from a copy, or choose another folder")
        return self.run_json.read_text(encoding="utf-8")

    def _refuse_several(self) -> None:
        """Raise FileNotFoundError where this is no run's folder but one in which runs lie, naming them."""
        if self.run_json.exists() or self.checkpoints.exists():
            return
        below = sorted(path.parent for depth in ("*", "*/*") for path in self.path.glob(f"{depth}/run.json"))
        if below:
            more = f" and {len(below) - _NAMED} more" if len(below) > _NAMED else ""
            raise FileNotFoundError(
                f"{self.path} is no run's folder, but one in which runs lie; name one of them: "
                f"{', '.join(map(str, below[:_NAMED]))}{more}"
            )

    def held_out(self) -> "xr.Dataset | None":
        """Read what the network said at its latest evaluation, or None before the first.

        Returns
        -------
        Dataset
            ``mask`` and ``truth`` (lat, lon) of one held-out snapshot, the same at all evaluations; or ``estimate`` and
            ``truth`` (universe, parameter) of all held-out universes, in physical units. Attributes: ``step``, and
            ``sample``, which snapshot it is.
        """
        from climlab_dl import netcdf

        if not self.held_out_nc.exists():
            return None
        with netcdf.opened(self.held_out_nc) as seen:
            return seen.load()

    def environment(self) -> dict[str, Any]:
        """Versions, host, ranks, commit and seed of the latest start; empty before the first."""
        return _read(self._environment, _ANEW) if self._environment.exists() else {}

    def latest(self) -> Path | None:
        """Path of the checkpoint of the highest step, or None before the first."""
        found = self._steps()
        return found[-1] if found else None

    def best(self) -> Path | None:
        """Path of the checkpoint with the best held-out score, or None before the first evaluation."""
        path = self.checkpoints / "best.pt"
        return path if path.exists() else None

    def _steps(self) -> list[Path]:
        return sorted(path for path in self.checkpoints.glob("step-*.pt") if path.stem[5:].isdecimal())

    def checkpoint(self, step: int) -> Path:
        """Path that the checkpoint of a step has."""
        return self.checkpoints / f"step-{step:08d}.pt"

    # Asking: any process that sees the folder may.

    def request_stop(self) -> None:
        """Ask the training to checkpoint and end at its next step; harmless if none is running."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._stop.touch()

    def stop_requested(self) -> bool:
        """Whether somebody has asked for a stop that has not been honoured yet."""
        return self._stop.exists()

    def clear_stop(self) -> None:
        """Forget a request to stop."""
        self._stop.unlink(missing_ok=True)

    # Writing: rank 0, and the launcher before any rank runs.

    def begin(self, run_json: str, steps: int = 0) -> int:
        """Make the folder, describe the run and say "starting"; a stop asked of an earlier training is forgotten.

        The launcher calls it before it starts ranks. Rank 0 calls it again, and a stop that was asked for in between
        is kept.

        Returns
        -------
        int
            The step of the latest checkpoint; 0 where there is none.
        """
        self.make()
        if not (self._status.exists() and self.status()["state"] == "starting"):
            self.clear_stop()
        write_text(self.run_json, run_json)
        latest = self.latest()
        step = int(latest.stem[5:]) if latest else 0
        self.write_status("starting", step=step, steps=steps)
        return step

    def make(self) -> None:
        """Make the folder; an OSError says why it cannot be written to."""
        refuse_unwritable(self.run_json)
        refuse_unwritable(self.checkpoint(0))
        self.checkpoints.mkdir(parents=True, exist_ok=True)

    def sweep(self) -> None:
        """Delete what a killed training has left half-written; for who holds the folder's lock."""
        sweep(self.checkpoints)
        for path in (self.run_json, self.held_out_nc, self._progress, self._status, self._environment):
            sweep(self.path, path.name)

    def write_status(self, state: State, *, step: int, steps: int, message: str = "") -> None:
        """Replace the status."""
        if state not in get_args(State):
            raise ValueError(f"state={state!r} is none of {', '.join(get_args(State))}")
        facts = {"state": state, "step": step, "steps": steps, "time": time.time(), "message": message}
        facts |= {"host": socket.gethostname(), "pid": os.getpid()}
        write_text(self._status, json.dumps(facts, indent=1))

    def write_environment(self, facts: Mapping[str, Any]) -> None:
        """Record where and with what this start of the training runs."""
        write_text(self._environment, json.dumps(dict(facts), indent=1))

    def append_progress(self, row: Mapping[str, Any]) -> None:
        """Add one report, which has ``step`` and ``metrics``; it is on its way to the disk when this returns."""
        with self._progress.open("a", encoding="utf-8") as file:
            file.write(json.dumps(_finite(row), allow_nan=False) + "\n")

    def write_held_out(self, seen: "xr.Dataset") -> None:
        """Replace what :meth:`held_out` reads."""
        from climlab_dl import netcdf

        with beside(self.held_out_nc) as new:
            netcdf.write(seen, new, encoding={str(name): {"zlib": True} for name in seen})

    def rewind(self, step: int) -> None:
        """Drop the reports after a step, which a training that resumes from there will write again."""
        if self._progress.exists():
            # A line without its newline is that of a writer who was killed.
            lines = self._progress.read_text(encoding="utf-8", errors="replace").rpartition("\n")[0].splitlines()
            kept = [line for line in lines if (report := parsed(line)) and report["step"] <= step]
            write_text(self._progress, "".join(line + "\n" for line in kept))

    def prune(self, keep: int) -> None:
        """Delete all but the latest ``keep`` checkpoints (and ``best.pt``)."""
        for path in self._steps()[:-keep]:
            path.unlink()


def checkpoint_of(path: str | Path) -> Path:
    """Give the checkpoint that is meant by a path: itself, or the best (else the latest) of a run's folder.

    Raises
    ------
    FileNotFoundError
        If the folder has no checkpoint, or is one in which runs lie, naming them.
    TypeError
        If it is no path.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"expected the path of a run's folder or of a checkpoint; found a {type(path).__name__}")
    path = Path(path)
    if not path.is_dir():
        return path
    folder = RunFolder(path)
    found = folder.best() or folder.latest()
    if found is None:
        raise FileNotFoundError(f"{path} has no checkpoint yet (state: {folder.status()['state']}); train first")
    return found
