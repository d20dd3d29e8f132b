"""A function over a whole archive, a block of snapshots at a time, on whatever workers there are.

>>> masks = archive_map.apply(partial(detect, detector), "cam5/*.nc", "masks", over=engines.map)

Workers read and write by themselves; nothing but file names travels. In a batch job, with at least three ranks:

>>> with archive_map.dask_workers() as over:
...     archive_map.apply(partial(detect, detector), "cam5/*.nc", "masks", over=over)
"""

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from climlab_dl.climate import archive
from climlab_dl.files import write_text
from climlab_dl.netcdf import LOCK
from climlab_dl.words import counted

if TYPE_CHECKING:
    import xarray as xr

Mapper = Callable[[Callable[[Any], Any], Sequence[Any]], Sequence[Any]]


def apply(
    function: "Callable[[xr.Dataset], xr.Dataset]",
    source: str | Path | Sequence[str | Path],
    folder: str | Path,
    *,
    over: Mapper,
    snapshots: int = 16,
) -> "xr.Dataset":
    """Apply a function to all snapshots of an archive, into a file a block, and open the result lazily.

    Parameters
    ----------
    function
        Called with a block as :func:`climlab_dl.climate.archive.open` gives it, (time, lat, lon); what it returns has a
        time too and need not be computed.
    source
        The archive.
    folder
        Gets ``00000000.nc`` and so on, numbered by the first snapshot. Blocks that are there already are left alone, so
        that a job that was cut off goes on where it was.
    over
        What applies a function to items in parallel: ``engines.map``, or what :func:`dask_workers` gives.
    snapshots
        Number of snapshots in a block; a worker holds at most one block in memory.

    Returns
    -------
    Dataset
        All blocks as one lazy dataset, one snapshot a chunk.

    Raises
    ------
    ValueError
        If ``snapshots`` is no positive number, or the folder has blocks of another archive or size.
    """
    import xarray as xr

    if snapshots < 1:
        raise ValueError(f"snapshots={snapshots} in a block must be at least 1")
    paths = [source] if isinstance(source, str | Path) else list(source)
    sources = tuple(str(Path(path).absolute()) for path in paths)
    count = _opened(sources).sizes["time"]
    folder = Path(folder).absolute()
    _describe(folder, {"source": list(sources), "count": count, "snapshots": snapshots})
    starts = range(0, count, snapshots)
    missing = [start for start in starts if not _path(folder, start).exists()]
    over(_Block(function=function, sources=sources, folder=folder, snapshots=snapshots), missing)
    with LOCK:
        return xr.open_mfdataset(
            [_path(folder, start) for start in starts],
            engine="netcdf4",
            lock=LOCK,
            combine="nested",
            concat_dim="time",
            chunks={"time": 1},
            data_vars="minimal",
            coords="minimal",  # pyright: ignore[reportArgumentType]
            compat="override",
            join="exact",
        )


@contextmanager
def dask_workers() -> Iterator[Mapper]:
    """Make the ranks of ``mpiexec`` a scheduler, this client, and dask workers; only the client enters the body.

    Yields
    ------
    callable
        What :func:`apply` takes as ``over``.

    Raises
    ------
    ValueError
        If there are fewer than three ranks.
    """
    # First, or the scheduler's threads and MPI's start wait for each other.
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.size < 3:
        raise ValueError(
            f"dask-mpi has {counted(world.size, 'rank')} and needs 3: a scheduler, a client and at least one worker; "
            "use mpiexec -n 3 or more"
        )
    one_host = len(set(world.allgather(MPI.Get_processor_name()))) == 1
    from dask_mpi import initialize
    from distributed import Client

    initialize(
        nthreads=1,
        memory_limit="0",
        interface="lo" if one_host else None,
        worker_class="distributed.Worker",
        dashboard=False,
    )
    with Client() as client:

        def over(function: Callable[[Any], Any], items: Sequence[Any]) -> Sequence[Any]:
            done: Any = client.gather(client.map(function, items, pure=False))
            return done

        yield over


@dataclass(frozen=True, kw_only=True)
class _Block:
    """What a worker does: read a block by the number of its first snapshot, apply, write."""

    function: "Callable[[xr.Dataset], xr.Dataset]"
    sources: tuple[str, ...]
    folder: Path
    snapshots: int

    def __call__(self, start: int) -> str:
        import dask

        block = _opened(self.sources).isel(time=slice(start, start + self.snapshots))
        # One worker is one core; the other cores have their own blocks.
        with dask.config.set(scheduler="synchronous"):  # pyright: ignore[reportPrivateImportUsage]
            return str(archive.save(self.function(block), _path(self.folder, start)))


@functools.lru_cache(maxsize=1)
def _opened(sources: tuple[str, ...]) -> "xr.Dataset":
    """Open the archive once a process: looking through thousands of files takes longer than reading a block."""
    return archive.open(list(sources) if len(sources) > 1 else next(iter(sources)))


def _path(folder: Path, start: int) -> Path:
    return folder / f"{start:08d}.nc"


def _describe(folder: Path, plan: dict[str, Any]) -> None:
    """Note what the folder's blocks are of, and refuse one with blocks of something else."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "blocks.json"
    if path.exists() and (found := json.loads(path.read_text(encoding="utf-8"))) != plan:
        raise ValueError(f"{folder} has blocks of {found}, not of {plan}: choose another folder, or delete this one")
    write_text(path, json.dumps(plan))
