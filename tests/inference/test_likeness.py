"""Volumes are compared with what a checkpoint knows of its training."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from climlab_dl.cosmology import volumes
from climlab_dl.cosmology.volumes import Volume
from climlab_dl.inference.likeness import Training
from climlab_dl.inference.summaries import Summaries
from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.training.losses import MSE
from climlab_dl.training.run import Run
from climlab_dl.training.universes import Universes

FACTS = {
    "redshifts": [0.0, 1.5], "cells_a_side": 4, "box_size_mpc_h": 128.0, "lowest_mean_count": [8.0, 8.0],
    "highest_mean_count": [8.0, 9.0],
}  # fmt: skip


def volume(mean: int, redshifts: list[float], box: float | None = 128.0) -> Volume:
    counts = np.full((4, 4, 4, len(redshifts)), mean) + np.arange(len(redshifts))
    return Volume(counts=counts, source=Path("made.h5"), redshifts=np.array(redshifts), box_size_mpc_h=box)


def said(seen: Volume, facts: dict | None = None) -> list[str]:
    training = Training.of(FACTS if facts is None else facts)
    return list(training.differences(seen, training.ordered(seen, 2)))


def read_as(seen: Volume, training: Training | None = None) -> list[str]:
    training = training or Training.of(FACTS)
    return list(training.readings(seen, training.ordered(seen, 2)))


def test_a_volume_like_those_of_the_training_is_passed_on_in_silence():
    seen = volume(8, [0.0, 1.5])
    assert Training.of(FACTS).ordered(seen, 2) is seen
    assert said(seen) == read_as(seen) == []


def test_another_number_of_cells_is_said_even_where_the_box_is_not_told():
    finer = replace(volume(8, [0.0, 1.5], box=None), counts=np.full((8, 8, 8, 2), 8))
    assert said(finer) == ["8 cells a side, where the training's had 4"]


def test_what_a_file_does_not_tell_is_said_where_the_training_knows_it():
    untold = replace(volume(8, [0.0, 1.5], box=None), redshifts=None)
    assert said(untold) == []
    assert read_as(untold) == [
        "its file tells no redshifts (2 channels taken for 0, 1.5, in this order)",
        "its file tells no box (taken for the training's, 128 Mpc/h)",
    ]
    assert read_as(untold, Training()) == []


def test_redshifts_picked_out_of_more_are_said_unless_the_training_picked_them_as_well():
    more = volume(8, [0.0, 0.5, 1.5, 3.0])
    assert read_as(more) == ["of its redshifts 0, 0.5, 1.5, 3 are taken 0, 1.5, in the order of the training"]
    assert read_as(more, Training.of(FACTS, (0.0, 1.5))) == []


def test_redshifts_are_taken_by_their_value_and_the_other_order_is_no_difference():
    seen = volume(8, [1.5, 0.0])
    ordered = Training.of(FACTS).ordered(seen, 2)
    assert ordered.redshifts is not None
    assert ordered.redshifts.tolist() == [0.0, 1.5]
    assert ordered.counts[0, 0, 0].tolist() == [9, 8]
    assert said(seen) == []
    assert read_as(seen) == ["of its redshifts 1.5, 0 are taken 0, 1.5, in the order of the training"]


def test_another_box_and_mean_count_are_said_with_what_was_expected():
    assert said(volume(8, [0.0, 1.5], box=1000.0)) == ["a box of 1000 Mpc/h, where the training's were 128"]
    assert said(volume(400, [0.0, 1.5])) == ["400 particles per cell on average, where the training's had 8"]


def test_redshifts_that_lack_are_named_with_those_that_are_there():
    with pytest.raises(ValueError, match=re.escape(
        "made.h5 has 1 redshift (0), the network was trained on 2 (0, 1.5): give the counts at 1.5 as well, or train a "
        "network on what is there, with Universes(redshifts=(0.0,))"
    )):  # fmt: skip
        Training.of(FACTS).ordered(volume(8, [0.0]), 2)
    with pytest.raises(ValueError, match=re.escape("has 2 redshifts (0.5, 3), the network was trained on 2 (0, 1.5)")):
        Training.of(FACTS).ordered(volume(8, [0.5, 3.0]), 2)


@pytest.mark.parametrize("facts", [FACTS, {}])
def test_another_number_of_redshifts_is_refused_where_the_file_does_not_tell_which(facts):
    known = " (0, 1.5)" if facts else ""
    for shifts, remedy in (
        ([0.0], "give the counts at all 2, or"),
        ([0.0] * 3, "choose 2 of them in Python"),
    ):
        untold = replace(volume(8, shifts), redshifts=None)
        has = f"{len(shifts)} redshift{'s' * (len(shifts) > 1)}"
        with pytest.raises(ValueError, match=re.escape(f"{has}, the network was trained on 2{known}: {remedy}")):
            Training.of(facts).ordered(untold, 2)


def test_of_an_older_checkpoint_nothing_is_known():
    assert said(volume(400, [1.5, 0.0], box=1000.0), {"channels": ["z=0", "z=1.5"]}) == []


def test_a_universe_that_was_trained_on_is_said_and_those_that_were_not_are_named(tmp_path, caplog):
    for number in range(10):
        volumes.save(volume(8, [0.0, 1.5]), tmp_path / f"{number}.h5")
    run = Run(data=Universes(source=tmp_path, held_out=0.2, calibration=0.2), model=CosmoFlow(), loss=MSE(), steps=1)
    none, nowhere = np.zeros(2, dtype=np.float32), np.zeros(2)
    network = Summaries(
        names=("a",),
        run=run,
        models=(),
        mean=none,
        std=none,
        target_mean=nowhere,
        target_std=nowhere,
        sources=(Path("r"),),
    )
    network.warn_of_learnt([tmp_path / "9.h5", tmp_path / "7.h5"])
    assert not caplog.records
    network.warn_of_learnt([tmp_path / "9.h5", tmp_path / "0.h5"])
    assert f"trained on it is too sure of itself: {tmp_path / '0.h5'}; held out" in caplog.text
    assert f"{tmp_path / '8.h5'} to {tmp_path / '9.h5'}" in caplog.text
    for path in tmp_path.iterdir():
        path.unlink()
    caplog.clear()
    network.warn_of_learnt([tmp_path / "0.h5"])
    assert not caplog.records
