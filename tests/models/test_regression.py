"""Standardised features and bounded targets."""

import torch

from climlab_dl.models.regression import Standardise


def test_features_are_standardised_by_what_training_has_seen():
    torch.manual_seed(0)
    layer = Standardise(2)
    for _ in range(200):
        layer(torch.randn(64, 2) * torch.tensor([0.01, 5.0]) + torch.tensor([3.0, -1.0]))
    layer.eval()
    found = layer(torch.tensor([[3.0, -1.0], [3.01, 4.0]]))
    torch.testing.assert_close(found, torch.tensor([[0.0, 0.0], [1.0, 1.0]]), atol=0.05, rtol=0)


def test_a_batch_keeps_what_its_universes_have_in_common():
    # Batch normalisation would make the mean of any batch zero; this keeps what sets the batch apart, less its own
    # tenth in the mean (1.8) and over a spread that grows by a tenth of its distance squared (1.8 / sqrt(1.4) = 1.5).
    torch.manual_seed(0)
    layer = Standardise(1)
    for _ in range(200):
        layer(torch.randn(64, 1))
    apart = layer(torch.randn(64, 1) + 2)
    assert abs(apart.mean().item() - 1.5) < 0.3


def test_evaluation_leaves_the_statistics_alone():
    layer = Standardise(1)
    layer(torch.tensor([[1.0], [3.0]]))
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    layer.eval()(torch.tensor([[100.0]]))
    for name, value in layer.state_dict().items():
        assert torch.equal(value, before[name])


def test_the_drift_of_a_training_does_not_widen_the_spread():
    # Means that move by ten spreads while weights change: with the drift in it the spread would be about three.
    torch.manual_seed(0)
    layer = Standardise(1)
    for step in range(200):
        layer(torch.randn(64, 1) + 0.05 * step)
    assert abs(layer.variance.sqrt().item() - 1) < 0.05


def test_features_that_drift_by_many_spreads_come_out_of_the_size_of_one():
    # As early in a training: universes differ by 0.001 while each step moves the mean by 0.05, a growing fifty spreads.
    torch.manual_seed(0)
    layer = Standardise(1)
    found = [layer(0.001 * torch.randn(8, 1) + 0.05 * step) for step in range(60)]
    assert found[-1].abs().max() < 2
