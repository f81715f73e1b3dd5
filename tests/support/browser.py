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
    from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Request

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
        try:
            with browser:
                yield browser
        finally:
            _file_pages.pop(browser, None)


_file_pages: dict[Browser, Page] = {}
"""The tab of each browser that shows files."""
_TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Charts are drawn when their size is observed, which is in the first frame after the load."""


@contextmanager
def opened_page(
    browser: Browser, address: str | Path, *, width: int = 1280, scheme: Scheme = "light"
) -> Iterator[WatchedPage]:
    """A page at an address, or of a file, once it is loaded and its charts are drawn.

    One tab shows all files of a browser, one after another, as they keep nothing: a new tab takes
    three quarters of a second of CPU. Addresses may leave cookies and scripts, and have their own.

    Args:
        browser: The browser.
        address: Address, or path of a file.
        width: Width of the window in pixels.
        scheme: Colours that the user prefers.
    """
    is_file = isinstance(address, Path)
    page = _file_pages.pop(browser, None) if is_file else None
    if page is None:
        page = browser.new_context(accept_downloads=False).new_page()
    assert page.url == "about:blank", "the tab shows nothing of before"
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media="screen", color_scheme=scheme)
    watched = WatchedPage(page)

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            watched.complaints.append(message.text)

    def on_request(request: Request) -> None:
        watched.requests.append(request.url)

    def on_error(error: Error) -> None:
        watched.complaints.append(str(error))

    page.on("console", on_console)
    page.on("request", on_request)
    page.on("pageerror", on_error)
    try:
        page.goto(address.absolute().as_uri() if isinstance(address, Path) else address)
        page.evaluate(_TWO_FRAMES)
        yield watched
    except BaseException:
        page.context.close()
        raise
    if not is_file:
        page.context.close()
        return
    page.remove_listener("console", on_console)
    page.remove_listener("request", on_request)
    page.remove_listener("pageerror", on_error)
    page.mouse.move(0, 0)  # or a chart of the next page would show what is below the mouse
    page.goto("about:blank")
    _file_pages[browser] = page
