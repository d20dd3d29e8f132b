"""What objects show of themselves in a notebook: the facts, safely."""

from climlab_dl import archive, cards, runs
from climlab_dl.inference.detector import Detector
from climlab_dl.inference.network import Network
from climlab_dl.models.tiramisu import Tiramisu
from climlab_dl.training.folder import RunFolder


def test_a_card_leaves_out_what_is_empty_and_takes_text_as_text():
    shown = cards.card({"name": "<b>", "several": ("a", "b"), "nothing": ""}, "A & B")
    assert "&lt;b&gt;" in shown
    assert "a, b" in shown
    assert "nothing" not in shown
    assert "A &amp; B" in shown


def test_a_run_shows_what_is_not_as_by_default():
    shown = runs.small_deeplab("labelled.nc")._repr_html_()
    assert "labelled.nc" in shown
    assert "DeepLab(" in shown
    assert "rate_scaling" not in shown


def test_a_folder_tells_its_state_and_its_checkpoints(tmp_path):
    assert "not there yet" in RunFolder(tmp_path / "none")._repr_html_()
    folder = RunFolder(tmp_path)
    folder.begin(runs.small_deeplab("x").to_json(), steps=400)
    (folder.checkpoints / "best.pt").touch()
    shown = folder._repr_html_()
    assert "starting" in shown
    assert "0 of 400" in shown
    assert "best.pt" in shown


def test_a_detector_tells_its_channels_and_where_it_is_from():
    model = Tiramisu(blocks=(1, 1), growth=4, kernel=3, stem=4, dropout=0.5, norm="batch").build(1, 3)
    one = Network(model=model, channels=("TMQ",), mean=[0], std=[1], source="runs/a/best.pt", step=7)  # pyright: ignore[reportArgumentType]
    shown = Detector(networks=(one, one), dropout_passes=2)._repr_html_()
    for text in ("best.pt, step 7, best.pt, step 7", "runs/a", "TMQ", "background, cyclone, river"):
        assert text in shown


def test_a_report_shows_its_lines_and_its_problems(sample, tmp_path):
    assert "as it should be</b>" in archive.check(sample / "gcm_t63_2001-08-14T06.nc")._repr_html_()
    shown = archive.check(tmp_path / "<none>")._repr_html_()
    assert "&lt;none&gt;: 1 problem(s)</b>" in shown
