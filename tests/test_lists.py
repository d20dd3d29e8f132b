"""The lists of dependencies say the same: pyproject.toml, constraints.txt, environment.yml and binder/."""

import ast
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
# What conda-forge calls differently; dask[distributed] is two packages there.
CONDA_NAMES = {
    "dask": "dask-core",
    "geoviews": "geoviews-core",
    "jupyter-client": "jupyter_client",
    "jupyter-core": "jupyter_core",
    "matplotlib": "matplotlib-base",
    "netCDF4": "netcdf4",
    "torch": "pytorch",
}
ONLY_IN_CONDA = {"python", "pip", "distributed"}


def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def conda_list(path: Path) -> dict[str, str]:
    entries = yaml.safe_load(path.read_text())["dependencies"]
    flat = [e for e in entries if isinstance(e, str)] + [p for e in entries if isinstance(e, dict) for p in e["pip"]]
    return {m[1]: m[2] for e in flat if (m := re.fullmatch(r"([\w.-]+?)([=<>].*)?", e))}


@pytest.mark.parametrize("path", ["environment.yml", "binder/environment.yml"])
def test_conda_lists_equal_the_project_list(path):
    wanted = {CONDA_NAMES.get(r.name, r.name): str(r.specifier) for r in map(Requirement, pyproject()["dependencies"])}
    found = conda_list(ROOT / path)
    if path.startswith("binder"):
        found["pytorch"] = found.pop("pytorch-cpu")
    assert found["distributed"] == found["dask-core"]
    assert {name: bound for name, bound in found.items() if name not in ONLY_IN_CONDA} == wanted


def test_constraints_pin_every_dependency_within_its_bounds():
    pins = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pin = Requirement(line)
            (exact,) = pin.specifier
            assert exact.operator == "==", f"{line}: only exact versions"
            assert "+" not in exact.version, f"{line}: a local build is not to be had elsewhere"
            pins[canonicalize_name(pin.name)] = exact.version
    project = pyproject()
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *(t for extra in extras.values() for t in extra)]:
        wanted = Requirement(text)
        if wanted.name != project["name"]:
            assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)]), f"{text} but {pins[wanted.name]}"


def test_binder_scripts_can_start_the_server():
    for name in ("postBuild", "start"):
        assert os.access(ROOT / "binder" / name, os.X_OK), f"binder/{name} is not executable"
    assert (ROOT / "binder/start").read_text().rstrip().endswith('exec "$@"')


def test_versions_agree():
    project = pyproject()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == project["version"]
    assert f"## [{project['version']}]" in (ROOT / "CHANGELOG.md").read_text()


def test_every_package_that_is_imported_is_on_the_list():
    # What a package is called in the list and what it is called in an import differ for a few.
    modules = {"netcdf4": "netCDF4", "google-crc32c": "google_crc32c", "pillow": "PIL", "ipython": "IPython"}
    listed = {canonicalize_name(Requirement(text).name) for text in pyproject()["dependencies"]}
    # dask[distributed] brings the second; the others are extras.
    also = {"climlab_dl", "distributed", "camb", "cfgrib", "safetensors"}
    known = {modules.get(name, name.replace("-", "_")) for name in listed} | also
    for path in (ROOT / "climlab_dl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            for name in names:
                package = name.split(".")[0]
                assert package in known or package in sys.stdlib_module_names, f"{path.name} imports {package}"


def test_the_notice_tells_the_licence_of_every_folder_of_packaged_data():
    paragraphs = re.split(r"\n(?=\S)", (ROOT / "NOTICE").read_text())
    for folder in (ROOT / "climlab_dl" / "data").iterdir():
        (about,) = [text for text in paragraphs if text.startswith(f"climlab_dl/data/{folder.name}/")]
        assert re.search("public domain|CC0|BSD|MIT|Apache", about, re.IGNORECASE), folder.name
