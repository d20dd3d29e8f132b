"""The notebooks that train, run at smoke size on two ranks: what they leave, and what stays in the page."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from climlab_dl import notebook, runs
from climlab_dl.parallel import cluster
from climlab_dl.training.folder import RunFolder

pytestmark = [pytest.mark.slow, pytest.mark.mpi, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def segmentation(tmp_path_factory: pytest.TempPathFactory, sample: Path) -> tuple[Any, Path]:
    """The executed notebook and the folder that it worked in; on the twenty snapshots of August."""
    out = tmp_path_factory.mktemp("03")
    source = str(sample / "gcm_t63_2001-08-1*.nc")
    parameters = {"OUT": ".", "DATA": source, "STEPS": 6, "SWEEP_STEPS": 2}
    return notebook.execute(notebook.find("03_train_segmentation"), out, parameters), out


@pytest.fixture(scope="module")
def cosmoflow(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The executed notebook and the folder that it worked in."""
    out = tmp_path_factory.mktemp("06")
    parameters = {"OUT": ".", "UNIVERSES": 40, "STEPS": 4}
    return notebook.execute(notebook.find("06_train_cosmoflow"), out, parameters), out


def outputs(book: Any, of: str) -> list[Any]:
    """What the cell shows that has this in it."""
    (cell,) = [cell for cell in book.cells if cell.cell_type == "code" and of in cell.source]
    return [output["data"] for output in cell.outputs if "data" in output]


def pictures(shown: list[Any]) -> int:
    drawn = [base64.b64decode(data["image/png"]) for data in shown if "image/png" in data]
    assert all(picture.startswith(b"\x89PNG") for picture in drawn)
    return len(drawn)


def left_by(out: Path) -> list[str]:
    """Give the clusters that trained there and still run."""
    clusters = cluster.list()
    return [str(name) for name in clusters.index[clusters["training"].str.startswith(str(out))]]


def test_a_training_is_launched_stopped_resumed_and_found_again(segmentation: tuple[Any, Path]) -> None:
    book, out = segmentation
    assert "training" in outputs(book, "engines.train(")[0]["text/html"]  # it returned while the ranks were busy
    assert "state" in outputs(book, "training.stop()")[0]["text/html"]
    shown = outputs(book, "live.watch(again)")
    assert "<progress value='6' max='6'" in shown[0]["text/html"]
    assert pictures(shown) == 2  # the curves, and the mask beside the truth
    folder = RunFolder(out / "runs" / "deeplab")
    assert folder.status()["state"] == "finished"
    # Each step once, whether before the stop or after it.
    assert list(folder.progress()["step"])[-1] == 6
    assert folder.progress()["step"].is_unique


def test_the_weights_of_the_classes_compete_and_one_is_stopped_by_hand(segmentation: tuple[Any, Path]) -> None:
    book, out = segmentation
    table = runs.table(out / "runs")
    weights = [f"weights/{kind}" for kind in ("none", "mlperf", "inverse_sqrt", "inverse")]
    assert set(table.index) == {"deeplab", *weights}
    # The one that was stopped may have been quicker than the hand.
    assert table.loc["weights/none", "state"] in ("stopped", "finished")
    assert set(table.loc[weights[1:], "state"]) == {"finished"}
    assert list(table.loc[weights, "loss.weighting"]) == [name.partition("/")[2] for name in weights]
    shown = outputs(book, "live.watch(sweep)")
    assert all(f">{kind}<" in shown[0]["text/html"] for kind in ("none", "mlperf", "inverse_sqrt", "inverse"))
    assert pictures(shown) == 1
    assert "click to sort" in outputs(book, "runs.table(")[0]["text/html"]
    assert pictures(outputs(book, "maps.static(")) == 1
    assert left_by(out) == []


def test_a_network_is_compared_with_the_prior_and_the_power_spectrum(cosmoflow: tuple[Any, Path]) -> None:
    book, out = cosmoflow
    shown = outputs(book, "live.watch(training)")
    assert pictures(shown) == 2  # the curves, and the estimates against the truth
    assert "of the prior" in shown[0]["text/html"]
    errors = outputs(book, "posterior.accuracy(")[0]["text/html"]
    assert all(
        method in errors for method in ("network, raw", "posterior mean", "ridge ln P", "ridge ln P + PDF", "prior")
    )
    seen = RunFolder(out / "runs" / "cosmoflow").held_out()
    assert seen is not None
    assert list(seen.parameter) == ["Omega_m", "sigma_8", "n_s"]
    # A fifth of forty, none of whose parameters is another's.
    assert len(np.unique(seen.truth, axis=0)) == 8
    assert outputs(book, "posteriors.corner(")
    assert left_by(out) == []
