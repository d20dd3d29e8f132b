"""Importing the package costs nothing, and its front door shows the nouns."""

import pkgutil
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


def test_a_noun_stays_what_it_is_when_it_has_been_used():
    # A module of the package by the same name would take the noun's place once it is imported.
    modules = {module.name for module in pkgutil.iter_modules(climlab_dl.__path__)}
    assert modules.isdisjoint(dir(climlab_dl))


def test_a_wrong_noun_is_answered_with_the_right_ones():
    with pytest.raises(AttributeError, match="archive"):
        climlab_dl.archives  # noqa: B018


def test_the_front_door_shows_its_nouns_and_nothing_else():
    # Imports of the front door's own module, and modules that a use of a noun has brought, stay out of sight.
    assert climlab_dl.archive
    assert {"archive", "heuristics", "cluster", "live", "detect", "events", "posterior"} <= set(dir(climlab_dl))
    assert {"climate", "files", "import_module", "Any"}.isdisjoint(dir(climlab_dl))
