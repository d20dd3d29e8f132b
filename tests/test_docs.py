"""The documentation: it builds without a warning, its links lead somewhere, and every block of Python in it runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from climlab_dl import archive

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "```python" in page.read_text()]


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    program = Path(sys.executable).with_name("mkdocs")
    built = subprocess.run(
        [program, "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=DOCS.parent, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))  # and one for what is not found
    for page in pages:
        loaded = re.findall(
            r"""<(?:script|img|link rel="stylesheet")[^>]+(?:src|href)="(https?:[^"]+)""", page.read_text()
        )
        assert loaded == [], f"{page.name} loads {loaded} from elsewhere"


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path):
    (tmp_path / "cam5").mkdir()
    for path in sorted(archive.sample().glob("*.nc"))[:2]:
        shutil.copy(path, tmp_path / "cam5")
    np.save(tmp_path / "grid.npy", archive.open(tmp_path / "cam5").TMQ.values)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    (tmp_path / "page.py").write_text("\n".join(blocks))
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_container_recipes_follow_good_practice():
    linter = Path(sys.executable).with_name("hadolint")
    said = subprocess.run(
        [linter, DOCS.parent / "container" / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout
    recipe = (DOCS.parent / "container" / "climlab-dl.def").read_text()
    assert re.findall(r"^%(\w+)", recipe, flags=re.MULTILINE) == ["files", "post", "environment", "runscript", "test"]
