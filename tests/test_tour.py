"""The tour, run once at smoke size: what it leaves, what it says, and that nothing is left running."""

import json
import re

import pandas as pd
import psutil
import pytest
import xarray as xr

from climlab_dl import archive

pytestmark = [pytest.mark.slow, pytest.mark.mpi, pytest.mark.timeout(900)]


def test_it_says_each_step_and_where_the_results_lie(tour):
    said = (tour / "said.txt").read_text()
    assert len(re.findall(r"^\[ *\d+\.\d s\] \d+/\d+ ", said, flags=re.MULTILINE)) >= 15
    for name in ("tour.html", "masks.nc", "storms.csv", "storms.geojson", "scores.csv", "parameters.csv"):
        assert name in said
        assert (tour / name).stat().st_size > 0


def test_masks_are_cf_flags_on_the_held_out_times(tour):
    with xr.open_dataset(tour / "masks.nc") as found:
        assert found.mask.dtype.kind == "i"
        assert found.mask.attrs["flag_meanings"] == "background cyclone river"
        assert found.attrs["Conventions"].startswith("CF-1")
        # The last third of the sample's 60 snapshots.
        assert list(found.time.values) == list(archive.open(archive.sample()).time.values[40:])


def test_storms_are_the_same_in_the_table_and_on_the_map(tour):
    storms = pd.read_csv(tour / "storms.csv")
    features = json.loads((tour / "storms.geojson").read_text())["features"]
    assert len(features) == len(storms)


def test_scores_stand_beside_the_trivial_prediction(tour):
    scores = pd.read_csv(tour / "scores.csv", index_col=0)
    assert list(scores.index) == ["DeepLabv3+", "Tiramisu", "all background"]
    # Where everything is called background, the other classes have no cell in common with the truth.
    assert scores.loc["all background", "iou_cyclone"] == 0
    assert scores.loc["all background", "iou_river"] == 0


def test_parameter_errors_stand_beside_the_prior(tour):
    errors = pd.read_csv(tour / "parameters.csv", index_col=0)
    assert {"network, raw", "posterior mean", "prior"} <= set(errors.index)
    assert {"Omega_m", "sigma_8", "n_s"} <= set(errors.columns)


def test_each_training_leaves_a_folder_with_its_checkpoint(tour):
    for name in ("deeplab", "tiramisu", "cosmoflow"):
        run = tour / "runs" / name
        assert json.loads((run / "status.json").read_text())["state"] == "finished"
        assert list((run / "checkpoints").glob("step-*.pt"))


def test_no_process_of_it_is_left(tour):
    mine = [p for p in psutil.process_iter(["cmdline"]) if str(tour) in " ".join(p.info["cmdline"] or [])]
    assert mine == []


def test_no_request_leaves_the_machine(tour, alone):
    if not alone:
        pytest.skip("a network of its own needs root, unshare and ip (apt-get install iproute2)")
    assert (tour / "said.txt").read_text().endswith("packets sent: 0\n")


def test_the_page_asks_nothing_of_the_network(tour):
    page = (tour / "tour.html").read_text()
    assert not re.findall(r"""<(?:script|link|img|iframe)[^>]+(?:src|href)=["']?(?:https?:)?//[^"'> ]+""", page)
