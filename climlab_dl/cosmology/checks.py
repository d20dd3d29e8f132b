"""Look through files of volumes before a long training does, and convert them to what reads fastest.

    report = checks.check("records/*.tfrecord")
    print(report); report.ok
    checks.convert("records/*.tfrecord", "universes")

Neither changes the files that it reads.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from climlab_dl.cosmology import faults, volumes
from climlab_dl.cosmology.report import Report, Seen, each_once, summary
from climlab_dl.cosmology.volumes import Volume


def check(source: str | Path | Iterable[str | Path]) -> Report:
    """Read every volume of a folder, glob or list once, one in memory at a time, and compare it to the first.

    What is missing of several is a problem like any other.

    Raises
    ------
    FileNotFoundError
        If there are no files at all.
    """
    paths, missing = volumes.there(source)
    if not paths:
        raise FileNotFoundError("; ".join(missing) or "no files of volumes were named")
    seen: list[Seen] = []
    problems: list[tuple[Path, str]] = []
    for path in paths:
        try:
            for volume in volumes.read(path):
                seen.append(Seen.of(volume))
                problems += [(path, f"{path}: {fault}") for fault in impossibilities(volume)]
                problems += [(path, f"{path} has {fault}") for fault in faults.between(volume, seen[0].outline)]
        except (ValueError, OSError) as fault:
            problems.append((path, str(fault) if str(path) in str(fault) else f"{path}: {fault}"))
    outlines = [one.outline for one in seen]
    copies = faults.of_copies([outline.source for outline in outlines], [one.digest for one in seen])
    together = [fault for fault in (copies, _of_means(seen), _of_relation(outlines)) if fault]
    return Report(
        volumes=len(seen),
        lines=summary(seen),
        problems=(*missing, *each_once(problems), *together),
    )


def _of_means(seen: list[Seen]) -> str:
    """Say that mean counts are too far apart, of the volumes that have as many redshifts as the first."""
    alike = [one for one in seen if len(one.mean) == len(seen[0].mean)]
    sources, means = [one.outline.source for one in alike], np.array([one.mean for one in alike])
    return faults.of_means(sources, means, seen[0].outline.redshifts) if alike else ""


def _of_relation(seen: list[Volume]) -> str:
    """Say why scaled and physical parameters are not of one prior, of the volumes that tell as many as the first."""
    both = [
        (volume.unit, volume.physical, volume.source)
        for volume in seen
        if volume.unit is not None and volume.physical is not None and volume.names == seen[0].names
        if len(volume.unit) == len(volume.physical) == len(volume.names)
        if np.isfinite([volume.unit, volume.physical]).all()
    ]
    if not both:
        return ""
    unit, physical, sources = zip(*both, strict=True)
    return faults.of_relation(np.array(unit), np.array(physical), seen[0].names, sources)


def impossibilities(volume: Volume) -> Iterator[str]:
    """Name what cannot be true of a volume."""
    if fault := faults.of_counts(volume.counts):
        yield fault
    elif (volume.counts.sum((0, 1, 2), dtype=np.float64) == 0).any():
        yield "a redshift is empty"
    yield from faults.of_facts(volume)
    if volume.unit is not None and np.abs(volume.unit).max() > 1 + 1e-6:
        yield (
            f"scaled parameters (unitPar or y) reach {np.abs(volume.unit).max():.3g}, beyond -1 to 1; physical ones "
            "belong in physPar"
        )


def convert(
    source: str | Path | Iterable[str | Path], folder: str | Path, *, layout: Literal["zarr", "hdf5"] = "zarr"
) -> list[Path]:
    """Write every volume by itself under a name of its own, in chunks; those that are there are kept.

    Parameters
    ----------
    source
        What :func:`climlab_dl.cosmology.volumes.files` takes.
    folder
        Where to.
    layout
        ``"zarr"`` (LZ4): a core decompresses over 1 GB/s, three times what gzip gives. ``"hdf5"`` (gzip): ExaLearn's
        layout, which any HDF5 reads.

    Returns
    -------
    list of Path
        Of the volumes, in the sources' order.

    Raises
    ------
    ValueError
        If ``layout`` is neither, a file is truncated, or two sources would get one name.
    """
    if layout not in ("zarr", "hdf5"):
        raise ValueError(f"layout = {layout!r} is not known; choose 'zarr' or 'hdf5'")
    paths = volumes.files(source)
    twice = [name for name, count in Counter(_stem(path) for path in paths).items() if count > 1]
    if twice:
        raise ValueError(f"several sources are named {twice[0]}; convert them into folders of their own")
    written = []
    for path in paths:
        for number, volume in enumerate(volumes.read(path)):
            target = Path(folder) / f"{_stem(path)}_{number:03d}.{'zarr' if layout == 'zarr' else 'h5'}"
            written.append(target if target.exists() else volumes.save(volume, target))
    return written


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]
