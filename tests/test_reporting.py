"""The report of a training is one page that says how it went and asks nobody."""

import re

import numpy as np
import pytest

from climlab_dl import archive, report, synthetic
from climlab_dl.cosmology import volumes
from climlab_dl.cosmology.volumes import Volume
from climlab_dl.models.cosmoflow import CosmoFlow
from climlab_dl.models.deeplab import DeepLab
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train
from climlab_dl.training.losses import MSE, WeightedCrossEntropy
from climlab_dl.training.run import Run
from climlab_dl.training.universes import Universes


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
    # A time is on one line, under the headings that the map has.
    assert "td { white-space: nowrap; }" in page
    assert re.search(r"<td>\d{4}-\d\d-\d\d \d\d:\d\d UTC</td>", page)
    assert "<th>area 10³ km²</th>" in page
    assert re.findall(r"(?:src|href)=\"(?!data:)", page) == []
    # An archive that has grown holds out what was trained on.
    archive.save(synthetic.atmosphere(times=9, shape=(32, 64), seed=0), tmp_path / "fields.nc")
    with pytest.raises(ValueError, match=r"fields\.nc has not the samples that this training began with"):
        report(tmp_path / "run")
    assert path.read_text() == page


def test_a_report_of_universes_shows_estimated_and_true_parameters(tmp_path):
    random = np.random.default_rng(0)
    for number in range(6):
        unit = random.uniform(-1, 1, 1)
        volume = Volume(
            counts=random.poisson(3 + unit[0], (8, 8, 8, 1)).astype(np.int16), source=tmp_path, names=("sigma_8",),
            unit=unit, physical=0.8 + 0.2 * unit, redshifts=np.zeros(1), box_size_mpc_h=8.0,
        )  # fmt: skip
        volumes.save(volume, tmp_path / "universes" / f"{number}.h5")
    small = CosmoFlow(size=None, features=(2,), kernels=(3,), strides=(1,), pooled=(True,), hidden=(2,), dropout=0.0)
    data = Universes(source=str(tmp_path / "universes"), held_out=0.5)
    for _ in train(Run(data=data, model=small, loss=MSE(), steps=2, evaluate_every=1), tmp_path / "run"):
        pass
    page = report(tmp_path / "run").read_text()
    assert "Parameters of held-out universes, estimated and true" in page
    assert page.count("data:image/png;base64,") == 2
    seen = RunFolder(tmp_path / "run").held_out()
    assert seen is not None
    rmse = float(np.sqrt(((seen["estimate"] - seen["truth"]) ** 2).mean()))
    assert re.search(rf"<th>RMSE</th>\s*<td>{rmse:.4g}</td>", page)
    # What was run and where is folded away, and there.
    assert re.findall(r"<details><summary>(\w+)</summary>", page) == ["Run", "Environment"]
    assert "<details open" not in page


def test_a_folder_without_a_run_is_refused(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(FileNotFoundError, match=r"has no run\.json"):
        report(tmp_path / "run")
    assert list((tmp_path / "run").iterdir()) == []
    with pytest.raises(FileNotFoundError, match="no run folder"):
        report(tmp_path / "absent")
