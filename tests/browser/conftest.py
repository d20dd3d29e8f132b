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

if TYPE_CHECKING:
    from playwright.sync_api import Page


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
