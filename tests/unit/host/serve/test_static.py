"""The page itself in a browser, with test messages in place of a server's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.browser import WatchedPage, opened_page, started_browser

from edgebench.host import serve
from edgebench.host.serve.app import history_table, page
from edgebench.host.serve.rows import CampaignLaneRow, CampaignRow, DeviceRow, RunRow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

pytestmark = pytest.mark.slow

STATIC = Path(serve.__file__).parent / "static"
SITE = "http://localhost:1"
EMPTY = [
    "nothing is being measured",
    "no campaign in this store",
    "no device is paired with this host",
    "no run in this store",
]
RUN = RunRow(
    run_id="20260102-030405-0123abcd",
    created_utc="2026-01-02T03:04:05+00:00",
    device="raspberry-pi-5-in-the-rack-by-the-window",
    model="mobilenet_v2_1.0_224_quantized_per_channel.tflite",
    runtime="onnxruntime",
    scenario="single_stream",
    number="12.34 ms ± 0.05 ms",
    metric="latency p50",
    energy="",
    verdict="suspect",
    remark="latency_drift_over_the_run, clock_below_maximum; simulated",
    tags="before-the-update-of-the-kernel",
)
DEVICE = DeviceRow(
    device=RUN.device,
    address="wss://raspberry-pi-5-in-the-rack-by-the-window.example.org:7845",
    health="quarantined",
    remark="UnreachableAfterManyAttempts" * 6,
    seen_utc=RUN.created_utc,
    used_by="",
    labels="",
    meter="",
)
CAMPAIGN = CampaignRow(
    name="night",
    created_utc=RUN.created_utc,
    is_running=True,
    run_count=4,
    measured_count=1,
    failed_count=0,
    left_count=3,
    left_s=None,
    at_utc=RUN.created_utc,
    lanes=(
        CampaignLaneRow(
            device=RUN.device * 6,
            state="between runs",
            measured_count=1,
            failed_count=0,
            left_count=3,
            left_s=None,
        ),
    ),
)
EVENTS = "window.EventSource = class { constructor() { window.source = this; } };"
"""Script in place of the connection: the test calls the page's event handlers."""
BROKEN = """() => {
  const broken = [];
  for (const one of document.querySelectorAll("th, .state")) {
    const text = one.firstChild;
    for (const word of text.textContent.matchAll(/\\S+/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""
"""Words of table headings, states and verdicts that are split over two lines."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for all pages, as it takes a second to start."""
    with started_browser() as started:
        yield started


@pytest.fixture
def seen(browser: Browser) -> Iterator[WatchedPage]:
    """A window that serves the site's files, with events from the test."""
    history = page("history", history_table([replace(RUN, energy="1.23 mJ ± 0.04 mJ")] * 3))

    def answer(route: Route) -> None:
        path = route.request.url.removeprefix(SITE)
        if path == "/history":
            route.fulfill(body=history, content_type="text/html")
        else:
            route.fulfill(path=STATIC / (path.strip("/") or "index.html"))

    with opened_page(browser, "about:blank") as opened:
        opened.page.route(f"{SITE}/**", answer)
        opened.page.add_init_script(EVENTS)
        yield opened


def send(seen: WatchedPage, **sections: dict[str, object]) -> None:
    """Send the whole overview, as the feed does."""
    data = json.dumps({"at_utc": RUN.created_utc, "is_whole": True, "sections": sections})
    seen.page.evaluate("(data) => source.onmessage({ data })", data)


def test_page_says_that_it_is_loading_until_the_first_data_are_there(seen: WatchedPage) -> None:
    """Otherwise a store of many runs would look empty for seconds, next to a green `live`."""
    seen.page.goto(f"{SITE}/")
    link = seen.page.locator("#link")
    for status in ("connecting", "loading"):
        assert (link.inner_text(), link.get_attribute("class") or "") == (status, "")
        assert seen.page.locator("main .empty:visible").all_inner_texts() == ["loading…"] * 4
        assert seen.page.locator("table:visible").count() == 0
        seen.page.evaluate("source.onopen()")
    send(seen, runs={RUN.run_id: asdict(RUN)})
    assert (link.inner_text(), link.get_attribute("class")) == ("live", "live")
    assert seen.page.locator("main .empty:visible").all_inner_texts() == EMPTY[:3]
    send(seen)
    assert seen.page.locator("main .empty:visible").all_inner_texts() == EMPTY
    seen.page.evaluate("source.onerror()")
    assert link.get_attribute("class") == "lost"
    seen.page.evaluate("source.onopen()")
    assert (link.inner_text(), link.get_attribute("class")) == ("loading", "")
    assert seen.complaints == []


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_states_verdicts_and_headings_are_broken_between_words_only(
    seen: WatchedPage, width: int
) -> None:
    """Otherwise `suspect` would take three lines, or the page scroll sideways for it."""
    seen.page.set_viewport_size({"width": width, "height": 900})
    seen.page.goto(f"{SITE}/")
    send(
        seen,
        runs={RUN.run_id: asdict(RUN)},
        devices={DEVICE.device: asdict(DEVICE)},
        campaigns={"20260102-night": asdict(CAMPAIGN)},
    )
    seen.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    words = seen.page.locator(".state").all_inner_texts()
    assert words == ["between runs", "quarantined", "suspect"]
    assert seen.page.evaluate(BROKEN) == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    seen.page.goto(f"{SITE}/history")
    assert seen.page.locator(".state").all_inner_texts() == ["suspect"] * 3
    assert seen.page.evaluate(BROKEN) == []
    assert seen.complaints == []
