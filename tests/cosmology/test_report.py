import json
from pathlib import Path

import h5py
import numpy as np

from climlab_dl.cosmology import checks, report, volumes
from climlab_dl.cosmology.report import Seen
from climlab_dl.cosmology.volumes import Volume


def seen(**changes) -> Seen:
    """One particle in each cell at redshift 0, two in a quarter of the cells at 1.5, unless told otherwise."""
    counts = np.ones((4, 4, 4, 2), dtype=np.int16)
    counts[..., 1] = 0
    counts[0, :, :, 1] = 2
    facts = {"names": ("Omega_m", "n_s"), "physical": np.array([0.3, 0.96]), "redshifts": np.array([0.0, 1.5])}
    return Seen.of(Volume(**{"counts": counts, "source": Path("a"), "box_size_mpc_h": 64.0, **facts, **changes}))


def test_many_volumes_are_a_few_lines_from_lowest_to_highest():
    lines = report.summary([seen(), seen(physical=np.array([0.5, 0.96]))])
    assert lines == (
        "counts           (4, 4, 4, 2) int16",
        "redshifts        0 1.5",
        "box              64 Mpc/h, periodic",
        "mean count       1, 0.5",
        "empty cells      0%, 75%",
        "largest count    1, 2",
        "parameters       Omega_m 0.3 to 0.5, n_s 0.96",
        "not told         prior (unitPar)",
    )
    assert report.summary([]) == ()


def test_what_is_of_several_kinds_is_counted():
    lines = report.summary([seen(), seen(), seen(box_size_mpc_h=128.0, redshifts=None)])
    assert "redshifts        0 1.5 (2), not told (1)" in lines
    assert "box              64 Mpc/h, periodic (2), 128 Mpc/h, periodic (1)" in lines
    assert lines[-1] == "not told         prior (unitPar), redshifts of 1"


def test_what_a_file_does_not_tell_is_said(tmp_path):
    with h5py.File(tmp_path / "crop.h5", "w") as file:
        file["x"], file["y"] = np.ones((4, 4, 4)), [0.31, 0.82]
    lines = checks.check(tmp_path / "crop.h5").lines
    assert lines[-2] == "scaled to -1..1  parameter 0 0.31, parameter 1 0.82"
    assert lines[-1] == "not told         names (namePar), parameters (physPar), box (box_size_mpc_h), redshifts"


def test_a_report_is_plain_in_json(tmp_path):
    volumes.save(Volume(counts=np.ones((4, 4, 4, 1)), source=tmp_path), tmp_path / "a.h5")
    found = checks.check(tmp_path).to_dict()
    assert set(found) == {"lines", "problems", "ok"}
    assert json.loads(json.dumps(found)) == found


def test_problems_alike_but_for_file_and_numbers_are_told_once():
    a, b, c = (Path(f"folder_{number}/x") for number in range(3))
    told = report.each_once([(a, f"{a}: down to -5"), (b, f"{b}: is empty"), (c, f"{c}: down to -1.5e-07")])
    assert told == ("folder_0/x: down to -5 (and 1 more)", "folder_1/x: is empty")
