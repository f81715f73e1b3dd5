"""A real browser that opens a page, and records the page's errors and requests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from support.tools import need_tool

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Request

CHROMIUM = "chromium"
ARGUMENTS = (
    "--no-sandbox",  # the tests of CI run as root
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--no-first-run",
)
Scheme = Literal["light", "dark"]


@dataclass(slots=True)
class WatchedPage:
    """A page, and what was observed of it."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, and exceptions that nobody caught."""
    requests: list[str] = field(default_factory=list)
    """Addresses that were asked for."""


def serious_violations(page: Page) -> list[str]:
    """What axe-core finds on a page that keeps people from reading it, with an element of each."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:120]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


@contextmanager
def started_browser() -> Iterator[Browser]:
    """Debian's chromium, without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no Playwright for this machine")
    need_tool(CHROMIUM)
    with sync_api.sync_playwright() as playwright:
        path = shutil.which(CHROMIUM)
        browser: Browser = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS])
        with browser:
            yield browser


_TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Charts are drawn when their size is observed, which is in the first frame after the load."""


@contextmanager
def opened_page(
    browser: Browser, address: str | Path, *, width: int = 1280, scheme: Scheme = "light"
) -> Iterator[WatchedPage]:
    """A page at an address, or of a file, once it is loaded and its charts are drawn.

    Args:
        browser: The browser.
        address: Address, or path of a file.
        width: Width of the window in pixels.
        scheme: Colours that the user prefers.
    """
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=False
    )
    watched = WatchedPage(page)

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            watched.complaints.append(message.text)

    def note(request: Request) -> None:
        watched.requests.append(request.url)

    page.on("console", hear)
    page.on("request", note)
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    try:
        page.goto(address.absolute().as_uri() if isinstance(address, Path) else address)
        page.evaluate(_TWO_FRAMES)
        yield watched
    finally:
        page.close()
