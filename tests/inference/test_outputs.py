"""One output for each input: made once, made again only for other weights, the same byte by byte."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from climlab_dl import archive, synthetic
from climlab_dl.climate.fields import CLASSES
from climlab_dl.inference import outputs
from climlab_dl.inference.detect import detect
from climlab_dl.inference.detector import Detector
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.training import checkpoint
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.run import Run


def saved_network(path, seed):
    torch.manual_seed(seed)
    data = ClimateArchive(source="sample", channels=("TMQ", "PSL"))
    run = Run(data=data, model=DeepLab.small(), loss=WeightedCrossEntropy(), steps=1)
    network = run.model.build(2, len(CLASSES)).eval()
    facts = {"channels": ["TMQ", "PSL"], "classes": list(CLASSES)}
    facts |= {"mean": torch.tensor([20.0, 101000.0]), "std": torch.tensor([10.0, 1000.0])}
    checkpoint.save(path, {"run": run.to_json(), "model": network.state_dict(), "statistics": facts, "step": seed})
    return path


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return saved_network(tmp_path_factory.mktemp("weights") / "one.pt", 1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    fields = synthetic.atmosphere(times=4, shape=(32, 64), seed=0)[["TMQ", "PSL"]]
    return [archive.save(fields.isel(time=slice(k, k + 2)), folder / f"day{k}.nc") for k in (0, 2)]


def test_each_output_holds_what_detection_finds(weights, files, tmp_path):
    made = outputs.settle(outputs.share(files, outputs.into(tmp_path, weights)))
    assert [path.name for path in made] == ["day0.nc", "day2.nc"]
    for path, source in zip(made, files, strict=True):
        expected = detect(Detector.load(weights), archive.open(source)).mask
        with xr.open_dataset(path) as found:
            assert found.mask.dtype == np.int8
            assert (found.mask == expected).all()
            assert Detector.load(weights).networks[0].sha256 in found.attrs["history"]
            assert "probabilities" not in found


def test_what_is_done_is_not_done_again_and_redone_is_the_same_byte_by_byte(weights, files, tmp_path):
    make = outputs.into(tmp_path, weights, probabilities="packed")
    path = make(files[0])
    first, when = path.read_bytes(), path.stat().st_mtime_ns
    assert make(files[0]).stat().st_mtime_ns == when
    path.unlink()
    assert not make.done(files[0])
    assert make(files[0]).read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_other_weights_or_options_make_it_again(weights, files, tmp_path):
    outputs.into(tmp_path, weights)(files[0])
    other = saved_network(tmp_path / "two.pt", 2)
    assert not outputs.into(tmp_path, other).done(files[0])
    assert not outputs.into(tmp_path, weights, probabilities="packed").done(files[0])
    outputs.into(tmp_path, other)(files[0])
    assert outputs.into(tmp_path, other).done(files[0])


def test_an_input_that_changed_or_an_output_that_is_damaged_is_made_again(weights, files, tmp_path):
    source = tmp_path / "day.nc"
    source.write_bytes(files[0].read_bytes())
    make = outputs.into(tmp_path / "out", weights)
    path = make(source)
    first, when = path.read_bytes(), path.stat().st_mtime_ns
    os.utime(source, ns=(when + 1, when + 1))
    assert not make.done(source)
    os.utime(source, ns=(when - 1, when - 1))
    assert make.done(source)
    path.write_bytes(first[: len(first) // 2])
    assert not make.done(source)
    assert make(source).read_bytes() == first


def test_a_bad_input_does_not_keep_the_others_waiting_and_is_named_at_the_end(weights, files, tmp_path):
    bad = tmp_path / "bad.nc"
    bad.write_bytes(files[0].read_bytes()[:1000])
    dry = archive.save(archive.open(files[0])[["PSL"]], tmp_path / "dry.nc")
    make = outputs.into(tmp_path / "out", weights)
    made = list(outputs.share([bad, files[0], dry, files[1]], make))
    assert [bool(one.error) for one in made] == [True, False, True, False]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["day0.nc", "day2.nc"]
    with pytest.raises(RuntimeError, match=r"(?s)2 of 4 files failed:.*bad\.nc: .*dry\.nc: .*no field 'TMQ'"):
        outputs.settle(made)


def test_a_reason_that_many_inputs_share_is_told_once(weights, files, tmp_path):
    dry = [archive.save(archive.open(files[0])[["PSL"]], tmp_path / f"dry{k}.nc") for k in range(3)]
    bad = tmp_path / "bad.nc"
    bad.write_bytes(files[0].read_bytes()[:1000])
    with pytest.raises(RuntimeError) as failure:
        outputs.settle(outputs.share([dry[0], bad, *dry[1:]], outputs.into(tmp_path / "out", weights)))
    first, shared, alone = str(failure.value).split("\n  ")
    assert first == "4 of 4 files failed:"
    assert shared.startswith("3 files: The archive has no field 'TMQ'")
    assert shared.endswith(f"; first: {dry[0]}")
    assert alone.startswith(f"{bad}: ")


def test_more_reasons_than_a_page_holds_are_counted(tmp_path):
    made = [
        outputs.Made(source=tmp_path / f"{k}.nc", path=tmp_path, error=f"reason {k}") for k in range(outputs.NAMED + 2)
    ]
    with pytest.raises(RuntimeError, match=r"reason 19\n  and 2 more reasons$"):
        outputs.settle(made)


def test_each_snapshot_advances_the_progress_by_its_share_of_the_file(weights, files, tmp_path):
    shares: list[float] = []
    list(outputs.share(files, outputs.into(tmp_path, weights), progress=shares.append))
    assert shares == [0.5, 0.5, 0.5, 0.5]


def test_uncertainty_is_written_and_packed_where_probabilities_are(weights, files, tmp_path):
    path = outputs.into(tmp_path, weights, probabilities="packed", uncertainty=True)(files[0])
    expected = detect(Detector.load(weights), archive.open(files[0]), uncertainty=True).entropy
    with xr.open_dataset(path) as found:
        assert found.entropy.encoding["dtype"] == np.int8
        assert float(abs(found.entropy - expected).max()) <= np.log(3) / 2 / 254 + 1e-6
    assert not outputs.into(tmp_path, weights, probabilities="packed").done(files[0])


def test_packed_probabilities_err_by_at_most_half_a_step(weights, files, tmp_path):
    path = outputs.into(tmp_path, weights, probabilities="packed")(files[0])
    expected = detect(Detector.load(weights), archive.open(files[0])).probabilities
    with xr.open_dataset(path) as found:
        assert found.probabilities.encoding["dtype"] == np.int8
        assert float(abs(found.probabilities - expected).max()) <= 0.5 / 254 + 1e-6


def test_ranks_share_the_inputs_without_overlap(weights, files, tmp_path):
    make = outputs.into(tmp_path, weights)
    shares = [outputs.settle(outputs.share(files, make, rank, 2)) for rank in range(2)]
    assert [[path.name for path in share] for share in shares] == [["day0.nc"], ["day2.nc"]]


def test_it_travels_to_another_process_as_its_checkpoints_path(weights, files, tmp_path):
    make = outputs.into(tmp_path, weights)
    assert len(pickle.dumps(make)) < 1000
    there = pickle.loads(pickle.dumps(make)).detector
    assert there.networks[0] is make.detector.networks[0]


@pytest.mark.slow
def test_a_job_that_was_killed_goes_on_where_it_was(weights, files, tmp_path):
    script = (
        "import os, sys\nfrom climlab_dl.inference import netcdf, outputs\n"
        "make = outputs.into(sys.argv[1], sys.argv[2])\nmake(sys.argv[3])\n"
        "def half(*_, **__):\n    os.kill(os.getpid(), 9)\n"
        "netcdf._ahead = half\nmake(sys.argv[4])\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), str(weights), *map(str, files)]
    assert subprocess.run(command, check=False).returncode == -9
    make = outputs.into(tmp_path, weights)
    assert [make.done(source) for source in files] == [True, False]
    when = make.path(files[0]).stat().st_mtime_ns
    outputs.settle(outputs.share(files, make))
    assert [make.done(source) for source in files] == [True, True]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["day0.nc", "day2.nc"]
    assert make.path(files[0]).stat().st_mtime_ns == when


def test_what_cannot_be_is_refused(weights, files, tmp_path):
    with pytest.raises(ValueError, match="probabilities is 'some'"):
        outputs.into(tmp_path, weights, probabilities="some")
    with pytest.raises(ValueError, match="take the place of"):
        outputs.into(files[0].parent, weights)(files[0])
    twice = [Path("a/day.nc"), Path("b/day.nc")]
    with pytest.raises(ValueError, match=r"several inputs.*day\.nc"):
        list(outputs.share(twice, outputs.into(tmp_path, weights)))


@pytest.mark.mpi
@pytest.mark.slow
def test_two_ranks_make_what_one_process_makes_byte_by_byte(weights, files, tmp_path, mpiexec):
    made = outputs.settle(outputs.share(files, outputs.into(tmp_path / "alone", weights)))
    alone = [path.read_bytes() for path in made]
    script = Path(__file__).parents[1] / "mpi" / "share_detections.py"
    said = mpiexec(2, script, str(weights), str(tmp_path / "both"), *map(str, files))
    assert sorted(said.split("\n")[:2]) == ["0 day0.nc", "1 day2.nc"]
    assert [(tmp_path / "both" / path.with_suffix(".nc").name).read_bytes() for path in files] == alone
