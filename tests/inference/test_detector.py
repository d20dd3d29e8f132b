"""Several opinions: averaged probabilities, and how far ensembles and passes with dropout agree."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from climlab_dl import synthetic
from climlab_dl.climate.fields import CLASSES
from climlab_dl.inference.detect import Detector, detect, provenance
from climlab_dl.inference.network import Network
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.training import checkpoint
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.run import Run

CHANNELS = ("TMQ", "PSL")
DROPPING = Tiramisu(blocks=(1, 1), growth=4, kernel=3, stem=4, dropout=0.5, norm="batch")


class Says(nn.Module):
    """The same probabilities at every pixel, whatever the fields."""

    def __init__(self, *probabilities: float):
        super().__init__()
        self.logits = torch.log(torch.tensor(probabilities))

    def forward(self, fields):
        return self.logits[None, :, None, None].expand(len(fields), -1, *fields.shape[2:])


def network(model, **changes):
    facts = {"mean": np.array([20, 101000], np.float32), "std": np.array([10, 1000], np.float32)}
    return Network(model=model, **{"channels": CHANNELS, **facts, **changes})


def fields(times=1):
    return synthetic.atmosphere(times=times, shape=(24, 48), seed=0)


def test_an_ensemble_says_the_mean_of_its_networks():
    detector = Detector(networks=(network(Says(0.6, 0.1, 0.3)), network(Says(0.2, 0.7, 0.1))))
    found = detect(detector, fields()).isel(time=0, lat=3, lon=5)
    np.testing.assert_allclose(found.probabilities, [0.4, 0.4, 0.2], rtol=1e-6)


def test_networks_that_contradict_each_other_are_told_from_those_that_do_not_know():
    # Two certain networks that disagree: the mean (1/2, 1/2, 0) has entropy ln 2, each of them none, so all of it is
    # disagreement. Two that both know nothing: entropy ln 3, and no disagreement.
    certain = Detector(networks=(network(Says(1.0, 0.0, 0.0)), network(Says(0.0, 1.0, 0.0))))
    unsure = Detector(networks=(network(Says(1 / 3, 1 / 3, 1 / 3)),) * 2)
    for detector, entropy, disagreement in ((certain, np.log(2), np.log(2)), (unsure, np.log(3), 0.0)):
        found = detect(detector, fields(), uncertainty=True)
        np.testing.assert_allclose(found.entropy, entropy, rtol=1e-5)
        np.testing.assert_allclose(found.mutual_information, disagreement, atol=1e-5)
        assert found.entropy.dims == ("time", "lat", "lon")


def test_a_single_network_has_entropy_but_nobody_to_disagree_with():
    found = detect(Detector(networks=(network(Says(0.5, 0.5, 0.0)),)), fields(), uncertainty=True)
    np.testing.assert_allclose(found.entropy, np.log(2), rtol=1e-5)
    assert "mutual_information" not in found
    assert "entropy" not in detect(Detector(networks=(network(Says(0.5, 0.5, 0.0)),)), fields())


def test_uncertainty_is_unknown_where_the_fields_are():
    holed = fields()[list(CHANNELS)].load()
    holed["PSL"][0, 3, 4] = np.nan
    found = detect(Detector(networks=(network(Says(0.5, 0.5, 0.0)),) * 2), holed, uncertainty=True)
    assert np.isnan(found.entropy.values[0, 3, 4])
    assert np.isnan(found.mutual_information.values).sum() == 1


@pytest.fixture(scope="module")
def dropping():
    torch.manual_seed(0)
    return network(DROPPING.build(2, 3).eval(), stride=DROPPING.stride)


def test_passes_with_dropout_repeat_themselves_whatever_came_before(dropping):
    two = fields(times=2)
    forwards = detect(Detector(networks=(dropping,), dropout_passes=3, seed=5), two).probabilities
    backwards = detect(Detector(networks=(dropping,), dropout_passes=3, seed=5), two).probabilities
    second, first = backwards.isel(time=1).values, backwards.isel(time=0).values
    np.testing.assert_array_equal(forwards.values, [first, second])
    other = detect(Detector(networks=(dropping,), dropout_passes=3, seed=6), two).probabilities
    assert abs(other.values - forwards.values).max() > 1e-3


def test_the_mean_over_many_passes_has_the_expected_spread(dropping):
    # Means over 64 passes of two seeds differ by about sqrt(2 / 64) of a single pass's spread.
    few, one, other = (
        detect(Detector(networks=(dropping,), dropout_passes=n, seed=seed), fields()).probabilities.values
        for n, seed in ((2, 1), (64, 2), (64, 3))
    )
    assert abs(one - other).std() < 0.5 * abs(few - one).std()
    found = detect(Detector(networks=(dropping,), dropout_passes=4), fields(), uncertainty=True)
    assert (found.mutual_information >= 0).all()
    assert (found.mutual_information <= found.entropy).all()
    assert float(found.mutual_information.mean()) > 1e-4


def test_dropout_leaves_the_network_and_the_random_numbers_as_they_were(dropping):
    before = detect(Detector(networks=(dropping,)), fields()).probabilities.values
    state = torch.get_rng_state()
    detect(Detector(networks=(dropping,), dropout_passes=2), fields()).load()
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(layer.training for layer in dropping.model.modules())
    np.testing.assert_array_equal(detect(Detector(networks=(dropping,)), fields()).probabilities.values, before)


def test_passes_without_dropout_are_refused_naming_the_argument(dropping):
    with pytest.raises(ValueError, match=r"dropout_passes is 5, but the network has no dropout; .*several checkpoints"):
        Detector(networks=(network(DeepLab.small().build(2, 3).eval()),), dropout_passes=5)
    for passes in (1, -2):
        with pytest.raises(ValueError, match=f"dropout_passes is {passes}; give 2 or more"):
            Detector(networks=(dropping,), dropout_passes=passes)


def test_networks_that_do_not_go_together_are_refused():
    grid = np.linspace(-80, 80, 24), np.arange(48) * 7.5
    ours = network(Says(1.0, 0.0, 0.0), source="a.pt", grid=grid)
    with pytest.raises(ValueError, match=r"b\.pt has the channels PSL, TMQ, a\.pt has TMQ, PSL"):
        Detector(networks=(ours, network(Says(1.0, 0.0, 0.0), source="b.pt", channels=CHANNELS[::-1])))
    with pytest.raises(ValueError, match=r"b\.pt was trained on another grid than a\.pt"):
        Detector(networks=(ours, network(Says(1.0, 0.0, 0.0), source="b.pt", grid=(grid[0][1:], grid[1]))))
    with pytest.raises(ValueError, match="networks is empty"):
        Detector(networks=())


def saved(path, model, seed=0):
    """Save a checkpoint of a network that has learnt nothing."""
    torch.manual_seed(seed)
    run = Run(
        data=ClimateArchive(source="sample", channels=CHANNELS), model=model, loss=WeightedCrossEntropy(), steps=1
    )
    facts = {"channels": list(CHANNELS), "classes": list(CLASSES)}
    facts |= {"mean": torch.tensor([20.0, 101000.0]), "std": torch.tensor([10.0, 1000.0])}
    weights = model.build(2, 3).state_dict()
    checkpoint.save(path, {"run": run.to_json(), "model": weights, "statistics": facts, "step": seed})
    return path


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Checkpoints of two networks with dropout that differ in their seed."""
    folder = tmp_path_factory.mktemp("weights")
    return [saved(folder / f"{seed}.pt", DROPPING, seed) for seed in (1, 2)]


def test_checkpoints_make_an_ensemble_that_travels_and_says_what_it_is(checkpoints):
    alone = [detect(Detector.load(path), fields()).probabilities.values for path in checkpoints]
    both = Detector.load(*checkpoints)
    np.testing.assert_allclose(detect(both, fields()).probabilities, np.mean(alone, axis=0), atol=1e-6)
    passing = Detector.load(*checkpoints, dropout_passes=2, seed=9)
    there = pickle.loads(pickle.dumps(passing))
    assert (there.dropout_passes, there.seed, there.networks) == (2, 9, passing.networks)
    assert all(one.sha256 in provenance(passing) for one in passing.networks)
    assert "2 passes with dropout from seed 9" in provenance(passing)
    assert len({both.identity, passing.identity, Detector.load(checkpoints[0]).identity}) == 3


def test_a_dense_network_keeps_each_channel_by_itself(checkpoints):
    one = Detector.load(checkpoints[0]).networks[0]
    assert one.layout == torch.contiguous_format
    assert all(weight.is_contiguous() for weight in one.model.parameters())


def test_a_checkpoint_that_changes_on_its_way_to_another_process_is_refused(checkpoints, tmp_path):
    path = tmp_path / "moving.pt"
    path.write_bytes(checkpoints[0].read_bytes())
    sent = pickle.dumps(Detector.load(path))
    path.write_bytes(checkpoints[1].read_bytes())
    Detector.load(path)
    pickle.loads(sent)  # This process has read it: it keeps what it read.
    from climlab_dl.inference import network as networks

    networks.read.cache_clear()
    with pytest.raises(ValueError, match="was written over since"):
        pickle.loads(sent)


@dataclass(frozen=True, kw_only=True)
class Plain:
    """A network of a user's own."""

    def build(self, channels, classes):
        return nn.Conv2d(channels, classes, 3, padding=1)


def test_a_network_of_ones_own_is_read_and_travels_when_it_is_allowed(tmp_path):
    path = saved(tmp_path / "own.pt", Plain())
    with pytest.raises(ValueError, match=r"Plain.*allow="):
        Detector.load(path)
    detector = Detector.load(path, allow=[Plain])
    arrived = pickle.loads(pickle.dumps(detector))
    np.testing.assert_array_equal(detect(arrived, fields()).mask.values, detect(detector, fields()).mask.values)
