"""Make the pictures of docs/report.md from real reports, in Debian's chromium.

    python devtools/write_report_pictures.py RUN.html SIDE_BY_SIDE.html CAMPAIGN.html

RUN.html is a report of a metered, sustained run, as of a simulated board; the second one has two
sets. Pictures have one pixel for each dot and few colours, so that their text can be read and their
files are small.
"""

from __future__ import annotations

import io
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
MAX_BYTES = 60_000
COLOURS = 48


@dataclass(frozen=True)
class Picture:
    """A part of a page."""

    name: str
    source: int
    """Place of the page among the arguments."""
    width: int
    height: int
    scheme: Literal["light", "dark"]
    from_text: str
    """Heading at the top of the picture."""


WANTED = (
    Picture("report", 0, 1280, 720, "light", ""),
    Picture("report-traces", 0, 1280, 760, "dark", "Over time"),
    Picture("report-energy", 0, 1280, 560, "light", "Energy"),
    Picture("report-phone", 0, 390, 700, "light", ""),
    Picture("report-phone-traces", 0, 390, 700, "dark", "Over time"),
    Picture("report-side-by-side", 1, 1280, 700, "light", ""),
    Picture("report-side-by-side-phone", 1, 390, 700, "dark", ""),
    Picture("report-campaign", 2, 1280, 1250, "light", "By cell"),
    Picture("report-campaign-phone", 2, 390, 700, "dark", "By cell"),
)


def main(*sources: str) -> int:
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for one in WANTED:
            page = browser.new_page(
                viewport={"width": one.width, "height": one.height}, color_scheme=one.scheme
            )
            page.goto(Path(sources[one.source]).absolute().as_uri())
            if one.from_text:
                heading = page.locator("h2", has_text=one.from_text).first
                heading.evaluate("(heading) => heading.scrollIntoView()")
            shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            path = PICTURES / f"{one.name}.png"
            shot.quantize(COLOURS).save(path, optimize=True)
            print(f"{path.name}: {path.stat().st_size} bytes")
            if path.stat().st_size > MAX_BYTES:
                print(f"too large: over {MAX_BYTES} bytes", file=sys.stderr)
                return 1
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
