"""One cluster for all tests of this room: a start takes seconds."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest

from climlab_dl.parallel import cluster
from climlab_dl.parallel.cluster.engines import Engines


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    """Give two ranks to test with; a test that closes or kills them starts its own."""
    with cluster.start(ranks=2) as started:
        yield started


def load(name: str) -> ModuleType:
    """Import a module beside this file."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def points() -> ModuleType:
    """Give the module of a run that takes seconds, which travels by value as the cells of a notebook do."""
    module = load("points")
    cloudpickle.register_pickle_by_value(module)
    return module


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give two hosts that mpiexec reaches by ssh (``hosts.Network``)."""
    hosts = load("hosts")
    if reason := hosts.missing():
        pytest.skip(reason)
    folder = tmp_path / "network"
    folder.mkdir()
    with hosts.two_hosts(folder) as made:
        monkeypatch.setenv("HYDRA_LAUNCHER_EXEC", str(made.launcher))
        yield made
