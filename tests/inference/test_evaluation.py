"""Scores are honest: counted by hand, beside the mask that finds nothing, whatever the truth is."""

import numpy as np
import pytest
import xarray as xr

from climlab_dl import evaluate


def masks(found, real):
    coords = {"time": np.arange(len(found)), "lat": [-30.0, 30.0], "lon": [0.0, 90.0, 180.0, 270.0]}
    dims = ("time", "lat", "lon")
    return (xr.DataArray(np.int8(layer), coords, dims) for layer in (found, real))


def test_scores_are_those_counted_by_hand():
    found = [[[0, 0, 1, 1], [2, 2, 0, 0]]]
    truth = [[[0, 0, 0, 1], [2, 2, 2, 0]]]
    # Cyclone: 1 hit of 2 found and 1 true. River: 2 hits of 2 found and 3 true. Background: 3 hits of 4 found, 4 true.
    scores = evaluate(*masks(found, truth)).loc["detected"]
    assert scores.iou_cyclone == 1 / 2
    assert scores.precision_cyclone == 1 / 2
    assert scores.recall_cyclone == 1
    assert scores.iou_river == 2 / 3
    assert scores.precision_river == 1
    assert scores.recall_river == 2 / 3
    assert scores.iou_background == 3 / 5
    assert scores.iou_mean == pytest.approx((1 / 2 + 2 / 3 + 3 / 5) / 3)


def test_the_trivial_mask_scores_the_backgrounds_share():
    scores = evaluate(*masks([[[0, 0, 1, 1], [2, 2, 0, 0]]], [[[0, 0, 0, 1], [2, 2, 2, 0]]])).loc["all background"]
    assert scores.iou_background == 4 / 8
    assert scores.iou_cyclone == scores.iou_river == 0
    assert np.isnan(scores.precision_river)


def test_several_masks_have_a_row_each_and_the_trivial_one_comes_last():
    found, truth = masks([[[0, 0, 1, 1], [2, 2, 0, 0]]], [[[0, 0, 0, 1], [2, 2, 2, 0]]])
    scores = evaluate({"perfect": truth, "found": found}, truth)
    assert scores.index.tolist() == ["perfect", "found", "all background"]
    assert scores.loc["perfect", "iou_mean"] == 1
    assert scores.loc["found"].equals(evaluate(found, truth).loc["detected"].rename("found"))


def test_pixels_that_nobody_labelled_do_not_count():
    found, truth = masks([[[0, 0, 1, 1], [2, 2, 0, 0]]], [[[0, 0, -1, 1], [2, 2, -1, 0]]])
    scores = evaluate(found, truth).loc["detected"]
    assert (scores.iou_cyclone, scores.iou_river, scores.iou_background) == (1, 1, 1)


def test_the_way_round_of_the_coordinates_does_not_matter():
    found, truth = masks([[[0, 0, 1, 1], [2, 2, 0, 0]]], [[[0, 0, 0, 1], [2, 2, 2, 0]]])
    turned = found.isel(lat=[1, 0]).assign_coords(lon=[0.0, 90.0, -180.0, -90.0]).sortby("lon")
    assert evaluate(turned, truth).equals(evaluate(found, truth))


def test_only_times_that_both_have_are_compared():
    found, truth = masks([[[0, 0, 1, 1], [2, 2, 0, 0]]] * 2, [[[1, 1, 1, 1], [1, 1, 1, 1]]] * 2)
    scores = evaluate(found, truth.assign_coords(time=[1, 5]))
    assert scores.loc["detected", "recall_cyclone"] == 2 / 8
    with pytest.raises(ValueError, match="no time in common"):
        evaluate(found, truth.assign_coords(time=[8, 9]))


def test_different_grids_are_refused():
    found, truth = masks([[[0, 0, 1, 1], [2, 2, 0, 0]]], [[[0, 0, 0, 1], [2, 2, 2, 0]]])
    with pytest.raises(ValueError, match="different grids"):
        evaluate(found, truth.isel(lon=[0, 1]))
