"""One cluster for all tests of this room: a start takes seconds."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import cloudpickle
import pytest

from climlab_dl.parallel import cluster
from climlab_dl.parallel.cluster.engines import Engines


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    """Give two ranks to test with; a test that closes or kills them starts its own."""
    with cluster.start(ranks=2) as started:
        yield started


@pytest.fixture(scope="session")
def points() -> ModuleType:
    """Give the module of a run that takes seconds, which travels by value as the cells of a notebook do."""
    path = Path(__file__).with_name("points.py")
    spec = importlib.util.spec_from_file_location("points", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["points"] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    return module
