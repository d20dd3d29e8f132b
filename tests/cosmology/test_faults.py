from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from climlab_dl.cosmology import faults
from climlab_dl.cosmology.volumes import Volume

FIRST = Volume(
    counts=np.ones((6, 6, 6, 2), dtype=np.int16),
    source=Path("a.h5"),
    names=("Omega_m", "H_0"),
    physical=np.array([0.3, 70.0]),
    redshifts=np.array([0.0, 1.5]),
    box_size_mpc_h=128.0,
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"counts": np.ones((8, 8, 8, 2))},
            "a volume (8, 8, 8, 2); expected (6, 6, 6, 2), as in a.h5: learn from each",
        ),
        (
            {"box_size_mpc_h": 256.0},
            "a box of 256 Mpc/h; expected 128, as in a.h5: learn from each kind in a folder of",
        ),
        (
            {"periodic": False},
            "periodic = False; expected True, as in a.h5: learn from each kind in a folder of its own",
        ),
        ({"redshifts": np.array([1.5, 0.0])}, "redshifts 1.5, 0; expected 0, 1.5, as in a.h5: to take them by their"),
        ({"redshifts": np.array([2.0, 3.0])}, "redshifts 2, 3; expected 0, 1.5, as in a.h5: learn from each kind in a"),
        ({"names": ("H_0", "Omega_m")}, "parameters H_0, Omega_m; expected Omega_m, H_0, as in a.h5: to take them by"),
        ({"names": ("Omega_m", "n_s")}, "parameters Omega_m, n_s; expected Omega_m, H_0, as in a.h5: to take them by"),
        (
            {"names": ()},
            "parameters without names; expected Omega_m, H_0, as in a.h5: learn from each kind in a folder",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_volumes_of_two_kinds_are_told_apart_by_what_their_files_tell(change, said):
    (difference,) = faults.between(replace(FIRST, source=Path("b.h5"), **change), FIRST)
    assert difference.startswith(said)


def test_what_one_of_two_files_does_not_tell_is_no_difference():
    assert list(faults.between(replace(FIRST, redshifts=None, box_size_mpc_h=None), FIRST)) == []
    assert list(faults.between(FIRST, replace(FIRST, redshifts=None, box_size_mpc_h=None))) == []


def test_parameters_that_are_chosen_by_name_may_lie_anywhere():
    other = replace(FIRST, names=("H_0", "n_s", "Omega_m"), physical=np.array([70.0, 0.96, 0.3]))
    assert list(faults.between(other, FIRST, ("Omega_m", "H_0"))) == []
    (difference,) = faults.between(other, FIRST, ("sigma_8",))
    assert "expected sigma_8" in difference


def test_boxes_that_are_one_size_in_mpc_are_one_kind():
    # As simulate.mlperf makes them: 128 Mpc/h at h = 0.7, cut to whole Mpc/h: int(128 * 0.63 / 0.7) = 115.
    slow = replace(FIRST, physical=np.array([0.3, 63.0]), box_size_mpc_h=115.0)
    assert list(faults.between(slow, FIRST)) == []
    assert len(list(faults.between(replace(slow, box_size_mpc_h=140.0), FIRST))) == 1


def test_an_outline_tells_all_but_the_counts_and_takes_no_memory():
    outline = faults.outline(FIRST)
    assert outline.counts.shape == FIRST.counts.shape
    assert outline.counts.strides == (0, 0, 0, 0)
    assert list(faults.between(outline, FIRST)) == []


UNIT = np.random.default_rng(0).uniform(-1, 1, (8, 2))
PHYSICAL = np.array([0.3, 70.0]) + np.array([0.1, 7.0]) * UNIT


def test_scaled_and_physical_parameters_lie_on_a_line_also_where_they_are_rounded():
    assert faults.of_relation(UNIT, PHYSICAL) == ""
    assert faults.of_relation(UNIT, np.stack([PHYSICAL[:, 0].round(3), PHYSICAL[:, 1].round(1)], axis=1)) == ""
    assert faults.of_relation(UNIT[:2], PHYSICAL[:2, ::-1]) == ""  # through two points there is always one
    same = np.stack([UNIT[:, 0], np.zeros(8)], axis=1)
    assert faults.of_relation(same, np.array([0.3, 70.0]) + np.array([0.1, 7.0]) * same) == ""


def test_a_swapped_order_is_named_and_other_relations_are_not_guessed():
    swapped = faults.of_relation(UNIT[:, ::-1], PHYSICAL, FIRST.names)
    assert "not on a straight line for Omega_m, H_0" in swapped
    assert (
        "unitPar's order is another (H_0 for Omega_m, Omega_m for H_0): write both in the order of namePar" in swapped
    )
    partly = np.concatenate([UNIT[:4, ::-1], UNIT[4:]])
    priors = PHYSICAL + np.array([[0.1, 0.0]]) * (np.arange(8) > 3)[:, None]
    for unit, physical, which in ((partly, PHYSICAL, "Omega_m, H_0"), (UNIT, priors, "Omega_m")):
        fault = faults.of_relation(unit, physical, FIRST.names)
        assert f"line for {which}: some of these files have them in another order, or were made with different" in fault


@pytest.mark.parametrize("wrong", [0.9, 40.0], ids=["another prior", "physical ones"])
def test_the_file_that_is_off_the_line_is_named(wrong):
    # One far from all the others draws the line to itself, so that others are further off the line through all.
    unit, sources = UNIT.copy(), [Path(f"{number}.h5") for number in range(8)]
    unit[5, 0] = wrong
    assert "some of these files (most of all 5.h5) have" in faults.of_relation(unit, PHYSICAL, FIRST.names, sources)


def test_scaled_parameters_that_fall_as_the_physical_ones_grow_are_named():
    fault = faults.of_relation(UNIT * [1, -1], PHYSICAL, FIRST.names)
    assert fault.startswith("unitPar falls as physPar grows for H_0; expected -1 at the prior's low end")


def test_mean_counts_far_apart_are_named_with_both_files():
    sources = [Path(f"{number}.h5") for number in range(4)]
    # Of one redshift, and what is empty is a fault by itself.
    means = np.array([[1.0, 2.0], [90.0, 2.0], [3.0, 150.0], [2.0, 0.0]])
    assert faults.of_means(sources, means, FIRST.redshifts) == ""
    apart = faults.of_means(sources, means * [2, 1] - [1.5, 0], FIRST.redshifts)
    assert apart.startswith(
        "1.h5 has a mean count of 178 at z = 0, 0.h5 of 0.5, which is apart by more than a factor of 100: write all as"
    )
    means[2, 1] = 300
    assert "2.h5 has a mean count of 300 at redshift 1, 0.h5 of 2, " in faults.of_means(sources, means, None)
