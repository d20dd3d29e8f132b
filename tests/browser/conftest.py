"""A headless Chromium that no request leaves, and that remembers what went wrong."""

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib.image
import numpy as np
import pytest
import xarray as xr

from climlab_dl import maps

if TYPE_CHECKING:
    from playwright.sync_api import Page


# Left, top, width and height of the map's frame on the page.
FRAME = """() => { const view = Bokeh.index.roots[0];
    const find = v => v.frame ? v : [...(v.child_views ?? [])].map(find).find(x => x);
    const f = find(view), r = f.el.getBoundingClientRect(), b = f.frame.bbox;
    return [r.left + b.left, r.top + b.top, b.width, b.height]; }"""
LAT, LON = np.arange(-87.5, 90, 5), np.arange(0.0, 360, 5)


@dataclass
class Opened:
    """A page that was opened, what it asked the network for, and what its console called an error."""

    page: "Page"
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def pixels(self, selector: str = ".bk-Figure:visible", number: int = 0) -> np.ndarray:
        """Colours of an element as it is drawn, (height, width, 3) from 0 to 255."""
        self.page.wait_for_timeout(400)
        png = self.page.locator(selector).nth(number).screenshot()
        return (matplotlib.image.imread(io.BytesIO(png))[..., :3] * 255).astype(np.int16)

    def keep(self, name: str) -> None:
        """Leave a picture of the page where CLIMLAB_SCREENSHOTS says, to be looked at."""
        if folder := os.environ.get("CLIMLAB_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)

    def clean(self) -> bool:
        """Whether nothing went wrong and nobody was asked."""
        assert self.errors == []
        assert self.requests == []
        return True

    def frame(self) -> list[float]:
        """Left, top, width and height of the map's frame on the page."""
        return self.page.evaluate(FRAME)

    def at(self, lat: float, lon: float) -> tuple[float, float]:
        """Where a place is on the page, on a flat map around 0."""
        left, top, width, height = self.frame()
        return left + ((lon + 180) % 360) / 360 * width, top + (90 - lat) / 180 * height

    def hover(self, lat: float, lon: float) -> str:
        """Text under the pointer at a place."""
        x, y = self.at(lat, lon)
        self.page.mouse.move(x + 4, y)
        self.page.mouse.move(x + 1, y)
        self.page.wait_for_timeout(300)
        return self.page.locator(".bk-tooltip-content").first.inner_text()

    def model(self, name: str) -> str:
        """Expression of the page's script for a model of the map."""
        return f"Bokeh.documents[0].get_model_by_name('{name}')"

    def press(self, key: str, times: int = 1) -> None:
        """Press a key with the slider's handle in focus, as one does who has no mouse."""
        handle = self.page.locator(".noUi-handle").first
        handle.focus()
        for _ in range(times):
            handle.press(key)
        self.page.wait_for_timeout(200)

    @staticmethod
    def near(pixels: np.ndarray, color: str, tolerance: int = 40) -> int:
        """How many pixels have about this colour."""
        wanted = np.array([int(color[k : k + 2], 16) for k in (1, 3, 5)])
        return int((np.abs(pixels - wanted).max(axis=-1) < tolerance).sum())

    @staticmethod
    def changed(before: np.ndarray, after: np.ndarray) -> int:
        """How many pixels two pictures differ in."""
        return int((np.abs(before - after).max(axis=-1) > 8).sum())


def _dataset() -> xr.Dataset:
    """Four steps of a smooth field and of a wind, with a storm that walks east across the dateline."""
    times = np.datetime64("2001-07-01T00") + np.arange(4) * np.timedelta64(6, "h")
    rise = np.cos(np.radians(LAT))[None, :, None] * (40 + 5 * np.arange(4))[:, None, None] * np.ones(72)
    wind = 20 * np.sin(np.radians(LON))[None, None] * np.ones((4, 36, 1))
    mask = np.zeros((4, 36, 72), np.int8)
    for step in range(4):
        mask[step, 20:24, [34 + step, 35 + step, 36 + step]] = 1
        mask[step, 26:28, 10 : 20 + step] = 2
    coords = {"time": times, "lat": LAT, "lon": LON}
    dims = ("time", "lat", "lon")
    return xr.Dataset(
        {
            "TMQ": (dims, rise.astype(np.float32), {"units": "kg m-2"}),
            "U850": (dims, wind.astype(np.float32), {"units": "m s-1"}),
            "mask": (dims, mask),
        },
        coords,
    )


@pytest.fixture
def offline(browser: Any) -> Iterator[Callable[[Path], Opened]]:
    """Open a file with the network off and wait for a map."""
    contexts = []

    def open_file(path: Path) -> Opened:
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        contexts.append(context)
        context.set_offline(True)
        opened = Opened(context.new_page())
        page = opened.page
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
        page.on("console", lambda said: opened.errors.append(said.text) if said.type == "error" else None)
        local = ("file:", "data:", "blob:")
        page.on("request", lambda asked: None if asked.url.startswith(local) else opened.requests.append(asked.url))
        page.goto(path.resolve().as_uri())
        page.wait_for_selector("canvas", timeout=60_000)
        return opened

    yield open_file
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def fields() -> xr.Dataset:
    """Fields and mask that the maps of these tests show."""
    return _dataset()


@pytest.fixture(scope="module")
def saved(fields: xr.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Page of a map with mask and truth."""
    folder = tmp_path_factory.mktemp("maps")
    truth = fields.mask.roll(lat=1, roll_coords=False)
    return maps.explore(fields, fields.mask, truth).save(folder / "map.html")
