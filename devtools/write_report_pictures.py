"""Make the pictures of docs/report.md from real reports, in Debian's chromium.

    python devtools/write_report_pages.py FOLDER
    python devtools/write_report_pictures.py FOLDER             # the pictures of the docs
    python devtools/write_report_pictures.py FOLDER --look DIR  # every page, whole, in four ways

Pictures have a pixel for each CSS pixel, and few colours, so that their text is readable and their
files are small. With --look, the pictures are for review, not for the docs: they show all pages
whole, with all folded parts open, at widths of 1280 and 390 pixels, each in the light and in the
dark colour scheme.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
MAX_BYTES = 40_000
COLOURS = 48
Scheme = Literal["light", "dark"]
OPEN_ALL = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"


@dataclass(frozen=True)
class Picture:
    """A picture of a part of a page."""

    name: str
    page: str
    """Name of a page that write_report_pages.py makes."""
    width: int
    height: int
    scheme: Scheme
    from_text: str
    """Heading at the top of the picture; if empty, the picture begins at the top of the page."""


WANTED = (
    Picture("report", "run", 1280, 640, "light", ""),
    Picture("report-traces", "run", 1280, 760, "dark", "Over time"),
    Picture("report-energy", "run", 1280, 560, "light", "Energy"),
    Picture("report-phone", "run", 390, 700, "light", ""),
    Picture("report-phone-traces", "run", 390, 700, "dark", "Over time"),
    Picture("report-set", "set", 1280, 580, "light", "Variation between runs"),
    Picture("report-set-phone", "set", 390, 700, "dark", ""),
    Picture("report-side-by-side", "side-by-side", 1280, 640, "light", ""),
    Picture("report-side-by-side-phone", "side-by-side", 390, 700, "dark", "Side by side"),
    Picture("report-profile", "profile", 1280, 260, "dark", "Operators"),
    Picture("report-profile-phone", "profile", 390, 600, "light", "Operators"),
    Picture("report-board", "board", 1280, 660, "light", ""),
    Picture("report-board-phone", "board", 390, 700, "dark", ""),
    Picture("report-invalid", "invalid", 1280, 540, "dark", ""),
    Picture("report-invalid-phone", "invalid", 390, 700, "light", ""),
    Picture("report-failed", "failed", 1280, 420, "light", ""),
    Picture("report-failed-phone", "failed", 390, 600, "dark", ""),
    Picture("report-campaign", "campaign", 1280, 640, "light", ""),
    Picture("report-front", "campaign", 1280, 480, "light", "Pareto front"),
    Picture("report-campaign-phone", "campaign", 390, 700, "dark", "By cell"),
    Picture("report-history", "history", 1280, 480, "light", "History of this model"),
    Picture("report-history-phone", "history", 390, 600, "dark", "History of this model"),
)
"""Pictures of each kind of page at both widths, some in the light and some in the dark scheme."""


def main(folder: Path, look: Path | None) -> int:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        with browser:
            if look is not None:
                look_at_all(browser, folder, look)
                return 0
            return write_pictures(browser, folder)


def write_pictures(browser: Browser, folder: Path) -> int:
    PICTURES.mkdir(exist_ok=True)
    for one in WANTED:
        page = opened(browser, folder / f"{one.page}.html", one.width, one.height, one.scheme)
        if one.from_text:
            heading = page.locator("h2", has_text=one.from_text).first
            heading.evaluate("(heading) => heading.scrollIntoView()")
        path = PICTURES / f"{one.name}.png"
        write_small(path, page.screenshot())
        page.close()
        print(f"{path.name}: {path.stat().st_size} bytes")
    large = [one.name for one in WANTED if size_of(one) > MAX_BYTES]
    if large:
        print(f"over {MAX_BYTES} bytes: {', '.join(large)}", file=sys.stderr)
    return 1 if large else 0


def size_of(picture: Picture) -> int:
    return (PICTURES / f"{picture.name}.png").stat().st_size


def look_at_all(browser: Browser, folder: Path, look: Path) -> None:
    look.mkdir(parents=True, exist_ok=True)
    ways: list[tuple[int, Scheme]] = [
        (1280, "light"),
        (1280, "dark"),
        (390, "light"),
        (390, "dark"),
    ]
    for source in sorted(folder.glob("*.html")):
        for width, scheme in ways:
            page = opened(browser, source, width, 900, scheme)
            page.evaluate(OPEN_ALL)
            page.wait_for_timeout(300)
            wide = page.evaluate("document.documentElement.scrollWidth")
            path = look / f"{source.stem}-{width}-{scheme}.png"
            page.screenshot(path=path, full_page=True)
            print(f"{path.name}: {wide} wide" + (" TOO WIDE" if wide > width else ""))
            page.close()


def opened(browser: Browser, source: Path, width: int, height: int, scheme: Scheme) -> Page:
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.on("console", lambda message: print(f"{source.name}: console: {message.text}"))
    page.on("pageerror", lambda error: print(f"{source.name}: error: {error}"))
    page.goto(source.absolute().as_uri())
    return page


def write_small(path: Path, picture: bytes) -> None:
    shot = Image.open(io.BytesIO(picture)).convert("RGB")
    shot.quantize(COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--look", type=Path, metavar="DIR")
    options = parser.parse_args()
    sys.exit(main(options.folder, options.look))
