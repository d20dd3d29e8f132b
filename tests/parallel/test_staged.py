import numpy as np
import pytest

from climlab_dl.parallel.staged import Plan, checksum

PLAN = Plan(source="numbers", count=6, shape=(2, 3, 4), target_shape=(3, 4), target_dtype="int64")


def test_a_share_of_the_samples_is_drawn_by_seed_and_node():
    plan = Plan(source="x", count=100, shape=(1,), target_shape=(), target_dtype="int8", share=0.25, seed=1)
    first, second = plan.held_by(0), plan.held_by(1)
    assert len(first) == len(set(first.tolist())) == 25
    assert first.tolist() == plan.held_by(0).tolist() != second.tolist()


def test_no_sample_has_the_checksum_that_means_nothing_is_there():
    assert checksum(np.zeros(0, dtype=np.uint8)) == 1
    assert checksum(np.frombuffer(b"123456789", dtype=np.uint8)) == 0xCBF43926  # CRC-32's check value


def test_an_impossible_plan_is_refused_by_name():
    for changes, says in (({"share": 0}, "share=0"), ({"dtype": "int8"}, "dtype='int8'")):
        with pytest.raises(ValueError, match=says):
            Plan(**{**PLAN.__dict__, **changes})
