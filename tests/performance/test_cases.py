"""Every case runs, at the size of a toy, and what it says of a sample agrees with an independent count."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.parallel.cluster.processes import mpiexec
from climlab_dl.performance.alone import measure_alone
from climlab_dl.performance.cases import CASES, GROUPS, named
from climlab_dl.performance.flops import count
from climlab_dl.performance.measure import measure
from climlab_dl.performance.steps import PUBLISHED, updates

# Ranks have their turn below.
LARGE = ("step deeplab", "step deepcam", "step cosmoflow", "detect deepcam")
HERE = [
    pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name
    for name in CASES
    if name.split()[0] != "allreduce"
]

# The layers of the small networks and of CosmoFlow that look at the samples themselves.
FIRST = ("stem.conv", "encoder.root", "decoder.head.input.0.conv", "convolutions.0.conv")


def bytes_read() -> int:
    """What this process has asked the system to read so far (Linux)."""
    return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])


@pytest.mark.parametrize("name", HERE)
def test_a_case_is_measured(name, tmp_path):
    torch.manual_seed(0)
    case = CASES[name]("toy", tmp_path)
    found = measure(name, case.work, rounds=1, ceilings=case.ceilings, notes=case.notes)
    assert found.samples == case.work.samples
    assert found.cpu > 0
    assert found.flops_per_second or found.bytes_per_second
    assert set(found.of_ceilings) == set(case.ceilings)
    assert all(share.median > 0 for share in found.of_ceilings.values())


@pytest.mark.parametrize(
    ("description", "shape", "first"),
    [
        (Tiramisu.small(padding="zeros"), (2, 4, 32, 48), 1),
        (DeepLab.small(padding="zeros"), (2, 4, 32, 48), 2),  # its decoder looks at the samples once more
        (replace(CosmoFlow.mlperf(), size=32), (2, 4, 32, 32, 32), 1),
    ],
)
def test_a_step_is_three_forward_passes_less_a_gradient_that_nobody_needs(description, shape, first):
    # By the papers' rule the gradients by input and by kernel cost a forward pass each. torch counts what was done, and
    # no gradient by the samples themselves was: the forward passes of layers that look at them count twice, not three
    # times. Where longitude wraps, the conventions part: transposed convolutions also compute columns that are cut off.
    torch.manual_seed(0)
    network, published = description.build(4, 3), PUBLISHED["deepcam" if len(shape) == 4 else "cosmoflow"]
    values, target = replace(published, channels=4).batch(2, torch.device("cpu"), shape[2:])
    update, flops = updates(network, published.cost(values.device)), count(network, shape)
    with FlopCounterMode(display=False) as counter:
        update(values, target)
    looking = [layer for layer in flops.layers if layer.name in FIRST]
    assert len(looking) == first
    assert counter.get_total_flops() == flops.training - sum(layer.flops for layer in looking)


def test_a_case_counts_its_networks_arithmetic(tmp_path):
    case = CASES["step cosmoflow_mlperf"]("toy", tmp_path)
    network = replace(CosmoFlow.mlperf(), size=32).build(4, 4)
    assert case.work.flops == count(network, (1, 4, 32, 32, 32)).training


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="only Linux counts what a process reads")
@pytest.mark.parametrize("name", ["input deepcam", "input netcdf", "input tfrecord", "input tfrecord_gzip"])
def test_as_many_bytes_are_read_as_the_samples_files_hold(name, tmp_path):
    # Of the NetCDF file four of sixteen fields and the mask are wanted, of the others all.
    case = CASES[name]("toy", tmp_path)
    if name != "input netcdf":
        assert case.work.bytes in {path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    before = bytes_read()
    case.work.call()
    read = bytes_read() - before
    expected = case.work.samples * case.work.bytes
    headers = 2**15  # of the file, which tell where the fields lie; they weigh so much at toy size only
    assert 0.9 * expected < read < 1.1 * expected + headers


def test_a_staged_sample_is_what_lies_on_the_nodes_disk(tmp_path):
    case = CASES["input staged"]("toy", tmp_path)
    [samples] = tmp_path.rglob("samples")  # of one: the other snapshot is held out
    assert case.work.bytes == samples.stat().st_size


@pytest.mark.mpi
@pytest.mark.parametrize("name", ["allreduce flat", "allreduce fp16"])
def test_ranks_exchange_a_whole_gradient(name):
    found = measure_alone(name, "toy", 1, launcher=(mpiexec(), "-n", "2"))
    # DeepLab.small() has as many parameters, of four bytes each.
    parameters = sum(weights.numel() for weights in DeepLab.small().build(16, 3).parameters())
    assert found.notes == {"ranks": 2, "gradient_bytes": 4 * parameters}
    assert found.bytes_per_second == pytest.approx(4 * parameters / found.wall)


def test_a_case_that_fails_says_what_it_said():
    with pytest.raises(RuntimeError, match=r"'nothing' ended with exit code 1:(.|\n)*KeyError: 'nothing'"):
        measure_alone("nothing", "toy", 1)


def test_groups_name_their_cases():
    assert [name for group in GROUPS for name in named(group)] == named("all") == list(CASES)
    assert named("step tiramisu") == ["step tiramisu"]
    with pytest.raises(ValueError, match="there is no case 'stpe' to measure; there are ceiling, step"):
        named("stpe")
    with pytest.raises(ValueError, match=r"no case 'step nonsense' to measure; there are step \w+(, step \w+)+$"):
        named("step nonsense")
