"""Detection over a whole archive: one output for each input file, by as many processes as there are.

    engines.detect("runs/deeplab", files, "masks")                  in a notebook, on its engines
    for made in outputs.share(files, make, rank, ranks): ...        in a batch script, on its ranks

where ``make = outputs.into("masks", detector)``; what `parallel.archive_map.dask_workers` gives takes ``make.attempt``.

An output that is there, is no older than its input, and was made by the same weights and options is not made again, so
a job that was killed is simply started again. Outputs of the same input by the same weights are the same, byte by byte.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import xarray as xr

from climlab_dl.climate import archive
from climlab_dl.climate.regrid import Method
from climlab_dl.inference import netcdf
from climlab_dl.inference.detect import detect
from climlab_dl.inference.detector import Detector
from climlab_dl.netcdf import opened
from climlab_dl.parallel import ranks
from climlab_dl.words import counted

Progress = Callable[[float], object]
# So many of the reasons why inputs failed are told.
NAMED = 20


@dataclass(frozen=True, kw_only=True)
class Made:
    """What became of an input: the output's path, or what went wrong.

    Attributes
    ----------
    source, path
        The input, and its output.
    error
        Empty where there is one.
    """

    source: Path
    path: Path
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Makes the output of one input file; can be sent to engines, ranks and workers.

    Parameters
    ----------
    detector
        The network, or several; each process reads their checkpoints once.
    folder
        Where outputs go, under the names of their inputs.
    probabilities
        Keep the probabilities besides the mask: not, packed to steps of 1/254, or as they are.
    regrid, missing, uncertainty
        As for `detect`. What tells the uncertainty is packed where probabilities are.
    names
        What variables of the inputs are called here, as for `archive.open`.
    """

    detector: Detector
    folder: Path
    probabilities: Literal["none", "packed", "full"] = "none"
    regrid: Method | None = "bilinear"
    missing: Literal["refuse", "mean"] = "refuse"
    uncertainty: bool = False
    names: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.probabilities not in ("none", "packed", "full"):
            raise ValueError(f"probabilities is {self.probabilities!r}; choose 'none', 'packed' or 'full'")

    def path(self, source: str | Path) -> Path:
        """Where the output of an input lies."""
        return self.folder / f"{Path(source).stem}.nc"

    def done(self, source: str | Path) -> bool:
        """Whether the output is there, is no older than the input, and was made by these weights with these options."""
        path = self.path(source)
        if not path.exists() or path.stat().st_mtime_ns < Path(source).stat().st_mtime_ns:
            return False
        try:
            with opened(path) as there:
                return there.attrs.get("made_by") == self._made_by(source)
        except OSError:  # no NetCDF, or a damaged one: made anew
            return False

    def __call__(self, source: str | Path, progress: Progress = lambda share: None) -> Path:
        """Make the output of an input, unless it is done.

        Parameters
        ----------
        source
            The input.
        progress
            Called with the share of the input that each snapshot is, when it is written.

        Raises
        ------
        ValueError
            The output would take the input's place, or the input is not what the network can look at.
        """
        path = self.path(source)
        if path.resolve() == Path(source).resolve():
            raise ValueError(f"the output would take the place of {source}; choose another folder")
        if self.done(source):
            return path
        for unfinished in self.folder.glob(f".{path.name}.*"):  # of a process that was killed
            shutil.rmtree(unfinished, ignore_errors=True)
        found = self.find(source).assign_attrs(made_by=self._made_by(source))
        netcdf.write(found, path, packed=self.probabilities == "packed", progress=progress)
        return path

    def attempt(self, source: str | Path, progress: Progress = lambda share: None) -> Made:
        """Make the output of an input, or say why it cannot be made, so that others need not wait for a bad file."""
        try:
            return Made(source=Path(source), path=self(source, progress))
        except Exception as error:  # whatever is wrong with this file is its own affair
            return Made(source=Path(source), path=self.path(source), error=f"{error}" or type(error).__name__)

    def find(self, source: archive.Source) -> xr.Dataset:
        """Detect in files as the options say; nothing is computed yet."""
        # Nothing is looked at twice, so nothing is kept.
        detector = replace(self.detector, cache_bytes=0)
        options: dict[str, Any] = {"regrid": self.regrid, "missing": self.missing, "uncertainty": self.uncertainty}
        found = detect(detector, archive.open(source, names=self.names), **options)
        return found.drop_vars(["probabilities", "class"]) if self.probabilities == "none" else found

    def _made_by(self, source: str | Path) -> str:
        options = f"regrid={self.regrid} missing={self.missing} probabilities={self.probabilities}"
        uncertainty = " uncertainty" if self.uncertainty else ""
        names = f" names={dict(sorted(self.names.items()))}" if self.names else ""
        return f"{self.detector.identity} {Path(source).name} {options}{uncertainty}{names}"


def into(folder: str | Path, detector: Detector | str | Path, **options: Any) -> Outputs:
    """Prepare outputs into a folder, by a detector or a checkpoint or run's folder; options as for `Outputs`."""
    if not isinstance(detector, Detector):
        detector = Detector.load(detector)
    return Outputs(detector=detector, folder=Path(folder), **options)


def share(
    sources: Sequence[str | Path],
    outputs: Outputs,
    rank: int = 0,
    size: int = 1,
    *,
    progress: Progress = lambda share: None,
) -> Iterator[Made]:
    """Make a rank's share of the outputs, one after the other; a bad input does not keep the others waiting.

    Parameters
    ----------
    sources
        Input files, in the same order on every rank.
    outputs
        From `into`.
    rank, size
        Which share, of how many.
    progress
        Called with the share of an input that each snapshot is, when it is written.

    Raises
    ------
    ValueError
        Two inputs would have the same output.
    """
    refuse_same_names(sources, outputs)
    for source in sources[rank::size]:
        yield outputs.attempt(source, progress)


def refuse_same_names(sources: Sequence[str | Path], outputs: Outputs) -> None:
    """Raise ValueError where two inputs would have the same output."""
    seen: set[Path] = set()
    names = [outputs.path(source) for source in sources]
    if twice := sorted({str(name) for name in names if name in seen or seen.add(name)}):
        raise ValueError(f"several inputs would be written to {', '.join(twice)}; detect them into different folders")


def gather(made: Iterable[Made]) -> list[Made]:
    """Collect what became of the inputs of all ranks, on every rank."""
    mine = json.dumps([[str(one.source), str(one.path), one.error] for one in made])
    texts = [ranks.broadcast_text(mine, "what became of the files", source=rank) for rank in range(ranks.size())]
    rows = [row for text in texts for row in json.loads(text)]
    return [Made(source=Path(source), path=Path(path), error=error) for source, path, error in rows]


def settle(made: Iterable[Made]) -> list[Path]:
    """Give the outputs' paths.

    Raises
    ------
    RuntimeError
        If some could not be made: which, and why; the others are there.
    """
    made = list(made)
    failed = [one for one in made if one.error]
    if failed:
        reasons: dict[str, list[Path]] = {}
        for one in failed:
            reasons.setdefault(one.error, []).append(one.source)
        lines = [
            f"{first}: {error}" if not others else f"{1 + len(others)} files: {error.rstrip('.')}; first: {first}"
            for error, (first, *others) in reasons.items()
        ]
        more = [f"and {counted(len(lines) - NAMED, 'more reason')}"] if len(lines) > NAMED else []
        failures = f"{len(failed)} of {counted(len(made), 'file')} failed:"
        raise RuntimeError("\n  ".join([failures, *lines[:NAMED], *more]))
    return [one.path for one in made]
