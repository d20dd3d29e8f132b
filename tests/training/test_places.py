"""Data told by a relative path are found from any folder."""

import json
import shutil
from dataclasses import replace

from climlab_dl import reporting
from climlab_dl.training.climate_archive import ClimateArchive
from climlab_dl.training.folder import RunFolder
from climlab_dl.training.loop import train
from climlab_dl.training.run import Run


def test_a_run_told_by_a_relative_path_is_found_from_any_folder(tiny, labelled, tmp_path, monkeypatch):
    (tmp_path / "project").mkdir()
    shutil.copy(labelled, tmp_path / "project" / "labelled.nc")
    monkeypatch.chdir(tmp_path / "project")
    run = tiny(steps=2)
    run = replace(run, data=replace(run.data, source="labelled.nc"))
    list(train(run, "runs/a"))
    monkeypatch.chdir("/")
    folder = RunFolder(tmp_path / "project" / "runs" / "a")
    again = Run.from_json(folder.described())
    assert isinstance(again.data, ClimateArchive)
    assert again.data.held_out_snapshots().sizes["time"] == 8
    list(train(replace(again, steps=3), folder.path))
    reporting.report(folder.path, snapshots=1)
    # Told anew, from where it was started; and where the whole project was moved to.
    monkeypatch.chdir(tmp_path / "project")
    list(train(replace(run, steps=4), "runs/a"))
    (tmp_path / "project").rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    list(train(replace(run, steps=5), "runs/a"))
    assert RunFolder("runs/a").status()["step"] == 5
    assert json.loads(RunFolder("runs/a").described())["data"]["source"] == "labelled.nc"
