"""Learning curves from tables whose content is known."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.lines import Line2D

from climlab_dl.plot.curves import compare, curves


def x_of(line: Line2D) -> np.ndarray:
    return np.asarray(line.get_xdata(), dtype=float)


def y_of(line: Line2D) -> np.ndarray:
    return np.asarray(line.get_ydata(), dtype=float)


def segmentation(steps: int = 30) -> pd.DataFrame:
    step = np.arange(1, steps + 1)
    table = pd.DataFrame({"step": step, "loss": 1.0 / step})
    evaluated = np.where(step % 10 == 0, step / 100.0, np.nan)
    for name in ("iou_background", "iou_river", "iou_mean", "iou_per_sample"):
        table[name] = evaluated
    table["baseline_iou_mean"] = np.where(step % 10 == 0, 0.33, np.nan)
    return table


def errors() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "step": [10, 20],
            "loss": [0.5, -0.5],
            "mae_Omega_m": [0.04, 0.02],
            "baseline_mae_Omega_m": [0.08, 0.08],
        }
    )


def test_the_loss_is_drawn_as_reported_and_the_step_axis_ends_where_the_training_will() -> None:
    left, right = curves(segmentation(), steps=100).axes
    (line,) = left.lines
    np.testing.assert_allclose(y_of(line), 1.0 / np.arange(1, 31))
    assert left.get_yscale() == "log"
    assert left.get_xlim() == right.get_xlim() == (0, 100)


def test_metrics_are_drawn_at_the_steps_that_evaluated_and_labelled_with_the_latest_value() -> None:
    _, right = curves(segmentation()).axes
    measured = [line for line in right.lines if line.get_linestyle() == "-"]
    assert len(measured) == 3  # iou_per_sample is a benchmark's number, not a class
    for line in measured:
        np.testing.assert_array_equal(x_of(line), [10, 20, 30])
        np.testing.assert_allclose(y_of(line), [0.1, 0.2, 0.3])
    assert {text.get_text() for text in right.texts} == {"background 0.30", "river 0.30", "mean 0.30"}


def test_labels_of_equal_values_do_not_cover_each_other() -> None:
    _, right = curves(segmentation()).axes
    heights = sorted(text.xy[1] for text in right.texts)  # type: ignore[attr-defined]
    low, high = right.get_ylim()
    assert np.all(np.diff(heights) > 0.08 * (high - low))


def test_labels_of_scores_of_nothing_stand_above_the_axis_and_are_all_seen() -> None:
    table = segmentation()
    table[["iou_background", "iou_river", "iou_mean"]] = 0.0
    figure = curves(table)
    _, right = figure.axes
    heights = sorted(text.xy[1] for text in right.texts)  # type: ignore[attr-defined]
    assert heights[0] == 0
    assert np.all(np.diff(heights) > 0.08)


def test_a_loss_that_has_hardly_moved_is_drawn_on_a_linear_axis() -> None:
    left, _ = curves(pd.DataFrame({"step": [1, 2, 3], "loss": [1.08, 1.05, 0.97]})).axes
    assert left.get_yscale() == "linear"


def test_the_score_of_an_all_background_mask_is_dashed() -> None:
    _, right = curves(segmentation()).axes
    (dashed,) = [line for line in right.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(y_of(dashed), [0.33, 0.33])
    assert right.get_title("left") == "dashed: nothing found anywhere"


def test_nothing_is_called_dashed_where_no_line_is() -> None:
    _, right = curves(segmentation().drop(columns="baseline_iou_mean")).axes
    assert right.get_title("left") == ""


def test_errors_are_shares_of_the_priors_and_a_negative_loss_is_on_a_linear_axis() -> None:
    left, right = curves(errors()).axes
    assert left.get_yscale() == "linear"
    # 0.04 / 0.08 and 0.02 / 0.08; dashed at 1 is the prior.
    np.testing.assert_allclose(y_of(right.lines[0]), [0.5, 0.25])
    np.testing.assert_allclose(y_of(right.lines[1]), [1.0, 1.0])
    assert right.get_title("left") == "dashed: always their mean"
    assert [text.get_text() for text in right.texts] == ["Ωₘ 0.25 (0.020 of 0.080)"]


def test_errors_have_the_unit_of_their_parameter_and_their_mean_has_none() -> None:
    columns = {"mae_H_0": 1.5, "baseline_mae_H_0": 3.0, "mae_mean": 0.4, "baseline_mae_mean": 0.8}
    _, right = curves(pd.DataFrame({"step": [10], "loss": [0.1], **columns})).axes
    assert {text.get_text() for text in right.texts} == {"mean 0.50", "H₀ 0.50 (1.5 of 3.0 km/s/Mpc)"}


def test_an_error_far_above_that_of_the_mean_does_not_press_the_others_together() -> None:
    table = pd.DataFrame({"step": [10, 20], "loss": [1.0, 0.5], "mae_n_s": [0.9, 0.05], "baseline_mae_n_s": [0.1, 0.1]})
    _, right = curves(table).axes
    assert right.get_ylim() == (0, 2)
    _, right = curves(table.iloc[:1]).axes
    (text,) = right.texts
    assert text.get_text() == "nₛ 9.00 (0.90 of 0.10)"
    assert text.xy[1] == 2  # type: ignore[attr-defined]


def test_runs_are_compared_by_their_losses_and_their_leading_scores() -> None:
    slow = segmentation(20).assign(loss=2.0)
    left, right = compare({"slow": slow, "fast": segmentation(30)}, steps=40).axes
    assert [len(y_of(line)) for line in left.lines] == [20, 30]
    np.testing.assert_allclose(y_of(right.lines[0]), [0.1, 0.2])
    np.testing.assert_allclose(y_of(right.lines[1]), [0.1, 0.2, 0.3])
    assert [line.get_color() for line in left.lines] == [line.get_color() for line in right.lines]
    assert [text.get_text() for text in right.texts] == ["fast 0.30", "slow 0.20"]
    assert left.get_xlim() == (0, 40)


def test_runs_of_different_kinds_share_no_scale_of_scores() -> None:
    wide = errors().assign(mae_mean=0.5, baseline_mae_mean=1.0)
    _, right = compare({"masks": segmentation(), "parameters": wide}).axes
    assert not right.lines
    assert right.texts[0].get_text() == "scores of different kinds"


@pytest.mark.parametrize("columns", [["step", "loss"], ["step", "loss", "iou_mean"]])
def test_a_training_without_reports_says_so(columns: list[str]) -> None:
    left, right = curves(pd.DataFrame(columns=columns).astype(float)).axes
    assert left.texts[0].get_text() == "no report yet"
    assert right.texts[0].get_text() == "no evaluation yet"
