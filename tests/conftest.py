"""What every test may ask for: the sample archive, shared data, ranks, and quiet threads."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Two test processes and MPI ranks share few cores: one thread each, set before numpy or torch are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "agg")

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "reproducible",
    derandomize=True,
    deadline=None,
    max_examples=25,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("reproducible")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of real data that is not part of the project (CLIMLAB_SHARED, default ../shared)."""
    root = Path(__file__).resolve().parents[1]
    data = Path(os.environ.get("CLIMLAB_SHARED", root.parent / "shared")) / "data"
    if not data.is_dir():
        pytest.skip(f"no shared data at {data} (set CLIMLAB_SHARED)")
    return data


@pytest.fixture(scope="session")
def sample() -> Path:
    """Folder of the packaged sample archive."""
    from climlab_dl import archive

    return archive.sample()


@pytest.fixture(scope="session")
def mpiexec() -> Callable[..., str]:
    """Run a script on ranks: ``mpiexec(2, "tests/mpi/x.py", "argument")`` gives its standard output."""
    beside = Path(sys.executable).parent / "mpiexec"
    program = str(beside) if beside.exists() else shutil.which("mpiexec")
    if program is None:
        pytest.skip("no mpiexec beside the interpreter nor on PATH (pip install mpich)")

    def run(ranks: int, script: str | Path, *arguments: str, timeout: float = 240) -> str:
        command = [program, "-n", str(ranks), sys.executable, str(script), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def alone() -> list[str]:
    """Command that runs another where the only wire out leads nowhere, and says how many packets were sent on it."""
    if os.geteuid() or not shutil.which("unshare") or not shutil.which("ip"):
        return []
    return ["unshare", "--net", "sh", str(Path(__file__).with_name("alone.sh"))]


@pytest.fixture(scope="session")
def tour(tmp_path_factory: pytest.TempPathFactory, alone: list[str]) -> Path:
    """Folder of what ``climlab-dl tour`` leaves, at smoke size, run once for all tests that look at it."""
    out = tmp_path_factory.mktemp("tour")
    program = Path(sys.executable).with_name("climlab-dl")
    done = subprocess.run(
        [*alone, program, "tour", "--smoke", "--out", str(out)],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (out / "said.txt").write_text(done.stdout)
    return out


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of a Chromium that Playwright can drive."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium on PATH (apt-get install chromium)")


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    """A headless Chromium; one for all tests, because Playwright's loop may run once in a process."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    flags += ["--disable-component-update", "--disable-sync"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()
