import importlib.util
import json
import sys

import pytest

from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train
from climlab_dl.training.run import Target


def lines(folder) -> list[dict]:
    text = (folder / "mlperf.log").read_text().splitlines()
    assert all(line.startswith(":::MLLOG ") for line in text)
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in text]


def test_mlperf_lines_tell_the_run_in_order_with_epochs_from_one(tiny, tmp_path):
    # 16 snapshots in steps of 4: 4 steps an epoch, so that 8 steps are epochs 1 and 2.
    list(train(tiny(steps=8, batch_size=4, report_every=8, evaluate_every=4, logs=("mlperf",)), tmp_path))
    found = lines(tmp_path)
    times = [line["time_ms"] for line in found]
    assert times == sorted(times)
    intervals = [(line["key"], line["metadata"].get("epoch_num")) for line in found if "INTERVAL" in line["event_type"]]
    assert intervals == [
        ("init_start", None), ("init_stop", None), ("run_start", None), ("epoch_start", 1), ("epoch_stop", 1),
        ("eval_start", 1), ("eval_stop", 1), ("epoch_start", 2), ("epoch_stop", 2), ("eval_start", 2),
        ("eval_stop", 2), ("run_stop", None),
    ]  # fmt: skip
    values = {line["key"]: line["value"] for line in found}
    assert values["submission_benchmark"] == "deepcam"
    assert (values["train_samples"], values["eval_samples"], values["global_batch_size"]) == (16, 8, 4)
    assert values["number_of_ranks"] == 1
    scores = RunFolder(tmp_path).progress().iou_per_sample
    assert values["eval_accuracy"] == scores.iloc[-1]
    assert found[-1]["metadata"]["status"] == "success"


def test_a_run_that_misses_its_target_is_aborted_to_mlperf(tiny, tmp_path):
    goal = Target(metric="iou_mean", at_least=1.0)
    list(train(tiny(steps=2, logs=("mlperf",), target=goal), tmp_path))
    assert lines(tmp_path)[-1]["metadata"]["status"] == "aborted"


def test_a_profiled_window_leaves_a_trace(tiny, tmp_path):
    list(train(tiny(steps=3, profile=(2, 2)), tmp_path))
    names = {event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert "aten::convolution" in names


def test_a_window_that_the_training_does_not_outlast_leaves_a_trace_too(tiny, tmp_path):
    # The profiler ran on, and ended the process with a segmentation fault when Python ended.
    list(train(tiny(steps=3, profile=(2, 50)), tmp_path))
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_a_log_that_cannot_be_written_is_refused_with_the_run(tiny):
    with pytest.raises(ValueError, match="'mlperf' and 'tensorboard'"):
        tiny(logs=("wandb",))
    with pytest.raises(ValueError, match=r"profile=\(3, 2\)"):
        tiny(profile=(3, 2))


def test_tensorboard_that_is_not_installed_is_asked_for(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ValueError, match="pip install tensorboard"):
        tiny(logs=("tensorboard",))


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed")
def test_tensorboard_gets_events(tiny, tmp_path):
    list(train(tiny(steps=2, logs=("tensorboard",)), tmp_path))
    assert list((tmp_path / "events").glob("events.out*"))
