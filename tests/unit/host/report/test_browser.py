"""Reports in a browser: they draw, request nothing, and zoom together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.board_runs import stored_board_run
from support.browser import Scheme, opened_page, serious_violations, started_browser
from support.reported import (
    BASELINE,
    CANDIDATE,
    INVALID,
    METERED,
    PROFILE,
    campaign_facts,
    campaign_sets,
    reported,
    runs_of_set,
    store_of_days,
    stored_run,
)

from edgebench.host.report.page import campaign_report, find_reported, run_report
from edgebench.host.report.subject import ReportedRun
from edgebench.host.result.verdict import State, Verdict

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

UNFOLDED = "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
KINDS = ("run", "invalid", "profile", "set", "side by side", "board", "history", "campaign")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for all pages, as it takes a second to start."""
    with started_browser() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    members = runs_of_set(stored_run(METERED))
    board = stored_board_run(folder / "board")
    days = store_of_days(folder / "store", 12, 6)
    texts = {
        "run": run_report(reported(METERED)),
        "invalid": run_report(reported(INVALID)),
        "profile": run_report(reported(PROFILE)),
        "set": run_report([ReportedRun(run, reported(METERED)[0].directory) for run in members]),
        "side by side": run_report(reported(BASELINE, CANDIDATE)),
        "board": run_report([ReportedRun(board.run, board.directory)]),
        "history": run_report(find_reported(days, days.run_ids()[-1:])),
        "campaign": campaign_report(campaign_facts(campaign_sets())),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, "utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def ranges(page: Page) -> set[tuple[str | None, str | None]]:
    """Begin and end of every panel of the first time chart."""
    panels = page.locator("figure[data-chart^=time]").first.locator("svg[data-panel]")
    return {
        (one.get_attribute("data-begin"), one.get_attribute("data-end")) for one in panels.all()
    }


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_page_draws_and_asks_for_nothing(
    browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: Scheme
) -> None:
    """Otherwise a page would send requests, or be empty without a network."""
    with opened_page(browser, pages[name], width=width, scheme=scheme) as watched:
        page = watched.page
        page.evaluate(UNFOLDED)
        for figure in page.locator("figure").all():
            figure.locator("svg").first.wait_for(state="attached")
        assert watched.complaints == []
        assert watched.requests == [pages[name].as_uri()]
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, "the page itself never scrolls sideways"


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [*((kind, 1280, "light") for kind in KINDS), ("run", 390, "dark"), ("campaign", 390, "dark")],
)
def test_page_can_be_read_by_everybody(
    browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: Scheme
) -> None:
    """Otherwise text would be too pale, or a screen reader would have no name for a control."""
    with opened_page(browser, pages[name], width=width, scheme=scheme) as watched:
        watched.page.evaluate(UNFOLDED)
        assert serious_violations(watched.page) == []


def test_panels_zoom_together(browser: Browser, pages: dict[str, Path]) -> None:
    """Otherwise power would stand next to latencies of another time."""
    with opened_page(browser, pages["run"]) as watched:
        page = watched.page
        page.wait_for_selector("svg[data-panel=Power]")
        [full] = ranges(page)
        page.locator("svg[data-panel=Power]").scroll_into_view_if_needed()
        box = page.locator("svg[data-panel=Power]").bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + 400, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + 600, middle)
        page.mouse.up()
        [zoomed] = ranges(page)
        assert float(zoomed[0] or 0) > float(full[0] or 0)
        assert float(zoomed[1] or 0) < float(full[1] or 0)
        figure = page.locator("figure[data-chart^=time]").first
        figure.focus()
        page.keyboard.press("ArrowRight")
        [panned] = ranges(page)
        assert float(panned[0] or 0) > float(zoomed[0] or 0)
        page.keyboard.press("0")
        assert ranges(page) == {full}
        page.get_by_label("Zoom in").first.click()
        assert ranges(page) != {full}
        page.mouse.dblclick(box["x"] + 300, middle)
        assert ranges(page) == {full}
        page.mouse.move(box["x"] + 500, middle)
        power = page.locator("svg[data-panel=Power] tspan").text_content() or ""
        assert re.fullmatch(r"500 mW \(500 mW to 500 mW\)", power), "it is constant"
        assert watched.complaints == []


def test_windows_of_a_board_zoom_with_its_phases(browser: Browser, pages: dict[str, Path]) -> None:
    """Otherwise windows would stand still under phases that move."""
    with opened_page(browser, pages["board"]) as watched:
        page = watched.page
        [full] = ranges(page)
        bars = page.locator("svg[data-panel] path.windows")
        before = bars.get_attribute("d")
        phases = page.locator("figure[data-chart^=time] svg rect.measuring")
        width = float(phases.get_attribute("width") or 0)
        page.get_by_label("Zoom in").click()
        assert ranges(page) != {full}
        assert bars.get_attribute("d") != before
        assert float(phases.get_attribute("width") or 0) == pytest.approx(2 * width, rel=1e-3)
        assert watched.complaints == []


def test_history_draws_every_point_and_level(browser: Browser, pages: dict[str, Path]) -> None:
    """Otherwise the night from which a model is slow would be missing in the picture."""
    with opened_page(browser, pages["history"]) as watched:
        figure = watched.page.locator("figure[data-chart^=history]")
        assert figure.locator(".point").count() == 12
        assert figure.locator(".point.shown").count() == 1
        heights = [one.get_attribute("d") for one in figure.locator("path.level").all()]
        assert len(set(heights)) == 2
        assert watched.complaints == []


def test_distributions_that_are_left_out_are_counted(browser: Browser, tmp_path: Path) -> None:
    """Otherwise a page of seven results would seem to draw all of them."""
    [base] = reported(BASELINE)
    trusted = Verdict(state=State.VALID, rules=())
    runs = [
        replace(
            base.run,
            run_id=f"{base.run.run_id[:-1]}{place}",
            model=replace(base.run.model, name=f"{place}.tflite"),
            verdict=trusted,
            pair=None,
        )
        for place in range(7)
    ]
    path = tmp_path / "seven.html"
    path.write_text(run_report([replace(base, run=run) for run in runs]), "utf-8")
    with opened_page(browser, path) as watched:
        caption = watched.page.locator("figure[data-chart=overlay] figcaption").text_content()
    assert caption is not None
    assert caption.startswith("6 of 7 results. Bars: ")


def test_theme_can_be_changed(browser: Browser, pages: dict[str, Path]) -> None:
    """Otherwise a dark page would be unreadable on a projector."""
    with opened_page(browser, pages["run"]) as watched:
        page, colour = watched.page, "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(colour)
        page.locator("#theme").click()
        assert page.evaluate(colour) != before
        page.locator("#theme").click()
        assert page.evaluate(colour) == before
        assert watched.complaints == []


def test_print_shows_what_is_folded(browser: Browser, pages: dict[str, Path]) -> None:
    """Otherwise a printed page would lack the tables of its charts."""
    with opened_page(browser, pages["run"]) as watched:
        page = watched.page
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open])").count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details:not([open])").count() > 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_traces_fit_a_phone(browser: Browser, pages: dict[str, Path], scheme: Scheme) -> None:
    """Otherwise panels on a phone would have no height, or be wider than the screen."""
    with opened_page(browser, pages["run"], width=390, scheme=scheme) as watched:
        panels = watched.page.locator("figure[data-chart^=time]").first.locator("svg[data-panel]")
        assert panels.count() > 1
        for one in panels.all():
            box = one.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert 300 < box["width"] <= 390
            assert box["height"] > 80
        assert len(ranges(watched.page)) == 1
        assert watched.complaints == []


def test_two_fingers_zoom_every_panel(browser: Browser, pages: dict[str, Path]) -> None:
    """Otherwise traces of ten minutes would stay a smear on a phone, which has no wheel."""
    with opened_page(browser, pages["run"], width=390) as watched:
        page = watched.page
        panel = page.locator("figure[data-chart^=time] svg[data-panel=Latency]")
        panel.scroll_into_view_if_needed()
        [full] = ranges(page)
        box = panel.bounding_box()
        assert box is not None
        y, middle = box["y"] + box["height"] / 2, box["x"] + box["width"] / 2
        touch = page.context.new_cdp_session(page)
        touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})

        def fingers(kind: str, apart: float | None) -> None:
            places = [] if apart is None else [middle - apart, middle + apart]
            points = [{"x": x, "y": y, "id": number} for number, x in enumerate(places)]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        fingers("touchStart", 30)
        for apart in (40, 60, 80, 100):
            fingers("touchMove", apart)
        fingers("touchEnd", None)
        touch.detach()
        [zoomed] = ranges(page)
        full_s, zoomed_s = (float(end or 0) - float(begin or 0) for begin, end in (full, zoomed))
        assert zoomed_s == pytest.approx(full_s * 0.3, rel=0.1), "a third of the distance"
        assert watched.complaints == []


def test_keyboard_reaches_and_moves_every_chart(browser: Browser, pages: dict[str, Path]) -> None:
    """Otherwise a user without a mouse would see only one view of the run."""
    with opened_page(browser, pages["run"]) as watched:
        page = watched.page
        reached = "document.activeElement.matches('figure[data-chart^=time]')"
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(reached):
                break
        assert page.evaluate(reached)
        [full] = ranges(page)
        page.keyboard.press("+")
        [zoomed] = ranges(page)
        assert zoomed != full
        page.keyboard.press("Shift+ArrowRight")
        readout = page.locator("figure[data-chart^=time] .readout").first.text_content() or ""
        assert " to " not in readout, "one time, not the range"
        page.keyboard.press("Escape")
        assert ranges(page) == {full}


@pytest.mark.parametrize("name", [kind for kind in KINDS if kind != "invalid"])
def test_every_chart_has_its_table(browser: Browser, pages: dict[str, Path], name: str) -> None:
    """Otherwise a user who cannot see a picture would get none of its numbers."""
    with opened_page(browser, pages[name]) as watched:
        without = watched.page.evaluate(
            "[...document.querySelectorAll('figure[data-chart]')]"
            ".filter((one) => !one.closest('section').querySelector('table'))"
            ".map((one) => one.dataset.chart)"
        )
        assert without == []


def test_print_is_black_on_white(browser: Browser, pages: dict[str, Path]) -> None:
    """Otherwise a dark page would take a cartridge of ink, and its buttons would be printed."""
    with opened_page(browser, pages["run"], scheme="dark") as watched:
        page = watched.page
        page.emulate_media(media="print", color_scheme="dark")
        style = "getComputedStyle(document.querySelector({!r})).{}"
        assert page.evaluate(style.format("body", "backgroundColor")) == "rgb(255, 255, 255)"
        assert page.evaluate(style.format("body", "color")) == "rgb(0, 0, 0)"
        assert page.evaluate(style.format("figure .tools", "display")) == "none"
        assert page.evaluate(style.format("#theme", "display")) == "none"
