"""Signals end a training with a checkpoint, or before it has begun."""

import os
import signal
import time
from dataclasses import dataclass, replace
from typing import Any

import pytest

from climlab_dl.training.batches import Prepared
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_ends_the_training_with_a_checkpoint(tiny, tmp_path, number):
    before = signal.getsignal(number)
    steps = []
    with pytest.raises(KeyboardInterrupt, match=f"stopped by {number.name} after step 3; train again"):  # noqa: PT012
        for report in train(tiny(steps=100, report_every=1), tmp_path):
            steps.append(report.step)
            if report.step == 2:
                os.kill(os.getpid(), number)
    assert steps == [1, 2, 3]
    assert RunFolder(tmp_path).latest() == RunFolder(tmp_path).checkpoint(3)
    assert f"stopped by {number.name}" in RunFolder(tmp_path).status()["message"]
    assert signal.getsignal(number) is before


@dataclass(frozen=True, kw_only=True)
class Signalled(ClimateArchive):
    """An archive whose preparation is interrupted by a signal."""

    number: int = 0

    def prepare(self, seed: int, known: dict[str, Any] | None = None) -> Prepared:
        os.kill(os.getpid(), self.number)
        time.sleep(5)
        raise AssertionError("the signal did nothing")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_before_the_first_step_says_where_it_came(tiny, tmp_path, number):
    before = signal.getsignal(number)
    run = tiny()
    run = replace(run, data=Signalled(source=run.data.source, channels=run.data.channels, number=number))
    said = f"stopped by {number.name}, which came to rank 0 of 1, before the first step; train again"
    with pytest.raises(KeyboardInterrupt, match=said):
        next(train(run, tmp_path))
    status = RunFolder(tmp_path).status()
    assert (status["state"], status["message"].startswith(said)) == ("stopped", True)
    assert signal.getsignal(number) is before
    assert not (tmp_path / "lock").exists()


def test_under_nohup_the_end_of_the_terminal_is_nothing(tiny, tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        *_, last = (os.kill(os.getpid(), signal.SIGHUP) or report for report in train(tiny(steps=3), tmp_path))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert last.step == 3
    assert RunFolder(tmp_path).status()["state"] == "finished"
