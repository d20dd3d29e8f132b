"""The report of a training is one page that says how it went and asks nobody."""

import re

import pytest

from climlab_dl import archive, report, synthetic
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.loop import train
from climlab_dl.training.losses import WeightedCrossEntropy
from climlab_dl.training.run import Run


@pytest.mark.slow
def test_a_report_has_scores_curves_maps_reliability_storms_and_the_run(tmp_path):
    archive.save(synthetic.atmosphere(times=6, shape=(32, 64), seed=0), tmp_path / "fields.nc")
    run = Run(
        data=ClimateArchive(source=str(tmp_path / "fields.nc"), channels=("TMQ", "PSL")),
        model=DeepLab.small(),
        loss=WeightedCrossEntropy(),
        steps=2,
        report_every=1,
        evaluate_every=1,
    )
    for _ in train(run, tmp_path / "run"):
        pass
    path = report(tmp_path / "run")
    page = path.read_text()
    assert path == tmp_path / "run" / "report.html"
    assert "finished at step 2 of 2" in page
    assert page.count("data:image/png;base64,") == 4
    for part in ("Scores on 2 of 2 held-out snapshots", "all background", "Brier score", "Worst snapshot", "events"):
        assert part in page
    assert "climlab_dl.models.deeplab.DeepLab" in page
    # Areas of storms in full, not as 1.06e+06.
    assert re.search(r"<td>\d{1,3},\d{3}(,\d{3})?</td>", page)
    assert "e+0" not in page.split("Largest of")[1].split("<h2>")[0]
    assert re.findall(r"(?:src|href)=\"(?!data:)", page) == []


def test_a_folder_without_a_run_is_refused(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(FileNotFoundError, match=r"has no run\.json"):
        report(tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []
    with pytest.raises(FileNotFoundError, match="no run folder"):
        report(tmp_path / "absent")
