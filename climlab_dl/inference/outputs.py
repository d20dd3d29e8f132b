"""Detection over a whole archive: one output for each input file, by as many processes as there are.

    engines.map(make, files)                                    in a notebook, on its engines
    for path in outputs.share(files, make, rank, ranks): ...    in a batch script, on its ranks

where ``make = outputs.into("masks", detector)``; what `parallel.archive_map.dask_workers` gives takes it too.

An output that is there and was made by the same weights and options is not made again, so a job that was killed is
simply started again. Outputs of the same input by the same weights are the same, byte by byte.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xarray as xr
from xarray.backends.netCDF4_ import NETCDF4_PYTHON_LOCK

from climlab_dl.climate import archive
from climlab_dl.climate.regrid import Method
from climlab_dl.files import beside
from climlab_dl.inference.detect import detect
from climlab_dl.inference.detector import Detector

# Threads that read and compute ahead while the snapshot before is written.
THREADS = 3
# Probabilities packed into 8-bit integers have so many steps from 0 to 1, and one number left for no data.
STEPS = 254


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Makes the output of one input file; can be sent to engines, ranks and workers.

    Parameters
    ----------
    detector
        The network; each process reads its checkpoint once.
    folder
        Where outputs go, under the names of their inputs.
    probabilities
        Keep the probabilities besides the mask: not, packed to steps of 1/254, or as they are.
    regrid, missing
        As for `detect`.
    """

    detector: Detector
    folder: Path
    probabilities: Literal["none", "packed", "full"] = "none"
    regrid: Method | None = "bilinear"
    missing: Literal["refuse", "mean"] = "refuse"

    def __post_init__(self) -> None:
        if self.probabilities not in ("none", "packed", "full"):
            raise ValueError(f"probabilities is {self.probabilities!r}; choose 'none', 'packed' or 'full'")

    def path(self, source: str | Path) -> Path:
        """Where the output of an input lies."""
        return self.folder / f"{Path(source).stem}.nc"

    def done(self, source: str | Path) -> bool:
        """Whether the output is there, made by these weights with these options."""
        path = self.path(source)
        if not path.exists():
            return False
        with xr.open_dataset(path, engine="netcdf4") as there:
            return there.attrs.get("made_by") == self._made_by(source)

    def __call__(self, source: str | Path) -> Path:
        """Make the output of an input, unless it is done.

        Raises
        ------
        ValueError
            The output would take the input's place.
        """
        path = self.path(source)
        if path.resolve() == Path(source).resolve():
            raise ValueError(f"the output would take the place of {source}; choose another folder")
        if self.done(source):
            return path
        fields = archive.open(source)
        found = detect(self.detector, fields, regrid=self.regrid, missing=self.missing)
        if self.probabilities == "none":
            found = found.drop_vars(["probabilities", "class"])
        found = found.assign_attrs(made_by=self._made_by(source)).drop_encoding()
        with beside(path) as new:
            _write(found, new, packed=self.probabilities == "packed")
        return path

    def _made_by(self, source: str | Path) -> str:
        options = f"regrid={self.regrid} missing={self.missing} probabilities={self.probabilities}"
        return f"{self.detector.identity} {Path(source).name} {options}"


def _write(found: xr.Dataset, path: Path, *, packed: bool) -> None:
    """Write snapshot after snapshot, in order, while threads compute and read those to come.

    In order, for chunks would otherwise lie in the file as threads happened to finish them.
    """
    import netCDF4

    coordinates = found.drop_vars(list(found.data_vars))
    coordinates.to_netcdf(path, engine="netcdf4", encoding={str(name): {"_FillValue": None} for name in found.coords})
    with NETCDF4_PYTHON_LOCK:
        file = netCDF4.Dataset(path, "a")
    try:
        for name, variable in found.data_vars.items():
            _declare(file, str(name), variable, packed=packed and name == "probabilities")
        for step, snapshot in enumerate(_ahead(found)):
            at = (step,) if "time" in found.dims else ()
            for name, variable in snapshot.data_vars.items():
                values = variable.values
                if packed and name == "probabilities":
                    values = np.where(np.isnan(values), -128, np.rint((values - 0.5) * STEPS)).astype(np.int8)
                with NETCDF4_PYTHON_LOCK:
                    file[str(name)][at] = values
    finally:
        with NETCDF4_PYTHON_LOCK:
            file.close()


def _declare(file: Any, name: str, variable: xr.DataArray, *, packed: bool) -> None:
    chunk = tuple(1 if dim == "time" else size for dim, size in variable.sizes.items())
    kind, fill = ("i1", np.int8(-128)) if packed else (variable.dtype, False if name == "mask" else np.float32(np.nan))
    with NETCDF4_PYTHON_LOCK:
        for dim, size in variable.sizes.items():
            if dim not in file.dimensions:
                file.createDimension(str(dim), size)
        how = {"compression": "zlib", "complevel": 1, "shuffle": True, "chunksizes": chunk, "fill_value": fill}
        made = file.createVariable(name, kind, variable.dims, **how)
        made.set_auto_maskandscale(False)
        made.setncatts(variable.attrs)
        if packed:
            made.setncatts({"scale_factor": 1 / STEPS, "add_offset": 0.5})


def _ahead(found: xr.Dataset) -> Iterator[xr.Dataset]:
    """Give the snapshots in order, computed a few ahead of their use."""
    if "time" not in found.dims:
        yield found.compute()
        return
    with ThreadPoolExecutor(THREADS) as pool:
        waiting: deque[Future[xr.Dataset]] = deque()
        for step in range(found.sizes["time"]):
            waiting.append(pool.submit(found.isel(time=step).compute, scheduler="synchronous"))
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def into(folder: str | Path, detector: Detector | str | Path, **options: Any) -> Outputs:
    """Prepare outputs into a folder, by a detector or a checkpoint or run's folder; options as for `Outputs`."""
    if not isinstance(detector, Detector):
        detector = Detector.load(detector)
    return Outputs(detector=detector, folder=Path(folder), **options)


def share(sources: Sequence[str | Path], outputs: Outputs, rank: int = 0, ranks: int = 1) -> Iterator[Path]:
    """Make a rank's share of the outputs, one after the other.

    Parameters
    ----------
    sources
        Input files, in the same order on every rank.
    outputs
        From `into`.
    rank, ranks
        Which share, of how many.

    Raises
    ------
    ValueError
        Two inputs would have the same output.
    """
    names = [outputs.path(source) for source in sources]
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"several inputs would be written to {', '.join(twice)}; detect them into different folders")
    yield from map(outputs, sources[rank::ranks])
