import math
from math import inf, nan

import numpy as np
import pytest
import torch

from climlab_dl.climate.fields import UNLABELLED
from climlab_dl.training.losses import (
    L1,
    MSE,
    Focal,
    GaussianNLL,
    SoftJaccard,
    WeightedCrossEntropy,
    focal,
    gaussian_nll,
    soft_jaccard,
    weighted_cross_entropy,
)
from climlab_dl.training.statistics import Statistics


def frequencies(*counts: float) -> Statistics:
    return Statistics.empty(("TMQ",), len(counts)).with_class_counts(np.array(counts))


def logits_and_mask(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    return torch.randn(2, 3, 4, 5, dtype=torch.float64), torch.randint(3, (2, 4, 5))


def weights_of(loss: WeightedCrossEntropy, statistics: Statistics) -> torch.Tensor:
    # With all logits equal, a pixel of class c costs w[c] log 3.
    prepared = loss.prepare(statistics)
    masks = [torch.full((1, 2, 2), number) for number in range(3)]
    return torch.stack([prepared(torch.zeros(1, 3, 2, 2), mask) for mask in masks]) / math.log(3)


def test_inverse_square_root_weights_are_those_that_kurth_published():
    # Kurth et al. 2018: frequencies 0.982, 0.00071, 0.017 give weights 0.0218, 0.8122, 0.1660, which sum to 1:
    # 1/sqrt = 1.00912, 37.5293, 7.66965, sum 46.2081.
    found = weights_of(WeightedCrossEntropy(weighting="inverse_sqrt"), frequencies(0.982, 0.00071, 0.017))
    torch.testing.assert_close(found, torch.tensor([0.0218, 0.8122, 0.1660]), atol=1e-4, rtol=0)


def test_mlperf_weights_are_those_of_its_reference():
    # frequencies^-0.125 of MLPerf's 0.98627, 0.00045787, 0.013274 are 1.0017, 2.6146, 1.7164.
    found = weights_of(WeightedCrossEntropy(weighting="mlperf"), frequencies(0.98627, 0.00045787, 0.013274))
    torch.testing.assert_close(found, torch.tensor([1.0017, 2.6146, 1.7164]), atol=1e-4, rtol=0)


def test_inverse_weights_are_proportional_to_one_over_frequency():
    found = weights_of(WeightedCrossEntropy(weighting="inverse"), frequencies(0.5, 0.25, 0.25))
    torch.testing.assert_close(found, torch.tensor([0.2, 0.4, 0.4]))


def test_weighted_cross_entropy_divides_by_pixels_and_not_by_weights():
    # Two pixels, logits zero: each costs log 2 times its weight, so the mean is (1 + 9) / 2 log 2 = 5 log 2;
    # PyTorch's weighted mean would give log 2.
    mask = torch.tensor([[[0, 1]]])
    found = weighted_cross_entropy(torch.zeros(1, 2, 1, 2), mask, torch.tensor([1.0, 9.0]))
    assert float(found) == pytest.approx(5 * math.log(2))


def test_focal_loss_without_focus_is_cross_entropy_and_fades_for_certain_pixels():
    logits, mask = logits_and_mask()
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    torch.testing.assert_close(focal(logits, mask, weights, 0.0), weighted_cross_entropy(logits, mask, weights))
    # p = 0.9 for the true class: (1 - 0.9)^2 (-log 0.9) = 0.0010536.
    sure = torch.tensor([math.log(0.9), math.log(0.1)]).reshape(1, 2, 1, 1)
    found = focal(sure, torch.zeros(1, 1, 1, dtype=torch.long), torch.ones(2), 2.0)
    assert float(found) == pytest.approx(0.0010536, rel=1e-4)


def test_focal_gradient_stays_finite_where_a_pixel_is_certain():
    logits = torch.tensor([200.0, -200.0]).reshape(1, 2, 1, 1).requires_grad_()
    focal(logits, torch.zeros(1, 1, 1, dtype=torch.long), torch.ones(2), 0.5).backward()
    assert torch.isfinite(logits.grad).all()  # pyright: ignore[reportArgumentType]


def test_soft_jaccard_of_a_certain_mask_is_one_less_its_mean_iou():
    # Truth 0 0 1 1, prediction 0 1 1 1: IoU 1/2 and 2/3, mean 7/12.
    truth = torch.tensor([[[0, 0, 1, 1]]])
    predicted = torch.tensor([[[0, 1, 1, 1]]])
    logits = 100.0 * torch.nn.functional.one_hot(predicted, 2).movedim(3, 1).float()
    assert float(soft_jaccard(logits, truth)) == pytest.approx(1 - 7 / 12, abs=1e-5)


def test_gaussian_nll_is_least_at_the_true_mean_and_the_true_variance():
    # (d^2 exp(-s) + s) / 2 with d = 0.5 is least at s = log 0.25 with value (1 + log 0.25) / 2.
    target = torch.tensor([[1.0]])
    best = gaussian_nll(torch.tensor([[1.5, math.log(0.25)]]), target)
    assert float(best) == pytest.approx((1 + math.log(0.25)) / 2)
    for log_variance in (-2.0, -1.0, 0.0):
        assert float(gaussian_nll(torch.tensor([[1.5, log_variance]]), target)) > float(best)
    assert GaussianNLL().outputs_per_target == 2


@pytest.mark.parametrize(
    "description", [WeightedCrossEntropy(), Focal(weighting="inverse"), SoftJaccard()], ids=lambda d: type(d).__name__
)
def test_gradients_agree_with_finite_differences(description):
    logits, mask = logits_and_mask()
    loss = description.prepare(frequencies(10, 1, 2))
    # The class weights are float32, so the logits must be too: central differences then hold to a part in a hundred.
    logits = logits.float().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(logits, mask), logits)
    with torch.no_grad():
        direction = torch.sign(gradient)
        rise = loss(logits + 1e-2 * direction, mask) - loss(logits - 1e-2 * direction, mask)
    assert float(rise / 2e-2) == pytest.approx(float(gradient.abs().sum()), rel=1e-2)


@pytest.mark.parametrize(
    "description", [WeightedCrossEntropy(), Focal(weighting="inverse"), SoftJaccard()], ids=lambda d: type(d).__name__
)
def test_pixels_that_nobody_labelled_have_no_gradient(description):
    logits, mask = logits_and_mask()
    mask[0, 1, 2] = UNLABELLED
    logits = logits.float().requires_grad_()
    (gradient,) = torch.autograd.grad(description.prepare(frequencies(10, 1, 2))(logits, mask), logits)
    assert (gradient[0, :, 1, 2] == 0).all()
    assert (gradient[0, :, 1, 3] != 0).any()


def test_parameter_losses_are_mean_absolute_and_mean_squared_error():
    prediction, target = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]])
    assert float(L1().prepare(frequencies())(prediction, target)) == 1.5
    assert float(MSE().prepare(frequencies())(prediction, target)) == 2.5


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: WeightedCrossEntropy(weighting="sqrt"), "weighting='sqrt'"),  # pyright: ignore[reportArgumentType]
        (lambda: WeightedCrossEntropy(scale=0), "scale=0"),
        (lambda: WeightedCrossEntropy(scale=inf), "scale=inf"),
        (lambda: Focal(gamma=-1), "gamma=-1"),
        (lambda: Focal(gamma=nan), "gamma=nan"),
        (lambda: SoftJaccard(cross_entropy=2), "cross_entropy=2"),
    ],
)
def test_an_impossible_loss_is_refused_by_name(make, says):
    with pytest.raises(ValueError, match=says):
        make()
