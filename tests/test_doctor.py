"""What the doctor says where all is well, and where something was taken away."""

import sys

import pytest
import torch

from climlab_dl import doctor
from climlab_dl.parallel.cluster import processes
from climlab_dl.plot import coastlines


def found(folder):
    return {finding.name: finding for finding in doctor.examine(folder)}


@pytest.mark.mpi
def test_where_this_is_tested_nothing_is_missing(tmp_path):
    findings = found(tmp_path)
    assert [name for name, finding in findings.items() if finding.state == "missing"] == []
    assert "one world" in findings["MPI"].found
    assert list(tmp_path.iterdir()) == []


def test_without_an_mpi_it_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    findings = found(tmp_path)
    assert findings["MPI"].state == "missing"
    assert "pip install" in findings["MPI"].remedy
    assert "mpich" in findings["MPI"].remedy
    assert findings["Chromium"].state == "optional"
    assert "apt-get install chromium" in findings["Chromium"].remedy


def test_an_mpi_that_forms_no_world_of_two_is_reported_with_its_words(tmp_path, monkeypatch):
    # As where mpiexec and mpi4py belong to different libraries: each process is a world of its own.
    (tmp_path / "mpiexec").write_text('#!/bin/sh\nshift 2\n"$@"\n"$@"\n')
    (tmp_path / "mpiexec").chmod(0o755)
    monkeypatch.setattr(processes, "mpiexec", lambda: str(tmp_path / "mpiexec"))
    mpi = found(tmp_path)["MPI"]
    assert mpi.state == "missing"
    assert mpi.found.endswith("forms no world of 2, it says: 1 1")


def test_without_packaged_coastlines_it_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(coastlines, "packaged", lambda: tmp_path)
    coast = found(tmp_path)["coastlines"]
    assert coast.state == "missing"
    assert str(tmp_path) in coast.found


def test_too_little_memory_and_disk_are_said_with_what_the_tour_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_MEMORY", 2**60)
    monkeypatch.setattr(doctor, "_DISK", 2**60)
    findings = found(tmp_path)
    assert findings["memory"].state == findings["disk"].state == "missing"
    assert "GiB free" in findings["memory"].found
    assert "another folder" in findings["disk"].remedy


def test_absent_extensions_of_jupyterlab_are_named_by_their_package(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_EXTENSIONS", {"pyviz_comms": "@pyviz/taken_away"})
    assert "pip install --force-reinstall pyviz_comms" in found(tmp_path)["JupyterLab"].remedy


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no folder"):
        found(tmp_path / "nowhere")


def test_a_gpu_that_torch_cannot_use_is_not_said_to_be_absent(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("torch can use this machine's GPU")
    for name, vendor, kind in (("a", "0x8086", "0x030000"), ("b", "0x10de", "0x020000")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor}\n")
        (tmp_path / name / "class").write_text(f"{kind}\n")
    finding = doctor._gpu(tmp_path)
    assert (finding.state, finding.found) == ("optional", "no NVIDIA GPU on this machine")
    (tmp_path / "b" / "class").write_text("0x030200\n")
    finding = doctor._gpu(tmp_path)
    assert finding.state == "unused"
    assert finding.found.startswith("NVIDIA GPUs on this machine: 1, but torch")
    assert "CUDA" in finding.remedy
