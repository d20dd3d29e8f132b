"""Volumes are compared with what a checkpoint knows of its training."""

from pathlib import Path

import numpy as np

from climlab_dl.cosmology.volumes import Volume
from climlab_dl.inference.likeness import Training

FACTS = {
    "redshifts": [0.0, 1.5], "box_size_mpc_h": 128.0, "lowest_mean_count": [8.0, 8.0], "highest_mean_count": [8.0, 9.0],
}  # fmt: skip


def volume(mean: int, redshifts: list[float], box: float | None = 128.0) -> Volume:
    counts = np.full((4, 4, 4, len(redshifts)), mean) + np.arange(len(redshifts))
    return Volume(counts=counts, source=Path("made.h5"), redshifts=np.array(redshifts), box_size_mpc_h=box)


def said(seen: Volume, facts: dict | None = None) -> list[str]:
    training = Training.of(FACTS if facts is None else facts)
    return list(training.differences(seen, training.ordered(seen)))


def test_a_volume_like_those_of_the_training_is_passed_on_in_silence():
    seen = volume(8, [0.0, 1.5])
    assert Training.of(FACTS).ordered(seen) is seen
    assert said(seen) == []
    assert said(volume(8, [0.0, 1.5], box=None)) == []


def test_redshifts_are_taken_by_their_value_and_the_other_order_is_said():
    seen = volume(8, [1.5, 0.0])
    ordered = Training.of(FACTS).ordered(seen)
    assert ordered.redshifts is not None
    assert ordered.redshifts.tolist() == [0.0, 1.5]
    assert ordered.counts[0, 0, 0].tolist() == [9, 8]
    assert said(seen) == ["redshifts 1.5, 0, which are taken in the order of the training, 0, 1.5"]


def test_another_box_and_mean_count_are_said_with_what_was_expected():
    assert said(volume(8, [0.0, 1.5], box=1000.0)) == ["a box of 1000 Mpc/h, where the training's were 128"]
    assert said(volume(400, [0.0, 1.5])) == ["400 particles per cell on average, where the training's had 8"]


def test_of_an_older_checkpoint_nothing_is_known():
    assert said(volume(400, [1.5, 0.0], box=1000.0), {"channels": ["z=0", "z=1.5"]}) == []
