import numpy as np
import pytest
import torch

from climlab_dl.training.metrics import Parameters, Segmentation, iou

CLASSES = ("background", "cyclone", "river")


def logits_of(mask: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.one_hot(mask, 3).movedim(-1, 1).float()


def test_iou_precision_and_recall_come_from_one_confusion_matrix():
    # Truth 0 0 0 2 2 1, prediction 0 0 2 2 2 0: river: 2 hits, 1 false, 0 missed; cyclone: missed.
    truth, predicted = torch.tensor([[[0, 0, 0, 2, 2, 1]]]), torch.tensor([[[0, 0, 2, 2, 2, 0]]])
    metrics = Segmentation(CLASSES)
    metrics.update(logits_of(predicted), truth)
    scores = metrics.scores()
    assert scores["iou_river"] == pytest.approx(2 / 3)
    assert scores["iou_cyclone"] == 0
    assert scores["iou_background"] == pytest.approx(2 / 4)
    assert scores["precision_river"] == pytest.approx(2 / 3)
    assert scores["recall_river"] == 1
    assert scores["recall_cyclone"] == 0
    assert np.isnan(scores["precision_cyclone"])
    assert scores["iou_mean"] == pytest.approx((2 / 3 + 0 + 1 / 2) / 3)
    # All background: 3 hits among 6 pixels, the other classes 0.
    assert scores["baseline_iou_background"] == pytest.approx(0.5)
    assert scores["baseline_iou_mean"] == pytest.approx(0.5 / 3)


def test_mlperfs_iou_is_a_mean_over_snapshots_in_which_an_absent_class_counts_one():
    # Snapshot A: all background, found: (1 + 1 + 1) / 3. Snapshot B: background 1 of 2, river missed, no cyclone:
    # (1/2 + 1 + 0) / 3 = 1/2. Mean 3/4.
    truth, predicted = torch.tensor([[[0, 0]], [[0, 2]]]), torch.tensor([[[0, 0]], [[0, 0]]])
    metrics = Segmentation(CLASSES)
    metrics.update(logits_of(predicted), truth)
    assert metrics.scores()["iou_per_sample"] == pytest.approx(0.75)


def test_a_class_that_is_nowhere_is_left_out_of_the_mean_over_classes():
    mask = torch.zeros(1, 2, 2, dtype=torch.long)
    metrics = Segmentation(CLASSES)
    metrics.update(logits_of(mask), mask)
    assert metrics.scores()["iou_mean"] == 1
    assert np.isnan(metrics.scores()["iou_river"])
    np.testing.assert_array_equal(iou(metrics.confusion, absent=1.0), 1.0)


def test_pixels_that_nobody_labelled_are_not_counted():
    truth, predicted = torch.tensor([[[0, -1, 2, -1]]]), torch.tensor([[[0, 2, 2, 0]]])
    metrics = Segmentation(CLASSES)
    metrics.update(logits_of(predicted), truth)
    assert metrics.confusion.sum() == 2
    assert metrics.scores()["iou_river"] == 1


def test_a_snapshot_that_nobody_labelled_is_no_part_of_the_mean_over_snapshots():
    # Snapshot A: background 1 of 2, cyclone missed, no river: (1/2 + 0 + 1) / 3 = 1/2. Nothing is known of B.
    truth, predicted = torch.tensor([[[0, 1]], [[-1, -1]]]), torch.tensor([[[0, 0]], [[2, 0]]])
    metrics = Segmentation(CLASSES)
    metrics.update(logits_of(predicted), truth)
    assert metrics.scores()["iou_per_sample"] == pytest.approx(0.5)
    assert metrics.scores()["iou_mean"] == pytest.approx((1 / 2 + 0) / 2)
    # Of B alone nothing can be said.
    metrics = Segmentation(CLASSES)
    metrics.update(logits_of(predicted[1:]), truth[1:])
    assert all(np.isnan(score) for score in metrics.scores().values())


def test_batches_may_be_cut_anywhere():
    torch.manual_seed(0)
    logits, truth = torch.randn(6, 3, 4, 5), torch.randint(3, (6, 4, 5))
    whole, parts = Segmentation(CLASSES), Segmentation(CLASSES)
    whole.update(logits, truth)
    for part in (slice(0, 1), slice(1, 6)):
        parts.update(logits[part], truth[part])
    assert whole.scores() == pytest.approx(parts.scores())


def test_errors_of_parameters_are_in_their_own_units():
    # One unit of the normalised target is 0.03 of Omega_m; the log variances that follow are ignored.
    metrics = Parameters(("Omega_m", "sigma_8"), np.array([0.3, 0.8]), np.array([0.03, 0.05]))
    target = torch.tensor([[1.0, -1.0], [-1.0, 0.0]])
    prediction = torch.tensor([[2.0, -1.0, 9.0, 9.0], [-1.0, 1.0, 9.0, 9.0]])
    metrics.update(prediction, target)
    scores = metrics.scores()
    assert scores["mae_Omega_m"] == pytest.approx(0.015)
    assert scores["mae_sigma_8"] == pytest.approx(0.025)
    # Only the first universe's Omega_m = 0.33 is off, by 0.03.
    assert scores["relative_error_Omega_m"] == pytest.approx(0.03 / 0.33 / 2)
    # Always saying 0.3 and 0.8 is off by 0.03 twice, and by 0.05 once.
    assert scores["baseline_mae_Omega_m"] == pytest.approx(0.03)
    assert scores["baseline_mae_sigma_8"] == pytest.approx(0.025)
    assert scores["mae_mean"] == pytest.approx(0.5)
    assert scores["baseline_mae_mean"] == pytest.approx(0.75)


def test_what_is_seen_of_masks_is_the_first_snapshot_however_batches_are_cut():
    torch.manual_seed(0)
    logits, truth = torch.randn(5, 3, 4, 6), torch.randint(3, (5, 4, 6))
    for size in (1, 2, 5):
        metrics = Segmentation(CLASSES)
        for start in range(0, 5, size):
            metrics.update(logits[start : start + size], truth[start : start + size])
        seen = metrics.seen()
        np.testing.assert_array_equal(seen.mask, logits[0].argmax(dim=0))
        np.testing.assert_array_equal(seen.truth, truth[0])
        assert seen.mask.dims == ("lat", "lon")
        assert seen.mask.attrs["flag_meanings"] == "background cyclone river"


def test_what_is_seen_of_parameters_is_every_estimate_in_physical_units():
    metrics = Parameters(("Omega_m", "sigma_8"), np.array([0.3, 0.8]), np.array([0.03, 0.05]))
    metrics.update(torch.tensor([[2.0, -1.0, 9.0, 9.0]]), torch.tensor([[1.0, -1.0]]))
    metrics.update(torch.tensor([[-1.0, 1.0, 9.0, 9.0]]), torch.tensor([[-1.0, 0.0]]))
    seen = metrics.seen()
    np.testing.assert_allclose(seen.estimate.sel(parameter="Omega_m"), [0.36, 0.27])
    np.testing.assert_allclose(seen.truth.sel(parameter="sigma_8"), [0.75, 0.8])


def test_what_is_measured_is_known_before_anything_is():
    masks = Segmentation(("background", "cyclone", "river"))
    masks.update(torch.eye(3)[None, :, :, None], torch.arange(3)[None, :, None])
    assert masks.measured == list(masks.scores())
    parameters = Parameters(("a", "b"), np.zeros(2), np.ones(2))
    parameters.update(torch.ones(3, 2), torch.full((3, 2), 2.0))
    assert sorted(parameters.measured) == sorted(parameters.scores())
