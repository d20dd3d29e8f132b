import json
import math
from dataclasses import dataclass, replace
from typing import Any

import pytest

from climlab_dl.parallel.allreduce import Exchange
from climlab_dl.training import runs
from climlab_dl.training.losses import L1
from climlab_dl.training.optimizers import Adam, Larc
from climlab_dl.training.run import Run, Target, differences
from climlab_dl.training.schedules import Multistep, Warmup
from climlab_dl.training.universes import Universes

NAMED = [
    runs.deeplab, runs.tiramisu, runs.cosmoflow, runs.deepcam_mlperf, runs.cosmoflow_mlperf, runs.small_deeplab,
    runs.small_tiramisu, runs.small_cosmoflow,
]  # fmt: skip


@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.__name__)
def test_every_named_run_survives_json(named):
    run = named("somewhere")
    assert Run.from_json(run.to_json()) == run


def test_every_part_of_a_run_survives_json():
    run = Run(
        data=Universes(source="u", parameters=("Omega_m",)),
        model=runs.small_deeplab("x").model,
        loss=L1(),
        optimizer=Larc(optimizer=Adam(betas=(0.8, 0.95)), form="scale"),
        schedule=Warmup(steps=3, then=Multistep(milestones=(2, 4))),
        exchange=Exchange(route="hierarchical", ranks_per_node=2, lag=1),
        target=Target(metric="mae_mean", at_most=0.124),
        epochs=3,
    )
    assert Run.from_json(run.to_json()) == run


def test_names_of_variables_survive_json_and_none_are_as_before_there_were_any():
    run = runs.small_deeplab("x")
    named = replace(run, data=replace(run.data, names={"tcw": "TMQ", "junk": None}))
    assert Run.from_json(named.to_json()) == named
    assert differences(run, named.to_json()) == ["data"]
    assert '"names"' not in run.to_json()


def test_json_does_not_load_code_that_it_names(tmp_path):
    text = runs.small_deeplab("x").to_json()
    for name in (
        "os.system",
        "climlab_dl.training.checkpoint.load",
        "tests.Evil",
        "climlab_dl.training.plain.plain",
        "climlab_dl.gone.Net",
        "",
    ):
        with pytest.raises(ValueError, match="none of this package's descriptions"):
            Run.from_json(text.replace("climlab_dl.models.deeplab.DeepLab", name))


def test_a_callers_own_class_is_rebuilt_only_if_the_caller_allows_it():
    @dataclass(frozen=True, kw_only=True)
    class Mine:
        width: int = 3

    text = replace(runs.small_deeplab("x"), model=Mine(width=5)).to_json()
    with pytest.raises(ValueError, match="Mine"):
        Run.from_json(text)
    assert Run.from_json(text, allow=(Mine,)).model == Mine(width=5)


def test_json_of_something_else_is_refused():
    with pytest.raises(ValueError, match="describes a int, not a Run"):
        Run.from_json("3")
    with pytest.raises(TypeError, match="dataclasses, numbers, text"):
        replace(runs.small_deeplab("x"), model=object()).to_json()


def test_only_what_cannot_change_midway_counts_as_another_run():
    run = runs.small_deeplab("x")
    assert differences(run, replace(run, steps=7, report_every=1, patience=3).to_json()) == []
    assert differences(run, replace(run, seed=7, clip_norm=None).to_json()) == ["clip_norm", "seed"]


def test_how_samples_are_read_and_how_their_place_is_told_is_no_other_run(tmp_path, monkeypatch):
    (tmp_path / "cam5").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "cam5")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    run = runs.small_deeplab(str(tmp_path / "cam5"))
    for change in (
        {"memory_gigabytes": 0.0}, {"workers": 7}, {"stage_to": "/scratch"}, {"source": "cam5"}, {"source": "./cam5/"},
        {"source": "link"}, {"source": "~/cam5"}, {"source": ("cam5",)},
    ):  # fmt: skip
        assert differences(replace(run, data=replace(run.data, **change)), run.to_json()) == [], change
    for change in ({"source": "other"}, {"held_out": 0.5}, {"stage_as": "float16"}, {"stage_share": 0.5}):
        assert differences(replace(run, data=replace(run.data, **change)), run.to_json()) == ["data"], change


def without(part: Any, *names: str) -> Any:
    """A description of before there were some fields, at any depth."""
    if isinstance(part, dict):
        return {name: without(value, *names) for name, value in part.items() if name not in names}
    return [without(value, *names) for value in part] if isinstance(part, list) else part


@dataclass(frozen=True, kw_only=True)
class Own:
    """A network of a caller's own, which gained a choice."""

    width: int = 3
    depth: int = 2


def test_a_run_described_before_a_choice_was_there_is_the_same_run():
    run = replace(runs.small_deeplab("x"), model=Own())
    before = json.dumps(without(json.loads(run.to_json()), "moistened", "depth", "patience", "ranks_per_node"))
    assert "moistened" not in before
    assert differences(run, before) == []
    assert differences(replace(run, model=Own(depth=5)), before) == ["model"]
    assert differences(replace(run, data=replace(run.data, moistened=0.5)), before) == ["data"]


def test_a_run_that_cannot_be_built_any_more_is_another_run():
    run = runs.small_deeplab("x")
    for change in (("climlab_dl.models.deeplab.DeepLab", "climlab_dl.models.gone.Net"), ('"width"', '"breadth"')):
        assert "model" in differences(run, run.to_json().replace(*change))


def test_a_field_that_is_no_number_is_the_same_field():
    run = replace(runs.small_deeplab("x"), model=Own(width=float("nan")))  # type: ignore[arg-type]
    assert differences(run, run.to_json()) == []


@pytest.mark.parametrize(("scaling", "factor"), [("none", 1.0), ("linear", 8.0), ("sqrt", 8.0**0.5)])
def test_the_rate_grows_with_the_global_batch(scaling, factor):
    # 4 ranks x 2 batches of 2 are 16 samples, 8 times the reference of 2.
    run = replace(
        runs.deeplab("x"), batch_size=2, accumulate=2, reference_batch=2, rate_scaling=scaling, schedule=Warmup(steps=0)
    )
    assert run.learning_rate(0, 10, 5, ranks=4) == pytest.approx(1e-4 * factor)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": None}, "epochs=None and steps=None"),
        ({"epochs": 3}, "epochs=3 and steps="),
        ({"batch_size": 0}, "batch_size=0"),
        ({"report_every": 1.5}, "report_every=1.5"),
        ({"rate_scaling": "cubic"}, "rate_scaling='cubic'"),
        ({"clip_norm": 0}, "clip_norm=0"),
        ({"profile": (6, 5)}, r"profile=\(6, 5\): choose a first step from 1"),
        ({"steps": 5, "profile": (6, 7)}, r"profile=\(6, 7\): the training ends at step 5"),
    ],
)
def test_an_impossible_run_is_refused_naming_the_field(changes, says):
    with pytest.raises(ValueError, match=says):
        replace(runs.small_deeplab("x"), **changes)


def test_a_target_has_one_bound():
    with pytest.raises(ValueError, match="one of at_least and at_most"):
        Target(metric="iou_mean")
    for bound in (math.nan, math.inf):
        with pytest.raises(ValueError, match="choose a bound that a score can reach"):
            Target(metric="iou_mean", at_least=bound)
    assert Target(metric="a", at_most=0.5).reached({"a": 0.5})
    assert not Target(metric="a", at_least=0.5).reached({"a": 0.4})


def test_data_that_lie_where_they_were_told_from_are_made_absolute_and_others_stay_as_told(tmp_path, monkeypatch):
    def learning_from(source: Any) -> Run:
        run = runs.small_deeplab("x")
        return replace(run, data=replace(run.data, source=source))

    here, away = tmp_path / "a", tmp_path / "b"
    for folder in (here, away):
        (folder / "cam5").mkdir(parents=True)
    for name in ("1.nc", "2.nc"):
        (here / "cam5" / name).touch()
    told = {"cam5/*.nc": True, "cam5": True, ("cam5/1.nc", "cam5/2.nc"): True, "nowhere": False, "none/*.nc": False}
    for source, there in told.items():
        monkeypatch.chdir(here)
        text = learning_from(source).to_json()
        monkeypatch.chdir(away)
        found = Run.from_json(text)
        each = (source,) if isinstance(source, str) else source
        absolute = tuple(str(here / one) if there else one for one in each)
        assert found.data.source == (absolute if isinstance(source, tuple) else absolute[0])
        assert differences(found, text) == []
    monkeypatch.chdir(here)
    relative, absolute = learning_from("cam5"), learning_from(str(here / "cam5"))
    assert "started_in" in relative.to_json()
    assert "started_in" not in absolute.to_json()
    assert differences(relative, absolute.to_json()) == []
    assert differences(relative, learning_from(str(away / "cam5")).to_json()) == ["data"]
