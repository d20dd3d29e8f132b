"""Ranks on two hosts with addresses of their own: they train together, and a cut between them is no riddle."""

import sys
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import pytest

from climlab_dl.parallel import cluster, ranks
from climlab_dl.parallel.allreduce import Exchange
from climlab_dl.parallel.cluster.processes import marks

# What runs on a host cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = [pytest.mark.mpi, pytest.mark.slow]


def where() -> tuple[str, int, int, float]:
    import socket

    import torch

    with ranks.joined(timeout=30) as here:
        return socket.gethostname(), here.node, here.nodes, float(ranks.sum(torch.ones(1), "counting"))


def test_a_host_that_is_cut_off_ends_the_training_with_an_error_and_resumes_when_it_is_back(
    network: Any, points: ModuleType, tmp_path: Path
) -> None:
    run = replace(points.run(steps=40, seconds=0.1), exchange=Exchange(route="hierarchical"))
    with cluster.start(ranks=2, threads=1, hosts=network.hosts) as engines:
        assert engines.call(where) == [(network.hosts[0], 0, 2, 2.0), (network.hosts[1], 1, 2, 2.0)]
        first = engines.id
        training = engines.train(run, tmp_path / "run", timeout=4.0)
        deadline = time.monotonic() + 60
        while training.status()["step"] < 6:
            assert training.active(), training
            assert time.monotonic() < deadline, training
            time.sleep(0.05)
        network.cut(network.hosts[1])
        with pytest.raises(ConnectionError, match=r"rank 0 of 2 could not finish the collective 'step \d+'") as caught:
            training.wait(60)
        assert f"No word from rank 1 on {network.hosts[1]} since" in "".join(caught.value.__notes__)
        assert training.status()["state"] == "failed"
        network.mend(network.hosts[1])
        training.resume().wait(90)
        assert training.status()["state"] == "finished"
        assert list(training.progress()["step"]) == list(range(1, 41))
        assert training.folder.environment()["ranks"] == 2
        assert engines.id != first
    assert not {first, engines.id} & set(marks())
