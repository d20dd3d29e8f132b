"""The command line on two ranks learns from real CosmoFlow records and from a circulation model's weather."""

import sys
from pathlib import Path

import pytest

from climlab_dl.climate import archive, heuristics
from climlab_dl.cosmology import tfrecord, volumes
from climlab_dl.training.folder import RunFolder

PROGRAM = Path(sys.executable).with_name("climlab-dl")
pytestmark = [pytest.mark.mpi, pytest.mark.slow]


def test_two_universes_of_mlperf_are_told_apart_where_the_network_has_not_looked(shared, mpiexec, tmp_path):
    # Two records fix no cosmology, but they differ in all four parameters. Cut into 64 cubes each and split by place,
    # the last quarter of both boxes is held out; the targets are -1 to 1, which is all that the records tell.
    (tmp_path / "cubes").mkdir()
    for which, path in enumerate(volumes.files(shared / "cosmology" / "*.tfrecord")):
        for place, cube in enumerate(next(volumes.read(path)).subvolumes(32)):
            tfrecord.write([cube], tmp_path / "cubes" / f"cube_{place:02d}_{which}.tfrecord")
    run = ("train", str(tmp_path / "cubes"), "--folder", str(tmp_path / "run"), "small-cosmoflow")
    length = ("--steps", "90", "--batch-size", "4", "--evaluate-every", "90")
    split = ("--data.targets", "unit", "--data.held-out", "0.25", "--data.calibration", "0")
    assert "step 90 of 90" in mpiexec(2, PROGRAM, *run, *length, *split)
    scores = RunFolder(tmp_path / "run").progress().iloc[-1]
    assert scores.baseline_mae_mean == pytest.approx(0.386, abs=0.001)  # the middle of the prior: mean |y| of both
    # Whoever always says what lies between the two is off by half their distance, 0.296 in the mean.
    assert scores.mae_mean < 0.5 * 0.296


def test_cyclones_and_rivers_of_model_weather_are_learnt(shared, mpiexec, tmp_path):
    # Three files of five days each, twenty days apart; the last is held out.
    fields = archive.open(sorted((shared / "climate" / "gcm").glob("*.nc"))[::4]).load()
    archive.save(fields.assign(mask=heuristics.label(fields)), tmp_path / "labelled.nc")
    run = ("train", str(tmp_path / "labelled.nc"), "--folder", str(tmp_path / "run"), "small-deeplab")
    mpiexec(2, PROGRAM, *run, "--steps", "120", "--evaluate-every", "120", "--report-every", "60")
    scores = RunFolder(tmp_path / "run").progress().iloc[-1]
    assert scores.baseline_iou_mean == pytest.approx(0.331, abs=0.001)  # all background
    # After so few steps little more than that there are rivers, 0.018 to 0.038 with other seeds and a few steps more;
    # what half an hour teaches is in benchmarks/small_networks.md.
    assert scores.iou_river > 0.015
    assert scores.iou_mean > 0.334
