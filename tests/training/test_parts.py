import numpy as np
import pytest

from climlab_dl.training.parts import check_shares, refuse_apart, same_samples, split


def test_the_last_share_of_the_times_is_held_out():
    assert split(60, 1 / 3, what="snapshot") == [range(40), range(40, 60)]
    assert split(10, 0.2, 0.1, what="universe") == [range(7), range(7, 9), range(9, 10)]


def test_shares_that_leave_nothing_are_refused():
    # Of a tenth, 0.6 of a sample is one: Python rounds half a sample to none.
    with pytest.raises(ValueError, match="2 snapshots are too few to hold out 10%: give 6 or more"):
        split(2, 0.1, what="snapshot")
    assert split(6, 0.1, what="snapshot") == [range(5), range(5, 6)]
    with pytest.raises(ValueError, match="1 universe is too few to hold out 25% and 20%: give 3 or more"):
        split(1, 0.25, 0.2, what="universe")
    with pytest.raises(ValueError, match="1 universe is too few to hold out 20%: give 3 or more"):
        split(1, 0.0, 0.2, what="universe")
    with pytest.raises(ValueError, match="2 snapshots are too few to hold out 99%: give 51 or more"):
        split(2, 0.99, what="snapshot")
    with pytest.raises(ValueError, match="held_out=0: a training is measured"):
        check_shares(held_out=0, calibration=0.2)
    with pytest.raises(ValueError, match="held_out=1"):
        check_shares(held_out=1)
    with pytest.raises(ValueError, match=r"held_out \+ calibration = 1\.2"):
        check_shares(held_out=0.6, calibration=0.6)


def test_parts_whose_parameters_lie_apart_are_refused_and_those_of_chance_are_not():
    random = np.random.default_rng(0)
    values = random.uniform(size=(98, 2))
    ordered = values[np.argsort(values[:, 1])]
    refuse_apart(values[:70], values[70:], ("Omega_m", "sigma_8"))
    with pytest.raises(ValueError, match=r"sigma_8 is .* names are in its order.*Universes\(shuffle=True\)"):
        refuse_apart(ordered[:70], ordered[70:], ("Omega_m", "sigma_8"))


def test_what_lies_between_the_ends_counts_when_samples_are_compared():
    def told(names):
        return same_samples(None, "cam5", names.__getitem__, training=range(3))

    known = {"samples": told(["a", "b", "c"])}
    assert same_samples(known, "cam5", ["a", "b", "c"].__getitem__, training=range(3)) == known["samples"]
    with pytest.raises(ValueError, match="cam5 has not the samples"):
        same_samples(known, "cam5", ["a", "x", "c"].__getitem__, training=range(3))
