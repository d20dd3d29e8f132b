"""Importing the package costs nothing, and its front door shows the nouns."""

import subprocess
import sys

import pytest

import climlab_dl


def test_import_brings_none_of_the_heavy_packages():
    heavy = ["torch", "xarray", "pandas", "holoviews", "cartopy", "ipyparallel", "distributed", "mpi4py", "matplotlib"]
    code = f"import sys, climlab_dl; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert found == "[]"


def test_every_noun_of_the_front_door_can_be_used():
    for noun in dir(climlab_dl):
        assert getattr(climlab_dl, noun) is not None


def test_a_wrong_noun_is_answered_with_the_right_ones():
    with pytest.raises(AttributeError, match="archive"):
        climlab_dl.archives  # noqa: B018
