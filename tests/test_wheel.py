"""A wheel built from the tree carries all that the package needs, and works where the tree is not."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MEBIBYTE = 2**20

pytestmark = pytest.mark.slow


def run(*command: object, **keywords) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=240, check=False, **keywords)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT)
    (path,) = out.glob("*.whl")
    return path


def test_the_sample_archive_keeps_the_wheel_under_its_limit(wheel):
    sample = ROOT / "climlab_dl" / "data" / "sample"
    assert sum(path.stat().st_size for path in sample.iterdir()) < 24 * MEBIBYTE
    assert wheel.stat().st_size < 26 * MEBIBYTE


def test_the_installed_wheel_has_its_notebooks_data_and_program(wheel, tmp_path):
    site = tmp_path / "site"
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", site, wheel)
    code = (
        "import climlab_dl, pathlib; from climlab_dl import archive, notebook; "
        "print(climlab_dl.__file__, notebook.find('00_tour'), len(list(archive.sample().glob('*.nc'))), sep='\\n')"
    )
    file, tour, days = run(sys.executable, "-c", code, cwd=tmp_path, env={"PYTHONPATH": str(site)}).splitlines()
    assert Path(file).is_relative_to(site)
    assert Path(tour).is_relative_to(site)
    assert int(days) == 12
    assert (site / "climlab_dl/data/cartopy/shapefiles/natural_earth/physical/ne_110m_coastline.shp").exists()
    assert "tour" in run(site / "bin" / "climlab-dl", "--help", cwd=tmp_path, env={"PYTHONPATH": str(site)})
