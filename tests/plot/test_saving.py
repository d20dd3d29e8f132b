"""Pages to keep ask no network for anything, and say what they show."""

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from climlab_dl import maps, posteriors
from climlab_dl.cosmology.volumes import Volume


def _texts(value: Any) -> Iterator[str]:
    """All texts of a JSON document; some are documents of their own, such as the states of a slider."""
    if isinstance(value, str):
        yield value
        if value.startswith("{"):
            yield from _texts(json.loads(value))
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


class Links(HTMLParser):
    """What the tags, the styles and the models of a page refer to, and what its title and its main part are called."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.title = self.said = self._in = ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = "json" if ("type", "application/json") in attrs else tag
        for name, value in attrs:
            if name in ("src", "href", "srcset", "data", "poster", "action", "manifest"):
                self.found.append(value or "")
            elif name == "style":
                self.found += re.findall(r"url\(([^)]*)\)", value or "")
            elif name == "aria-label" and tag == "main":
                self.said = value or ""

    def handle_data(self, data: str) -> None:
        if self._in == "style":
            self.found += re.findall(r"url\(([^)]*)\)|@import\s+([^;]*)", data)
        elif self._in == "title":
            self.title += data
        elif self._in == "json":
            self.found += [text for text in _texts(json.loads(data)) if text.startswith(("http", "//"))]

    def handle_endtag(self, tag: str) -> None:
        self._in = ""


@pytest.fixture(scope="module")
def draws() -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame({"Omega_m": random.normal(0.3, 0.03, 200), "sigma_8": random.normal(0.8, 0.03, 200)})


def test_the_page_of_a_corner_refers_to_nothing_outside_it(draws, tmp_path):
    page = Links(posteriors.save(posteriors.corner(draws), tmp_path / "seen & kept.html"))
    assert page.found == []
    assert page.title == "seen & kept"
    assert page.said == "Interactive figure, Ωₘ, p(Ωₘ), σ₈, p(σ₈)"
    assert [path.name for path in tmp_path.iterdir()] == ["seen & kept.html"]
    # It begins at the left, as the page of a map, and not behind an empty quarter.
    assert '"name":"Spacer"' not in (tmp_path / "seen & kept.html").read_text()


def test_the_page_of_a_volume_refers_to_nothing_outside_it_and_holds_all_redshifts(tmp_path, capsys):
    counts = np.random.default_rng(0).poisson(1.0, (16, 16, 16, 2))
    cube = Volume(counts=counts, source=Path("made"), redshifts=np.array([0.0, 1.5]), box_size_mpc_h=128.0)
    path = posteriors.save(posteriors.volume(cube), tmp_path / "volume.html", title="Two <redshifts>")
    page = Links(path)
    assert page.found == []
    assert page.title == "Two <redshifts>"
    # Each value of the slider is a state of the page, with the other pictures in it.
    assert re.search(r'"name":"panel\.models\.state\.State"', path.read_text())
    assert capsys.readouterr().err == ""


def test_the_page_of_a_map_refers_to_nothing_outside_it(tmp_path):
    lat, lon = np.arange(-80.0, 90, 20), np.arange(0.0, 360, 20)
    values = np.ones((1, len(lat), len(lon)), np.float32)
    fields = xr.Dataset({"TMQ": (("time", "lat", "lon"), values, {"units": "kg m-2"})}, {"lat": lat, "lon": lon})
    page = Links(maps.explore(fields).save(tmp_path / "map.html"))
    assert page.found == []
    assert "TMQ" in page.title


def test_links_are_found_where_a_page_has_them(tmp_path):
    (tmp_path / "page.html").write_text(
        "<link rel='icon' href='https://a/icon'><style>p {background: url(https://b/c)}</style><img src=d.png>"
    )
    assert len(Links(tmp_path / "page.html").found) == 3
