import pytest

from climlab_dl.training.parts import check_shares, split


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
