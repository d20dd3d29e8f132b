from math import nan

import pytest

from climlab_dl.training.schedules import Constant, Cosine, Multistep, Polynomial, Warmup


def factors(schedule, steps: int = 10, steps_per_epoch: int = 5) -> list[float]:
    return [schedule.factor(step, steps, steps_per_epoch) for step in range(steps)]


def test_a_linear_decay_reaches_its_end_after_the_last_step():
    assert factors(Polynomial(), 4) == [1.0, 0.75, 0.5, 0.25]
    assert Polynomial(end=0.05).factor(4, 4, 1) == pytest.approx(0.05)


def test_a_power_bends_the_decay():
    assert Polynomial(power=2).factor(5, 10, 1) == pytest.approx(0.25)


def test_a_staircase_changes_once_an_epoch():
    assert factors(Polynomial(staircase=True)) == [1.0] * 5 + [0.5] * 5


def test_a_cosine_is_half_way_at_half_time():
    assert Cosine().factor(5, 10, 1) == pytest.approx(0.5)
    assert Cosine(end=0.2).factor(10, 10, 1) == pytest.approx(0.2)


def test_milestones_count_steps_or_epochs_done():
    assert factors(Multistep(milestones=(2, 4), decay=0.5), 6) == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    # MLPerf CosmoFlow's factors take effect after the epoch that they name.
    assert factors(Multistep(milestones=(1,), decay=0.25, unit="epoch")) == [1.0] * 5 + [0.25] * 5


def test_warm_up_rises_to_one_and_hands_over_at_step_zero_of_what_follows():
    warm = Warmup(steps=4, then=Polynomial())
    assert factors(warm, 8)[:4] == [0.25, 0.5, 0.75, 1.0]
    assert factors(warm, 8)[4:] == factors(Polynomial(), 4)
    assert Warmup(steps=2, start=0.5).factor(0, 10, 1) == 0.75
    assert factors(Warmup(steps=0), 3) == factors(Constant(), 3) == [1.0] * 3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Polynomial(power=0), "power=0"),
        (lambda: Polynomial(end=nan), "end=nan"),
        (lambda: Cosine(end=-0.1), "end=-0.1"),
        (lambda: Multistep(milestones=(0, 2)), r"milestones=\(0, 2\)"),
        (lambda: Multistep(milestones=(2,), decay=0), "decay=0"),
        (lambda: Multistep(milestones=(2,), decay=nan), "decay=nan"),
        (lambda: Multistep(milestones=(4, 2)), "milestones"),
        (lambda: Multistep(milestones=(2,), unit="hour"), "unit='hour'"),  # pyright: ignore[reportArgumentType]
        (lambda: Warmup(steps=-1), "steps=-1"),
        (lambda: Warmup(steps=1, start=2), "start=2"),
    ],
)
def test_an_impossible_schedule_is_refused_by_name(make, says):
    with pytest.raises(ValueError, match=says):
        make()
